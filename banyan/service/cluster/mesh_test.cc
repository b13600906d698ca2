#include "banyan/service/cluster/mesh.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <future>
#include <mutex>

#include "banyan/run/join/acceptor.h"
#include "banyan/run/join/wire.h"
#include "banyan/testing/temporary_folder.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

constexpr milliseconds kHandshakeTime{2000};
const run::Secret& secret() {
  static const run::Secret secret = run::Secret::random();
  return secret;
}

// A daemon of which only the mesh stands, with a thread of its own.
class Node {
 public:
  Node(const std::string& folder, const std::string& host, uint64_t incarnation, std::vector<OlderDaemon> older = {},
       std::vector<std::string> addresses = {"127.0.0.1"})
      : connects_(reactor_, secret(), host, kHandshakeTime),
        cards_(reactor_, HostDirectory::at("file://" + folder), "the folder",
               {.found =
                    [this](const HostCard& card) {
                      if (mesh_) mesh_->meet(card);
                    },
                .record = [](const std::string&) {}}) {
    run::Listener listener = run::Listener::on("127.0.0.1");
    card_ = {.host = host,
             .incarnation = incarnation,
             .name = host,
             .addresses = std::move(addresses),
             .port = listener.port(),
             .older = std::move(older)};
    cards_.begin(card_);
    mesh_.emplace(reactor_, connects_, cards_, card_,
                  Mesh::Events{.received = [this](const DaemonName& from,
                                                  const std::string& message) { note(from.host + ": " + message); },
                               .lost = [this](const std::string& from,
                                              const std::string& why) { note(from + " lost: " + why); }});
    acceptor_.emplace(reactor_, std::move(listener), secret(), host, run::Acceptor::Options{},
                      [this](const run::Greeting& greeting, run::Admitted& admitted) {
                        std::optional<std::string> refusal = mesh_->admit(greeting, admitted);
                        if (refusal) note("refused: " + *refusal);
                        return refusal;
                      });
    thread_ = std::thread(
        [this] { reactor_.run([this](const Error& error) { note(std::string("failed: ") + error.what()); }); });
  }
  ~Node() {
    reactor_.stop();
    thread_.join();
  }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  const HostCard& card() const { return card_; }
  static OlderDaemon older(const Node& node) {
    return {.incarnation = node.card_.incarnation, .addresses = node.card_.addresses, .port = node.card_.port};
  }
  void send(const std::string& host, const std::string& message) {
    reactor_.mailbox()->post([this, host, message] {
      cards_.look({host}, [this, host, message] {
        try {
          mesh_->send(host, message);
        } catch (const Error& error) {
          note(std::string("not sent: ") + error.what());
        }
      });
    });
  }
  // What was noted, once there are so many notes, or after a long time.
  std::vector<std::string> notes(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, seconds(20), [&] { return notes_.size() >= count; });
    return notes_;
  }
  // Until what was to be sent before is.
  void settle() {
    std::promise<void> done;
    reactor_.mailbox()->post([&] { cards_.look({}, [&] { done.set_value(); }); });
    done.get_future().wait();
  }
  // On the thread of the node.
  template <typename Body>
  auto run(Body body) {
    std::promise<decltype(body(*mesh_))> result;
    reactor_.mailbox()->post([&] { result.set_value(body(*mesh_)); });
    return result.get_future().get();
  }

 private:
  void note(const std::string& text) {
    const std::lock_guard lock(mutex_);
    notes_.push_back(text);
    changed_.notify_all();
  }

  run::Reactor reactor_;
  run::OutgoingConnects connects_;
  HostCard card_;
  std::optional<Mesh> mesh_;
  CardCache cards_;
  std::optional<run::Acceptor> acceptor_;
  std::mutex mutex_;  // protects what follows
  std::condition_variable changed_;
  std::vector<std::string> notes_;
  std::thread thread_;
};

class MeshTest : public ::testing::Test, protected testing::TemporaryFolder {};

TEST_F(MeshTest, MessagesArriveOnceAndInOrderBothWays) {
  constexpr size_t kCount = 500;
  Node a(folder_, "a", 1), b(folder_, "b", 2), c(folder_, "c", 3);
  std::vector<std::string> from_a, from_b;
  for (size_t i = 0; i < kCount; ++i) {
    a.send("b", std::to_string(i));
    b.send("a", std::string(i * 10, 'x') + std::to_string(i));
    from_a.push_back("a: " + std::to_string(i));
    from_b.push_back("b: " + std::string(i * 10, 'x') + std::to_string(i));
  }
  EXPECT_EQ(b.notes(kCount), from_a);
  EXPECT_EQ(a.notes(kCount), from_b);
  c.send("a", "at last");
  EXPECT_EQ(a.notes(kCount + 1).back(), "c: at last");
}

