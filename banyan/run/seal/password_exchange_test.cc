#include "banyan/run/seal/password_exchange.h"

#include <gtest/gtest.h>

#include <string>

#include "banyan/run/seal/primitives.h"

namespace banyan::run {
namespace {

std::string from_hex(const std::string& text) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); i += 2) bytes += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
  return bytes;
}
std::string to_hex(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) {
    text += "0123456789abcdef"[static_cast<unsigned char>(byte) >> 4];
    text += "0123456789abcdef"[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

// RFC 9382, appendix B, the first of P-256.
TEST(PasswordExchange, IsThatOfTheRfc) {
  const auto password =
      Password::from_scalar(from_hex("2ee57912099d31560b3a44b1184b9b4866e904c49d12ac5042c97dca461b1a5f"));
  const PasswordExchange::Names names{.caller = "server", .callee = "client"};
  PasswordExchange a(true, password, names,
                     from_hex("43dd0fd7215bdcb482879fca3220c6a968e66d70b1356cac18bb26c84a78d729"));
  PasswordExchange b(false, password, names,
                     from_hex("dcb60106f276b02606d8ef0a328c02e4b629f84f89786af5befb0bc75b6e66be"));
  EXPECT_EQ(
      to_hex(a.share()),
      "04a56fa807caaa53a4d28dbb9853b9815c61a411118a6fe516a8798434751470f9010153ac33d0d5f2047ffdb1a3e42c9b4e6be6627"
      "66e1eeb4116988ede5f912c");
  EXPECT_EQ(
      to_hex(b.share()),
      "0406557e482bd03097ad0cbaa5df82115460d951e3451962f1eaf4367a420676d09857ccbc522686c83d1852abfa8ed6e4a1155cf8f1"
      "543ceca528afb591a1e0b7");
  ASSERT_TRUE(a.take(b.share(), "") && b.take(a.share(), ""));
  EXPECT_EQ(to_hex(a.key()), "0e0672dc86f8e45565d338b0540abe69");
  EXPECT_EQ(b.key(), a.key());
  EXPECT_EQ(to_hex(a.own_proof()), "58ad4aa88e0b60d5061eb6b5dd93e80d9c4f00d127c65b3b35b1b5281fee38f0");
  EXPECT_EQ(to_hex(b.own_proof()), "d3e2e547f1ae04f2dbdbf0fc4b79f8ecff2dff314b5d32fe9fcef2fb26dc459b");
  EXPECT_TRUE(a.is_proof_of_peer(b.own_proof()) && b.is_proof_of_peer(a.own_proof()));
}

struct Ends {
  explicit Ends(const std::string& of_caller = std::string(48, 'p'),
                const std::string& of_callee = std::string(48, 'p'))
      : caller(true, Password::from_key(of_caller)), callee(false, Password::from_key(of_callee)) {}
  PasswordExchange caller, callee;
};

TEST(PasswordExchange, ConvincesNobodyWithAnotherPassword) {
  Ends ends(std::string(48, 'p'), std::string(47, 'p') + 'q');
  ASSERT_TRUE(ends.caller.take(ends.callee.share(), "c") && ends.callee.take(ends.caller.share(), "c"));
  EXPECT_FALSE(ends.caller.is_proof_of_peer(ends.callee.own_proof()));
  EXPECT_FALSE(ends.callee.is_proof_of_peer(ends.caller.own_proof()));
  EXPECT_NE(ends.caller.key(), ends.callee.key());
}

TEST(PasswordExchange, CoversWhatBothHaveSaid) {
  Ends ends;
  ASSERT_TRUE(ends.caller.take(ends.callee.share(), "banyan/2") && ends.callee.take(ends.caller.share(), "banyan/1"));
  EXPECT_FALSE(ends.caller.is_proof_of_peer(ends.callee.own_proof()));
  EXPECT_FALSE(ends.callee.is_proof_of_peer(ends.caller.own_proof()));
}

// Whoever sends back what it hears proves nothing.
TEST(PasswordExchange, IsNotFooledByItsOwnWords) {
  Ends ends;
  const std::string share = ends.caller.share();
  ASSERT_TRUE(ends.caller.take(share, "c"));
  EXPECT_FALSE(ends.caller.is_proof_of_peer(ends.caller.own_proof()));
}

TEST(PasswordExchange, IsAnotherOneEachTime) {
  const Ends first, second;
  EXPECT_NE(first.caller.share(), second.caller.share());
  EXPECT_NE(first.caller.share(), first.callee.share());
}

TEST(PasswordExchange, TakesPointsOfItsCurveOnly) {
  Ends ends;
  std::string off_curve = ends.callee.share();
  off_curve.back() = static_cast<char>(off_curve.back() ^ 1);
  for (const std::string& share : {std::string(), std::string(65, '\0'), std::string(1, '\0'), std::string(65, '\xff'),
                                   off_curve, ends.callee.share().substr(1), ends.callee.share() + "x"}) {
    EXPECT_FALSE(ends.caller.take(share, "c")) << to_hex(share);
  }
}

// RFC 5869, A.1 and A.3; RFC 7914, 12; RFC 4231, 1 and 2.
TEST(Primitives, AreThoseOfTheRfcs) {
  EXPECT_EQ(to_hex(hkdf_sha256(std::string(22, '\x0b'), from_hex("000102030405060708090a0b0c"),
                               from_hex("f0f1f2f3f4f5f6f7f8f9"), 42)),
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865");
  EXPECT_EQ(to_hex(hkdf_sha256(std::string(22, '\x0b'), "", "", 42)),
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8");
  EXPECT_EQ(
      to_hex(scrypt("pleaseletmein", "SodiumChloride", 16384, 64)),
      "7023bdcb3afd7348461c06cd81fd38ebfda8fbba904f8e3ea9b543f6545da1f2d5432955613f0fcf62d49705242a9af9e61e85dc0d651"
      "e40dfcf017b45575887");
  EXPECT_EQ(to_hex(hmac_sha256(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(to_hex(hmac_sha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

}  // namespace
}  // namespace banyan::run
