#include "banyan/run/join/secret.h"

#include <sys/stat.h>

#include <cstdio>

#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

constexpr const char* kDigits = "000102030405060708090a0b0c0d0e0f";

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
    return testing::error_of([&] { Secret::from_environment(); });
  }

  std::string path_ = ::testing::TempDir() + "banyan_secret_" + std::to_string(getpid());
};

TEST_F(SecretFromEnvironment, IsNoneWhenNothingIsSet) { EXPECT_TRUE(Secret::from_environment().is_empty()); }

TEST_F(SecretFromEnvironment, IsTheVariable) {
  setenv("BANYAN_SECRET", kDigits, 1);
  EXPECT_EQ(Secret::from_environment().key(), kDigits);
}

TEST_F(SecretFromEnvironment, IsTheFileWithoutItsNewline) {
  write(std::string(kDigits) + "\n");
  EXPECT_EQ(Secret::from_environment().key(), kDigits);
}

TEST_F(SecretFromEnvironment, RefusesAFileThatOthersMayReadOrWriteTo) {
  for (const mode_t mode : {0640, 0604, 0622, 0620, 0602, 0601}) {
    write(kDigits, mode);
    EXPECT_THAT(message(), HasSubstr("chmod 600")) << std::oct << mode;
  }
}

TEST_F(SecretFromEnvironment, RefusesAFileThatAnotherUserHasChosen) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  write(kDigits);
  ASSERT_EQ(chown(path_.c_str(), 1001, 1001), 0);
  EXPECT_THAT(message(), HasSubstr("user 1001 owns " + path_));
}

// Each line says how to make a good one.
TEST_F(SecretFromEnvironment, RefusesWhatAPersonMayHaveThoughtOf) {
  const auto refusal_of = [](const std::string& key) {
    setenv("BANYAN_SECRET", key.c_str(), 1);
    return message();
  };
  const std::string rule = ", and has to be 32 or more hexadecimal digits, or 22 or more characters of base64",
                    mend = "; draw one: openssl rand -hex 16";
  EXPECT_EQ(refusal_of("short"), "BANYAN_SECRET: the secret has 5 characters" + rule + mend);
  EXPECT_EQ(refusal_of(""), "BANYAN_SECRET: the secret has 0 characters" + rule + mend);
  EXPECT_EQ(refusal_of("password12345678"), "BANYAN_SECRET: the secret has 16 characters" + rule + mend);
  EXPECT_EQ(refusal_of("0123456789abcdef012345678"), "BANYAN_SECRET: the secret has 25 characters" + rule + mend);
  EXPECT_EQ(refusal_of("correct horse battery staple"),
            "BANYAN_SECRET: the secret is made of other characters" + rule + mend);
  EXPECT_EQ(refusal_of(std::string(40, 'a')), "BANYAN_SECRET: the secret has fewer than 8 different characters" + mend);
  EXPECT_EQ(refusal_of("01234567012345670123456701234567"), "no error");  // 8 different digits: the rule
  EXPECT_EQ(refusal_of("0123456012345601234560123456012345"),
            "BANYAN_SECRET: the secret has fewer than 8 different characters" + mend);
  EXPECT_EQ(refusal_of("correcthorsebatterystaple"),
            "BANYAN_SECRET: the secret has letters of one case only, as words have" + mend);
  EXPECT_EQ(refusal_of(std::string(5000, 'a')), "BANYAN_SECRET: the secret is too long" + mend);
}

TEST_F(SecretFromEnvironment, TakesWhatMachinesDraw) {
  for (const char* drawn : {kDigits, "00112233445566778899AABBCCDDEEFF", "tF1y0c7dVYQmYFQkXw3yGg==",
                            "kJx2_p9-QWmZt4bR7vLc1A", "dEaWbRXlPKdVuDDSYCaNZKPxq1zcQaRjLc+r8sT/2Uk="}) {
    setenv("BANYAN_SECRET", drawn, 1);
    EXPECT_EQ(Secret::from_environment().key(), drawn);
  }
}

TEST_F(SecretFromEnvironment, RefusesBothAndMissing) {
  setenv("BANYAN_SECRET", kDigits, 1);
  write(kDigits);
  EXPECT_THAT(message(), HasSubstr("are both set"));
  forget();
  setenv("BANYAN_SECRET_FILE", "/nowhere/secret", 1);
  EXPECT_THAT(message(), HasSubstr("/nowhere/secret: No such file"));
}

TEST(Secret, SignsForItsKeyAndMessageOnly) {
  const Secret secret = Secret::parse(kDigits, ""), other = Secret::random();
  const std::string signature = secret.sign("message");
  EXPECT_EQ(signature.size(), 32u);
  EXPECT_EQ(Secret::parse(kDigits, "").sign("message"), signature);
  EXPECT_NE(secret.sign("massage"), signature);
  EXPECT_NE(other.sign("message"), signature);
  EXPECT_NE(Secret().sign("message"), signature);
}

TEST(Secret, HasAKeyForEachCallThatIsNoSignature) {
  const Secret secret = Secret::parse(kDigits, "");
  EXPECT_EQ(secret.key_for("3 calls 5").size(), 32u);
  EXPECT_EQ(secret.key_for("3 calls 5"), Secret::parse(kDigits, "").key_for("3 calls 5"));
  EXPECT_NE(secret.key_for("3 calls 5"), secret.key_for("5 calls 3"));
  EXPECT_NE(secret.key_for("3 calls 5"), Secret::random().key_for("3 calls 5"));
  EXPECT_NE(secret.key_for("3 calls 5"), secret.sign("3 calls 5"));
}

// One copy, which the kernel leaves out of dumps of memory ("dd": MADV_DONTDUMP).
TEST(Secret, IsInNoDumpOfMemory) {
  const Secret secret = Secret::random(), copy = secret;
  EXPECT_EQ(secret.key().data(), copy.key().data());
  std::ifstream maps("/proc/self/smaps");
  const auto place = reinterpret_cast<uintptr_t>(secret.key().data());
  bool is_within = false, is_left_out = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) is_within = begin <= place && place < end;
    if (is_within && line.starts_with("VmFlags:")) is_left_out = line.find(" dd") != std::string::npos;
  }
  EXPECT_TRUE(is_left_out);
}

TEST(SecretRandom, IsDifferentEachTime) {
  const std::string key(Secret::random().key());
  EXPECT_EQ(key.size(), 32u);
  EXPECT_EQ(key.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(key, Secret::random().key());
}

}  // namespace
}  // namespace banyan::run