TEST_F(MeshTest, WhoCallsFromAnAddressThatIsNotOnItsCardIsKnownByThat) {
  Node a(folder_, "a", 1), b(folder_, "b", 2, {}, {"127.0.0.2"}), c(folder_, "c", 3);
  for (Node* const caller : {&b, &c}) caller->send("a", "hello");
  EXPECT_THAT(a.notes(2), ::testing::UnorderedElementsAre("b: hello", "c: hello"));
  EXPECT_FALSE(a.run([](const Mesh& mesh) { return mesh.is_where_its_card_says({.host = "b", .incarnation = 2}); }));
  EXPECT_TRUE(a.run([](const Mesh& mesh) { return mesh.is_where_its_card_says({.host = "c", .incarnation = 3}); }));
}

TEST_F(MeshTest, ADaemonHearsItself) {
  Node a(folder_, "a", 1);
  a.send("a", "one");
  a.send("a", "two");
  EXPECT_THAT(a.notes(2), ElementsAre("a: one", "a: two"));
}

TEST_F(MeshTest, AHostThatHasNotComeIsNamed) {
  Node a(folder_, "a", 1);
  a.send("b", "hello");
  EXPECT_THAT(a.notes(1), ElementsAre(HasSubstr("no daemon of host 'b' has come")));
}

TEST_F(MeshTest, ASuccessorGetsNothingThatWasForItsPredecessor) {
  Node a(folder_, "a", 1);
  auto b = std::make_unique<Node>(folder_, "b", 2);
  a.send("b", "first");
  EXPECT_THAT(b->notes(1), ElementsAre("a: first"));
  b.reset();
  a.send("b", "to nobody");
  a.settle();
  b = std::make_unique<Node>(folder_, "b", 3);
  EXPECT_THAT(a.notes(1), ElementsAre("b lost: it has begun anew"));
  a.send("b", "second");
  EXPECT_THAT(b->notes(1), ElementsAre("a: second"));
  b->send("a", "answer");
  EXPECT_EQ(a.notes(2).back(), "b: answer");
}

// Before anybody notices that the old one is gone.
TEST_F(MeshTest, ASuccessorWhoseCardIsFoundIsSpokenToAtOnce) {
  Node a(folder_, "a", 1);
  auto b = std::make_unique<Node>(folder_, "b", 2);
  a.send("b", "first");
  EXPECT_THAT(b->notes(1), ElementsAre("a: first"));
  const auto meet = [&a](const HostCard& card) {
    a.run([&](Mesh& mesh) {
      mesh.meet(card);
      return true;
    });
  };
  meet(b->card());  // this one is known
  a.send("b", "second");
  EXPECT_THAT(b->notes(2), ElementsAre("a: first", "a: second"));
  b.reset();
  b = std::make_unique<Node>(folder_, "b", 3);
  meet(b->card());
  a.send("b", "third");
  EXPECT_THAT(b->notes(1), ElementsAre("a: third"));
  EXPECT_THAT(a.notes(1), ElementsAre("b lost: it has begun anew"));
}

// Who calls first after a restart may be either.
TEST_F(MeshTest, ASuccessorThatCallsIsNotTakenForItsPredecessor) {
  Node a(folder_, "a", 1);
  auto b = std::make_unique<Node>(folder_, "b", 2);
  b->send("a", "first");
  a.send("b", "first");
  EXPECT_THAT(a.notes(1), ElementsAre("b: first"));
  EXPECT_THAT(b->notes(1), ElementsAre("a: first"));
  b.reset();
  b = std::make_unique<Node>(folder_, "b", 3);
  b->send("a", "second");
  EXPECT_THAT(a.notes(3), ElementsAre("b: first", "b lost: it has begun anew", "b: second"));
  a.send("b", "answer");
  EXPECT_THAT(b->notes(1), ElementsAre("a: answer"));
}

