#include "banyan/run/join/secret.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cstdlib>
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
  write("from a file\n");
  EXPECT_EQ(Secret::from_environment().key(), "from a file");
}

TEST_F(SecretFromEnvironment, RefusesAFileThatOthersMayRead) {
  write("from a file\n", 0640);
  EXPECT_THAT(message(), HasSubstr("chmod 600"));
}

TEST_F(SecretFromEnvironment, RefusesWhatIsTooShortBothAndMissing) {
  setenv("BANYAN_SECRET", "short", 1);
  EXPECT_THAT(message(), HasSubstr("BANYAN_SECRET: the secret has 5 bytes"));
  write("long enough");
  EXPECT_THAT(message(), HasSubstr("are both set"));
  forget();
  setenv("BANYAN_SECRET_FILE", "/nowhere/secret", 1);
  EXPECT_THAT(message(), HasSubstr("/nowhere/secret: No such file"));
}

// RFC 4231, test cases 1 and 2.
TEST(SecretSignature, IsHmacSha256) {
  const auto hex = [](const std::string& bytes) {
    std::string text;
    for (const char byte : bytes) {
      text += "0123456789abcdef"[static_cast<unsigned char>(byte) >> 4];
      text += "0123456789abcdef"[static_cast<unsigned char>(byte) & 15];
    }
    return text;
  };
  EXPECT_EQ(hex(Secret(std::string(20, '\x0b')).sign("Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hex(Secret("Jefe").sign("what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(SecretSignature, HoldsForItsKeyAndMessageOnly) {
  const Secret secret("the banyan grows down");
  const std::string signature = secret.sign("message");
  EXPECT_TRUE(secret.is_signature("message", signature));
  EXPECT_FALSE(secret.is_signature("massage", signature));
  EXPECT_FALSE(Secret().is_signature("message", signature));
  EXPECT_FALSE(secret.is_signature("message", signature.substr(1)));
  EXPECT_FALSE(secret.is_signature("message", ""));
}

TEST(SecretRandom, IsDifferentEachTime) {
  const std::string key = Secret::random().key();
  EXPECT_EQ(key.size(), 32u);
  EXPECT_EQ(key.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(key, Secret::random().key());
}

}  // namespace
}  // namespace banyan::run
