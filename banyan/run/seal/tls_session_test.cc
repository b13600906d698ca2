#include "banyan/run/seal/tls_session.h"

#include <unistd.h>

#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

using State = TlsSession::State;

const std::string kGiven = "0123456789abcdef0123456789abcdef", kAnother = "0123456789abcdef0123456789abcdeg";

TlsSession::Find keys_of(const std::string& identity, const std::string& key) {
  return [=](std::string_view called) { return called == identity ? key : std::string(); };
}

// The records in it, each taken alone, as from a socket.
void take_all(TlsSession& session, std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t size = TlsSession::kHeadSize + TlsSession::size_after(bytes);
    ASSERT_GT(size, TlsSession::kHeadSize);
    ASSERT_LE(size, bytes.size());
    session.take(bytes.substr(0, size));
    bytes.remove_prefix(size);
    if (session.state() != State::shaking && session.state() != State::done) return;
  }
}

struct TlsPair {
  explicit TlsPair(const std::string& identity = "3 calls 5", const std::string& key = kGiven)
      : caller(identity, key), callee(keys_of("3 calls 5", kGiven)) {}
  TlsSession caller, callee;
  size_t carried = 0;
  void shake_hands() {
    for (int i = 0; i < 3; ++i) {
      for (auto [from, to] : {std::pair(&caller, &callee), std::pair(&callee, &caller)}) {
        const std::string said = from->said();
        carried += said.size();
        take_all(*to, said);
      }
    }
  }
};

TEST(TlsSession, ProvesTheKeyToBothAndCarriesText) {
  TlsPair pair;
  pair.shake_hands();
  ASSERT_EQ(pair.caller.state(), State::done);
  ASSERT_EQ(pair.callee.state(), State::done);
  std::string text(40'000, '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 37);
  pair.caller.send(text);
  pair.callee.send("and back");
  const std::string there = pair.caller.said();
  EXPECT_EQ(there.find(text.substr(0, 32)), std::string::npos);
  take_all(pair.callee, there);
  take_all(pair.caller, pair.callee.said());
  EXPECT_EQ(pair.callee.heard(), text);
  EXPECT_EQ(pair.caller.heard(), "and back");
}

// In each direction another one, in each session others.
TEST(TlsSession, GivesBothTheSameKeysEachTimeOthers) {
  std::set<std::string> keys;
  for (int i = 0; i < 3; ++i) {
    TlsPair pair;
    pair.shake_hands();
    const SessionKeys of_caller = pair.caller.keys(), of_callee = pair.callee.keys();
    EXPECT_EQ(of_caller.sending, of_callee.receiving);
    EXPECT_EQ(of_caller.receiving, of_callee.sending);
    keys.insert({of_caller.sending, of_caller.receiving});
  }
  EXPECT_EQ(keys.size(), 6u);
}

// So much, and nothing after the handshake: neither tickets nor records for the sake of firewalls.
TEST(TlsSession, SaysNoMoreThanItMust) {
  TlsPair pair;
  pair.shake_hands();
  EXPECT_LT(pair.carried, 700u);
  EXPECT_EQ(pair.caller.said() + pair.callee.said(), "");
}

TEST(TlsSession, TellsAnotherKeyOnBothSides) {
  TlsPair pair("3 calls 5", kAnother);
  pair.shake_hands();
  EXPECT_EQ(pair.callee.state(), State::strange);
  EXPECT_EQ(pair.caller.state(), State::strange);
}

TEST(TlsSession, TellsAnIdentityThatIsNotTakenOnBothSides) {
  TlsPair pair("3 calls 4");
  pair.shake_hands();
  EXPECT_EQ(pair.callee.state(), State::unknown);
  EXPECT_EQ(pair.caller.state(), State::unknown);
}

TEST(TlsSession, KnowsTheHeadsOfRecords) {
  EXPECT_EQ(TlsSession::size_after(std::string("\x16\x03\x01\x01\x02", 5)), 258u);
  EXPECT_EQ(TlsSession::size_after("GET /"), 0u);
  EXPECT_EQ(TlsSession::size_after("SSH-2"), 0u);
  EXPECT_EQ(TlsSession::size_after(std::string("\x17\x03\x03\x41\x01", 5)), 0u);  // longer than a record may be
}

// Whoever could have it written would read all.
TEST(TlsSession, WritesItsKeysToNoLog) {
  const std::string path = ::testing::TempDir() + "banyan_keys_" + std::to_string(getpid());
  setenv("SSLKEYLOGFILE", path.c_str(), 1);
  TlsPair pair;
  pair.shake_hands();
  unsetenv("SSLKEYLOGFILE");
  EXPECT_EQ(pair.caller.state(), State::done);
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

TEST(TlsSession, PassesOnWhatTheCalleeThrows) {
  TlsSession caller("3 calls 5", kGiven);
  TlsSession callee(
      [](std::string_view) -> std::string { throw Error(ErrorCode::invalid_input, "this cannot be read"); });
  EXPECT_THROW(callee.take(caller.said()), Error);
}

}  // namespace
}  // namespace banyan::run
