#include "banyan/run/join/secret.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>

#include "banyan/base/error.h"

namespace banyan::run {
namespace {

using ::testing::HasSubstr;

class SecretFromEnvironment : public ::testing::Test {
 protected:
  SecretFromEnvironment() { forget(); }
  ~SecretFromEnvironment() override {
    forget();
    std::filesystem::remove(path_);
  }
  static void forget() {
    unsetenv("BANYAN_SECRET");
    unsetenv("BANYAN_SECRET_FILE");
  }
  void write(const std::string& contents, mode_t mode = 0600) {
    std::ofstream(path_) << contents;
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
    setenv("BANYAN_SECRET_FILE", path_.c_str(), 1);
  }
  static std::string message() {
    try {
      Secret::from_environment();
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was thrown";
  }

  std::string path_ = ::testing::TempDir() + "banyan_secret_" + std::to_string(getpid());
};

TEST_F(SecretFromEnvironment, IsNoneWhenNothingIsSet) { EXPECT_TRUE(Secret::from_environment().is_empty()); }

TEST_F(SecretFromEnvironment, IsTheVariable) {
  setenv("BANYAN_SECRET", "sixteen bytes are", 1);
  EXPECT_EQ(Secret::from_environment().key(), "sixteen bytes are");
}

TEST_F(SecretFromEnvironment, IsTheFileWithoutItsNewline) {
  write("from a file, at last\n");
  EXPECT_EQ(Secret::from_environment().key(), "from a file, at last");
}

TEST_F(SecretFromEnvironment, RefusesAFileThatOthersMayReadOrWriteTo) {
  for (const mode_t mode : {0640, 0604, 0622, 0620, 0602, 0601}) {
    write("from a file, at last\n", mode);
    EXPECT_THAT(message(), HasSubstr("chmod 600")) << std::oct << mode;
  }
}

TEST_F(SecretFromEnvironment, RefusesAFileThatAnotherUserHasChosen) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  write("from a file, at last\n");
  ASSERT_EQ(chown(path_.c_str(), 1001, 1001), 0);
  EXPECT_THAT(message(), HasSubstr("user 1001 owns " + path_));
}

// Each line says how to make a good one.
TEST_F(SecretFromEnvironment, RefusesWhatIsEasyToGuess) {
  const auto refusal_of = [](const std::string& key) {
    setenv("BANYAN_SECRET", key.c_str(), 1);
    return message();
  };
  const std::string mend = "which others can guess; make one: openssl rand -hex 16";
  EXPECT_EQ(refusal_of("short"), "BANYAN_SECRET: the secret has 5 characters of the 16 that it needs, " + mend);
  EXPECT_EQ(refusal_of(""), "BANYAN_SECRET: the secret has 0 characters of the 16 that it needs, " + mend);
  EXPECT_EQ(refusal_of("passwordpasswor"),
            "BANYAN_SECRET: the secret has 15 characters of the 16 that it needs, " + mend);
  EXPECT_EQ(refusal_of(std::string(40, 'x')),
            "BANYAN_SECRET: the secret is made of 1 different characters, and needs 8, " + mend);
  EXPECT_THAT(refusal_of("passpasspasspasspass"), HasSubstr("is made of 3 different characters"));
  EXPECT_EQ(refusal_of(Secret::random().key()), "nothing was thrown");
}

TEST_F(SecretFromEnvironment, RefusesBothAndMissing) {
  setenv("BANYAN_SECRET", "the one in a variable", 1);
  write("the other in a file");
  EXPECT_THAT(message(), HasSubstr("are both set"));
  forget();
  setenv("BANYAN_SECRET_FILE", "/nowhere/secret", 1);
  EXPECT_THAT(message(), HasSubstr("/nowhere/secret: No such file"));
}

TEST(SecretSignature, HoldsForItsKeyAndMessageOnly) {
  const Secret secret("the banyan grows down"), other("the oak grows upwards");
  const std::string signature = secret.sign("message");
  EXPECT_EQ(signature.size(), 32u);
  EXPECT_EQ(Secret("the banyan grows down").sign("message"), signature);
  EXPECT_NE(secret.sign("massage"), signature);
  EXPECT_NE(other.sign("message"), signature);
  EXPECT_NE(Secret().sign("message"), signature);
}

// So that each guess costs 32 MiB and as much time; what a machine has drawn cannot be guessed anyway.
TEST(SecretSignature, StretchesWhatAPersonHasChosenOnce) {
  const auto cpu_time_of = [](const std::string& key) {
    timespec before{}, after{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    Secret(key).sign("message");
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    return static_cast<double>(after.tv_sec - before.tv_sec) +
           1e-9 * static_cast<double>(after.tv_nsec - before.tv_nsec);
  };
  const double first = cpu_time_of("chosen by a person"), again = cpu_time_of("chosen by a person"),
               drawn = cpu_time_of(Secret::random().key());
  std::printf("stretching takes %.1f ms, once stretched %.3f ms, a drawn one %.3f ms\n", first * 1e3, again * 1e3,
              drawn * 1e3);
  EXPECT_GT(first, 0.01);
  EXPECT_LT(again, first / 4);
  EXPECT_LT(drawn, first / 4);
}

TEST(SecretRandom, IsDifferentEachTime) {
  const std::string key = Secret::random().key();
  EXPECT_EQ(key.size(), 32u);
  EXPECT_EQ(key.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(key, Secret::random().key());
}

}  // namespace
}  // namespace banyan::run