// One that has forgotten what was said stands for any that sends nonsense.
TEST_F(MeshTest, DaemonsOfWhichOneSendsNonsenseBeginAnew) {
  Node a(folder_, "a", 1);
  auto b = std::make_unique<Node>(folder_, "b", 2);
  for (const std::string text : {"1", "2", "3"}) {
    a.send("b", text);
    b->send("a", text);
  }
  EXPECT_THAT(a.notes(3), ElementsAre("b: 1", "b: 2", "b: 3"));
  EXPECT_THAT(b->notes(3), ElementsAre("a: 1", "a: 2", "a: 3"));
  b = std::make_unique<Node>(folder_, "b", 2);
  b->send("a", "into the nonsense");
  EXPECT_THAT(b->notes(1), ElementsAre(HasSubstr("a lost: it has sent nonsense")));
  EXPECT_THAT(a.notes(4), ElementsAre("b: 1", "b: 2", "b: 3", HasSubstr("b lost: it has begun anew with this one")));
  b->send("a", "4");
  EXPECT_EQ(a.notes(5).back(), "b: 4");
  a.send("b", "5");
  EXPECT_EQ(b->notes(2).back(), "a: 5");
}

TEST_F(MeshTest, AHostWhoseDaemonSentNonsenseIsAHostAgainWithItsNextProgram) {
  Node a(folder_, "a", 1);
  auto b = std::make_unique<Node>(folder_, "b", 2);
  for (const std::string text : {"1", "2"}) b->send("a", text);
  EXPECT_THAT(a.notes(2), ElementsAre("b: 1", "b: 2"));
  b = std::make_unique<Node>(folder_, "b", 2);
  b->send("a", "into the nonsense");
  EXPECT_THAT(b->notes(1), ElementsAre(HasSubstr("a lost: it has sent nonsense")));
  EXPECT_THAT(a.notes(3), ElementsAre("b: 1", "b: 2", HasSubstr("b lost")));
  b = std::make_unique<Node>(folder_, "b", 3);
  b->send("a", "3");
  EXPECT_EQ(a.notes(5).back(), "b: 3");
  a.send("b", "4");
  EXPECT_THAT(b->notes(1), ElementsAre("a: 4"));
}

TEST_F(MeshTest, AMessageThatIsTooLongIsRefusedAndTheNextOnesArrive) {
  Node a(folder_, "a", 1), b(folder_, "b", 2);
  a.send("b", "1");
  a.send("b", std::string(run::AgentConnections::kMaxMessage + 1, 'x'));
  a.send("b", "2");
  EXPECT_THAT(b.notes(2), ElementsAre("a: 1", "a: 2"));
  EXPECT_THAT(a.notes(1), ElementsAre(HasSubstr("not sent: a message of 33554433 bytes is not sent")));
}

TEST_F(MeshTest, DaemonsOfOneHostLiveSideBySide) {
  Node a(folder_, "a", 1), old(folder_, "b", 2);
  a.send("b", "first");
  EXPECT_THAT(old.notes(1), ElementsAre("a: first"));
  Node young(folder_, "b", 3, {Node::older(old)});
  young.send("a", "from the young");
  EXPECT_THAT(a.notes(1), ElementsAre("b: from the young"));
  old.send("a", "from the old");
  EXPECT_THAT(a.notes(2), ElementsAre("b: from the young", "b: from the old"));
  a.send("b", "for the newest");
  EXPECT_THAT(young.notes(1), ElementsAre("a: for the newest"));
  const auto send_to_both = [](Node& from, const std::string& text) {
    return from.run([&](Mesh& mesh) {
      mesh.send_to_all("b", text);
      return mesh.is_own("b");
    });
  };
  EXPECT_FALSE(send_to_both(a, "for both"));
  EXPECT_THAT(young.notes(2), ElementsAre("a: for the newest", "a: for both"));
  EXPECT_THAT(old.notes(2), ElementsAre("a: first", "a: for both"));
  EXPECT_TRUE(send_to_both(young, "and itself"));
  EXPECT_EQ(young.notes(3).back(), "b: and itself");
  EXPECT_EQ(old.notes(3).back(), "b: and itself");
}

// Such as that of a directory that nobody else sees.
TEST_F(MeshTest, ADaemonThatWasSucceededIsNotTheNewestByACardOfItsOwn) {
  Node old(folder_, "b", 2);
  const HostCard own = old.card();
  const Node young(folder_, "b", 3, {Node::older(old)});
  const auto is_own_after = [&](const HostCard& card) {
    return old.run([&](Mesh& mesh) {
      mesh.meet(card);
      return mesh.is_own("b");
    });
  };
  EXPECT_TRUE(is_own_after(own));
  EXPECT_FALSE(is_own_after(young.card()));
  EXPECT_FALSE(is_own_after(own));
}

