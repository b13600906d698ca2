#include "banyan/run/seal/sealed_stream.h"

#include <deque>

#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

// One end: what it sends lies in `sent`, of which there is room for `room`.
class Pipe final : public ByteStream {
 public:
  struct Ends {
    std::string sent, coming;
    size_t room = SIZE_MAX;
    bool awaits_room = false, is_over = false;
    Ready ready;
  };
  explicit Pipe(Ends& ends) : ends_(ends) {}
  void watch(Ready ready) override { ends_.ready = std::move(ready); }
  void await_room(bool on) override { ends_.awaits_room = on; }
  size_t send(std::string_view bytes) override {
    const size_t count = std::min(bytes.size(), ends_.room);
    ends_.sent += bytes.substr(0, count);
    ends_.room -= count;
    return count;
  }
  Received receive(std::span<char> buffer) override {
    const size_t count = std::min(buffer.size(), ends_.coming.size());
    if (count == 0 && ends_.is_over) {
      return {.count = 0, .is_over = true, .is_orderly = true, .is_said = false, .why = "it has closed its connection"};
    }
    std::copy_n(ends_.coming.data(), count, buffer.data());
    ends_.coming.erase(0, count);
    return {.count = count, .is_over = false, .why = ""};
  }

 private:
  Ends& ends_;
};

const std::string kThere(kSessionKeySize, 't'), kBack(kSessionKeySize, 'b');

struct Pair {
  Pipe::Ends left_ends, right_ends;
  SealedStream left{std::make_unique<Pipe>(left_ends), {.sending = kThere, .receiving = kBack}};
  SealedStream right{std::make_unique<Pipe>(right_ends), {.sending = kBack, .receiving = kThere}};
  void carry() {
    right_ends.coming += std::exchange(left_ends.sent, {});
    left_ends.coming += std::exchange(right_ends.sent, {});
  }
};

std::string all_of(ByteStream& stream) {
  std::string text;
  std::array<char, 1000> buffer;
  while (true) {
    const ByteStream::Received received = stream.receive(buffer);
    if (received.is_over) return text + "|" + received.why;
    if (received.count == 0) return text;
    text.append(buffer.data(), received.count);
  }
}

TEST(SealedStream, CarriesBothWaysAndHidesWhatItCarries) {
  Pair pair;
  EXPECT_EQ(pair.left.send("a word to the right"), 19u);
  EXPECT_EQ(pair.right.send("and one back"), 12u);
  EXPECT_EQ(pair.left_ends.sent.find("word"), std::string::npos);
  pair.carry();
  EXPECT_EQ(all_of(pair.right), "a word to the right");
  EXPECT_EQ(all_of(pair.left), "and one back");
  EXPECT_EQ(all_of(pair.left), "");
}

TEST(SealedStream, KeepsWhatTheInnerOneDoesNotTake) {
  Pair pair;
  std::string text(100'000, '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 13);
  pair.left_ends.room = 50'000;
  pair.left.watch([](bool, bool) { FAIL() << "nobody has asked for room"; });
  EXPECT_EQ(pair.left.send(text), text.size());
  EXPECT_TRUE(pair.left_ends.awaits_room) << "although its user does not";
  EXPECT_EQ(pair.left.send("more"), 0u);
  pair.left_ends.room = SIZE_MAX;
  pair.left_ends.ready(false, true);
  EXPECT_FALSE(pair.left_ends.awaits_room);
  pair.carry();
  EXPECT_TRUE(all_of(pair.right) == text);
}

TEST(SealedStream, TellsItsUserWhenThereIsRoom) {
  Pair pair;
  int told = 0;
  pair.left.watch([&](bool may_receive, bool may_send) { told += !may_receive && may_send ? 1 : 100; });
  pair.left_ends.room = 0;
  pair.left.send("x");
  pair.left.await_room(true);
  pair.left_ends.ready(false, true);
  EXPECT_EQ(told, 0) << "there is none yet";
  pair.left_ends.room = 1000;
  pair.left_ends.ready(false, true);
  EXPECT_EQ(told, 1);
  pair.left.await_room(false);
  EXPECT_FALSE(pair.left_ends.awaits_room);
}

TEST(SealedStream, IsOverWhenBytesWereChangedOnTheirWay) {
  Pair pair;
  pair.left.send("a word");
  pair.left_ends.sent[7] = static_cast<char>(pair.left_ends.sent[7] ^ 1);
  pair.carry();
  EXPECT_THAT(all_of(pair.right), HasSubstr("|its connection failed: bytes were changed on their way"));
}

// Who stands between cannot send a peer its own words.
TEST(SealedStream, DoesNotTakeItsOwnWords) {
  Pair pair;
  pair.left.send("a word");
  pair.left_ends.coming = std::exchange(pair.left_ends.sent, {});
  EXPECT_THAT(all_of(pair.left), HasSubstr("changed on their way"));
}

TEST(SealedStream, GivesWhatCameBeforeTheEnd) {
  Pair pair;
  pair.left.send("good-bye");
  pair.carry();
  pair.right_ends.is_over = true;
  EXPECT_EQ(all_of(pair.right), "good-bye|it has closed its connection");
}

// What the network makes of a connection is one thing, and what the peer says another.
TEST(SealedStream, TellsAnEndThatThePeerHasSaidFromOneThatItHasNot) {
  const auto ending_of = [](const SessionKeys& keys, const SessionKeys& far_keys, bool says_so) {
    Pipe::Ends near_ends, far_ends;
    SealedStream near(std::make_unique<Pipe>(near_ends), keys);
    {
      SealedStream far(std::make_unique<Pipe>(far_ends), far_keys);
      far.send("all");
      if (!says_so) far_ends.room = 0;
    }
    near_ends.coming = far_ends.sent;
    near_ends.is_over = true;
    std::array<char, 10> buffer;
    EXPECT_EQ(near.receive(buffer).count, 3u);
    return near.receive(buffer);
  };
  const SessionKeys there{.sending = kThere, .receiving = kBack}, back{.sending = kBack, .receiving = kThere};
  EXPECT_TRUE(ending_of(there, back, true).is_said);
  EXPECT_FALSE(ending_of(there, back, false).is_said);
  EXPECT_TRUE(ending_of({}, {}, false).is_said) << "without a secret the end of the connection has to do";
  for (const bool says_so : {true, false}) EXPECT_TRUE(ending_of(there, back, says_so).is_over);
}

}  // namespace
}  // namespace banyan::run
