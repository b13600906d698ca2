#include "banyan/compose/settings.h"

#include <regex>

#include "banyan/base/file.h"
#include "banyan/testing/test.h"

namespace banyan::compose {
namespace {

class SettingsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : kNames) unsetenv(name);
  }
  void TearDown() override { SetUp(); }

  static std::string refusal(const Settings& settings) {
    return testing::error_of([&] { options_from(settings); });
  }

  static constexpr const char* kNames[] = {"BANYAN_TIMEOUT",   "BANYAN_TRANSPORT",   "BANYAN_CHECKSUMS",
                                           "BANYAN_SLICE",     "BANYAN_CONNECTIONS", "BANYAN_JOIN_TIMEOUT",
                                           "BANYAN_ENCRYPTION"};
};

TEST_F(SettingsTest, FieldsComeBeforeTheEnvironmentAndThatBeforeDefaults) {
  EXPECT_EQ(options_from({}).timeout, milliseconds(300'000));
  setenv("BANYAN_TIMEOUT", "2.5", 1);
  setenv("BANYAN_TRANSPORT", "tcp", 1);
  setenv("BANYAN_CHECKSUMS", "1", 1);
  setenv("BANYAN_CONNECTIONS", "3", 1);
  Settings settings;
  run::Communicator::Options options = options_from(settings);
  EXPECT_EQ(options.timeout, milliseconds(2500));
  EXPECT_EQ(options.transports, run::Communicator::Transports::tcp);
  EXPECT_TRUE(options.checksums);
  EXPECT_EQ(options.connections, 3u);
  EXPECT_EQ(options.encryption, run::Encryption::automatic);
  setenv("BANYAN_ENCRYPTION", "auth", 1);
  EXPECT_EQ(options_from(settings).encryption, run::Encryption::authenticated);
  settings.encryption = "full";
  EXPECT_EQ(options_from(settings).encryption, run::Encryption::encrypted);
  setenv("BANYAN_JOIN_TIMEOUT", "7", 1);
  EXPECT_EQ(options_from(settings).join_timeout, milliseconds(7000));
  settings.join_timeout = 3;
  settings.timeout = 0.25;
  settings.transport = "shm";
  settings.checksums = false;
  settings.connections = 2;
  options = options_from(settings);
  EXPECT_EQ(options.timeout, milliseconds(250));
  EXPECT_EQ(options.transports, run::Communicator::Transports::shared_memory);
  EXPECT_FALSE(options.checksums);
  EXPECT_EQ(options.connections, 2u);
  EXPECT_EQ(options.join_timeout, milliseconds(3000));
}

TEST_F(SettingsTest, WarnsAboutVariablesThatNothingReads) {
  const char* const environment[] = {"BANYAN_TRANSPRT=tcp",
                                     "BANYAN_TIMEOUT=3",
                                     "BANYAN_TEST_SEED=1",
                                     "PATH=/bin",
                                     "BANYAN_PARROT=1",
                                     "BANYAN_PYTHON=python3",
                                     nullptr};
  EXPECT_THAT(unknown_variables(environment),
              ::testing::ElementsAre("BANYAN_TRANSPRT is no variable of Banyan (did you mean 'BANYAN_TRANSPORT'?)",
                                     "BANYAN_PARROT is no variable of Banyan"));
}

// So that a new variable cannot be forgotten in the list of those that are known.
TEST_F(SettingsTest, KnowsEveryVariableThatTheSourcesRead) {
  const std::regex read(
      R"re((getenv|variable|has|text|time_from|switch_from|text_from)\([^"();]*"(BANYAN_[A-Z_]+)")re");
  std::set<std::string> names;
  for (const char* const folder : {"banyan", "bindings", "apps", "lab"}) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(BANYAN_SOURCE_DIR "/" + std::string(folder))) {
      if (entry.path().extension() != ".cc" || entry.path().stem().string().ends_with("_test")) continue;
      const std::string text = read_file(entry.path());
      for (std::sregex_iterator found(text.begin(), text.end(), read), end; found != end; ++found) {
        names.insert((*found)[2].str() + "=x");
      }
    }
  }
  EXPECT_GT(names.size(), 15u);
  std::vector<const char*> environment;
  for (const std::string& name : names) environment.push_back(name.c_str());
  environment.push_back(nullptr);
  EXPECT_THAT(unknown_variables(environment.data()), ::testing::IsEmpty());
}

TEST_F(SettingsTest, NamesTheFieldOrTheVariableThatIsWrong) {
  Settings settings;
  settings.where = "Options.";
  settings.timeout = -1;
  EXPECT_THAT(refusal(settings), AllOf(HasSubstr("Options.timeout"), HasSubstr("above zero")));
  settings = {};
  settings.where = "Options.";
  settings.connections = 17;
  EXPECT_THAT(refusal(settings), AllOf(HasSubstr("Options.connections=17"), HasSubstr("1 to 16")));
  settings = {};
  settings.transport = "pigeon";
  EXPECT_THAT(refusal(settings), HasSubstr("'pigeon' is not known (known: auto, shm, tcp, ucx, service)"));
  const std::pair<const char*, const char*> wrong[] = {{"BANYAN_TIMEOUT", "5 minutes"}, {"BANYAN_TIMEOUT", "0"},
                                                       {"BANYAN_CHECKSUMS", "yes"},     {"BANYAN_SLICE", "much"},
                                                       {"BANYAN_ENCRYPTION", "yes"},    {"BANYAN_CONNECTIONS", "0"}};
  for (const auto& [name, value] : wrong) {
    setenv(name, value, 1);
    EXPECT_THAT(refusal({}), AllOf(HasSubstr(name), HasSubstr(value)));
    unsetenv(name);
  }
}

// Where no plan is needed, it would otherwise be found out on the cluster only.
TEST_F(SettingsTest, ReadsTheFilesThatAreNamedAtOnce) {
  Settings settings;
  settings.fabric = "/nowhere/fabric.json";
  EXPECT_THAT(refusal(settings), HasSubstr("/nowhere/fabric.json"));
  settings.fabric = "ring:4";
  EXPECT_EQ(refusal(settings), "no error");
  settings.routes = "/nowhere/routes.json";
  EXPECT_THAT(refusal(settings), HasSubstr("/nowhere/routes.json"));
  settings = {};
  settings.plan = "/nowhere/plan.json";
  EXPECT_THAT(refusal(settings), HasSubstr("/nowhere/plan.json"));
}

}  // namespace
}  // namespace banyan::compose