TEST_F(MeshTest, AnAnswerGoesToTheDaemonThatAsked) {
  Node a(folder_, "a", 1), old(folder_, "b", 2);
  old.send("a", "question");
  EXPECT_THAT(a.notes(1), ElementsAre("b: question"));
  const Node young(folder_, "b", 3, {Node::older(old)});
  a.run([&](Mesh& mesh) {
    mesh.meet(young.card());
    mesh.send_to_one({.host = "b", .incarnation = 2}, "answer");
    return true;
  });
  EXPECT_THAT(old.notes(1), ElementsAre("a: answer"));
}

TEST_F(MeshTest, ADaemonReachesOlderOnesOfItsOwnHostOneByOne) {
  Node oldest(folder_, "b", 1), old(folder_, "b", 2, {Node::older(oldest)});
  Node young(folder_, "b", 3, {Node::older(old), Node::older(oldest)});
  young.run([&](Mesh& mesh) {
    mesh.send_to_one({.host = "b", .incarnation = 1}, "question");
    return true;
  });
  EXPECT_THAT(oldest.notes(1), ElementsAre("b: question"));
  oldest.run([&](Mesh& mesh) {
    mesh.send_to_one({.host = "b", .incarnation = 3}, "answer");
    return true;
  });
  EXPECT_THAT(young.notes(1), ElementsAre("b: answer"));
  EXPECT_TRUE(old.notes(0).empty());
}

// The newest one's card says so.
TEST_F(MeshTest, AnOlderDaemonThatItsHostsCardNamesNoMoreHasEnded) {
  Node a(folder_, "a", 1), old(folder_, "b", 2), young(folder_, "b", 3, {Node::older(old)});
  old.send("a", "first");
  EXPECT_THAT(a.notes(1), ElementsAre("b: first"));
  HostCard alone = young.card();
  alone.older.clear();
  HostDirectory::at("file://" + folder_)->publish(alone);
  const auto answers = [&] {
    return a.run([&](Mesh& mesh) {
      mesh.meet(alone);
      try {
        mesh.send_to_one({.host = "b", .incarnation = 2}, "answer");
      } catch (const Error& error) {
        return error.code();
      }
      return ErrorCode::io;
    });
  };
  EXPECT_EQ(answers(), ErrorCode::peer_lost);
  // The older one may have called again meanwhile, and have been refused.
  EXPECT_THAT(a.notes(2), Contains("b lost: it has begun anew"));
}

TEST_F(MeshTest, CallersThatSayWhatTheirCardsDoNotAreRefused) {
  Node a(folder_, "a", 1), b(folder_, "b", 2);
  const auto call = [&](const std::string& callee, uint64_t callee_incarnation, const std::string& caller,
                        uint64_t caller_incarnation) {
    const run::Greeting greeting{
        .purpose = Mesh::kPurpose,
        .payload = run::WireWriter().number(callee_incarnation).number(caller_incarnation).take(),
        .from = caller,
        .to = callee};
    return a.run([&](Mesh& mesh) {
      run::Admitted none;
      return mesh.admit(greeting, none).value_or("admitted");
    });
  };
  EXPECT_THAT(call("b", 1, "b", 2), HasSubstr("for another than this one"));
  EXPECT_THAT(call("a", 7, "b", 2), HasSubstr("for another than this one"));
  EXPECT_THAT(call("a", 1, "a", 1), HasSubstr("says to be this one"));
}

// Only once their cards were looked for.
TEST_F(MeshTest, CallersThatAreNotKnownAreHungUpOn) {
  Node a(folder_, "a", 1), b(folder_, "b", 2);
  for (const std::string host : {"b", "z"}) {
    std::array<int, 2> ends{};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    const run::FileDescriptor caller(ends[0]);
    const run::Greeting greeting{.purpose = Mesh::kPurpose,
                                 .payload = run::WireWriter().number(uint64_t{1}).number(uint64_t{7}).take(),
                                 .from = host,
                                 .to = "a"};
    EXPECT_EQ(a.run([&](Mesh& mesh) {
      run::Admitted admitted{.socket = run::FileDescriptor(ends[1]), .keys = {}};
      return mesh.admit(greeting, admitted).value_or("admitted");
    }),
              "admitted");
    char byte = 0;
    EXPECT_EQ(read(caller.get(), &byte, 1), 0);
    EXPECT_FALSE(a.run([&](Mesh& mesh) { return mesh.knows("z"); }));
  }
}

}  // namespace
}  // namespace banyan::service
