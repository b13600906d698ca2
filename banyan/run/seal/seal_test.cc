#include "banyan/run/seal/seal.h"

#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

const std::string kKey(kSessionKeySize, 'k');

using Bytes = std::vector<std::byte>;

Bytes bytes_of(const std::string& text) {
  Bytes bytes(text.size());
  for (size_t i = 0; i < text.size(); ++i) bytes[i] = static_cast<std::byte>(text[i]);
  return bytes;
}

Bytes sealed(Sealer& sealer, const std::string& beside, const std::string& text) {
  Bytes frame(text.size() + kSealSize);
  const size_t half = text.size() / 2;
  sealer.seal(bytes_of(beside), bytes_of(text.substr(0, half)), bytes_of(text.substr(half)), frame.data());
  return frame;
}

bool opens(Opener& opener, const std::string& beside, const Bytes& frame, const std::string& text) {
  Bytes out(frame.size());
  if (!opener.open(bytes_of(beside), frame, out.data())) return false;
  out.resize(frame.size() - kSealSize);
  EXPECT_EQ(out, bytes_of(text));
  return true;
}

class SealTest : public ::testing::TestWithParam<Sealing> {};
INSTANTIATE_TEST_SUITE_P(Ways, SealTest, ::testing::Values(Sealing::authenticated, Sealing::encrypted),
                         [](const auto& tested) {
                           return std::string(tested.param == Sealing::encrypted ? "encrypted" : "authenticated");
                         });

TEST_P(SealTest, OpensWhatWasSealedInItsOrder) {
  Sealer sealer(kKey, GetParam(), 5);  // so that keys change on the way
  Opener opener(kKey, GetParam(), 5);
  for (size_t i = 0; i < 23; ++i) {
    std::string text(i * 131, '\0');
    for (size_t at = 0; at < text.size(); ++at) text[at] = static_cast<char>(at * 7 + i);
    const Bytes frame = sealed(sealer, "beside", text);
    const bool is_readable = i > 0 && Bytes(frame.begin(), frame.end() - kSealSize) == bytes_of(text);
    EXPECT_EQ(is_readable, i > 0 && GetParam() == Sealing::authenticated);
    EXPECT_TRUE(opens(opener, "beside", frame, text)) << i;
  }
}

TEST_P(SealTest, IsTheSameWhetherOrNotItWasPrepared) {
  Sealer prepares(kKey, GetParam(), 5), sealer(kKey, GetParam(), 5);
  Opener opener(kKey, GetParam(), 5);
  for (size_t i = 0; i < 23; ++i) {
    for (size_t times = i % 3; times > 0; --times) {
      prepares.prepare();
      opener.prepare();
    }
    const std::string text(i * 57, static_cast<char>('a' + i));
    const Bytes frame = sealed(prepares, "beside", text);
    EXPECT_EQ(frame, sealed(sealer, "beside", text)) << i;
    EXPECT_TRUE(opens(opener, "beside", frame, text)) << i;
  }
}

TEST(Sealing, OfAFrameThatStaysWhereItIsIsTheSame) {
  Sealer copies(kKey, Sealing::authenticated, 5), signs(kKey, Sealing::authenticated, 5);
  for (size_t i = 0; i < 23; ++i) {
    const std::string head(i, 'h'), body(i * 131, static_cast<char>('a' + i));
    const Bytes beside = bytes_of("beside"), frame_head = bytes_of(head), frame_body = bytes_of(body);
    Bytes frame(head.size() + body.size() + kSealSize), seal(kSealSize);
    copies.seal(beside, frame_head, frame_body, frame.data());
    signs.sign(beside, frame_head, frame_body, seal.data());
    EXPECT_EQ(Bytes(frame.end() - kSealSize, frame.end()), seal) << i;
  }
}

TEST_P(SealTest, OpensInPlace) {
  Sealer sealer(kKey, GetParam());
  Opener opener(kKey, GetParam());
  Bytes frame = sealed(sealer, "", "in its own place");
  ASSERT_TRUE(opener.open({}, frame, frame.data()));
  frame.resize(16);
  EXPECT_EQ(frame, bytes_of("in its own place"));
}

TEST_P(SealTest, NoticesEveryChangedBit) {
  constexpr uint64_t kSeed = 21;
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 500; ++round) {
    Sealer sealer(kKey, GetParam());
    Opener opener(kKey, GetParam());
    const std::string text(1 + random() % 100, 't');
    Bytes frame = sealed(sealer, "beside", text);
    frame[random() % frame.size()] ^= std::byte{static_cast<unsigned char>(1u << random() % 8)};
    EXPECT_FALSE(opens(opener, "beside", frame, text));
  }
}

TEST_P(SealTest, NoticesFramesThatAreLostDoubledSwappedOrCut) {
  Sealer sealer(kKey, GetParam());
  const Bytes first = sealed(sealer, "", "first"), second = sealed(sealer, "", "second");
  const auto opened_after_first = [&](const Bytes& frame) {
    Opener opener(kKey, GetParam());
    EXPECT_TRUE(opens(opener, "", first, "first"));
    Bytes out(100);
    return opener.open({}, frame, out.data());
  };
  EXPECT_TRUE(opened_after_first(second));
  EXPECT_FALSE(opened_after_first(first));  // doubled
  EXPECT_FALSE(opened_after_first(Bytes(second.begin(), second.end() - 1)));
  EXPECT_FALSE(opened_after_first(Bytes(3)));
  Opener opener(kKey, GetParam());
  EXPECT_FALSE(opens(opener, "", second, "second"));  // before the first
}

TEST_P(SealTest, IsBoundToItsKeyItsWayAndWhatStandsBeside) {
  Sealer sealer(kKey, GetParam());
  const Bytes frame = sealed(sealer, "beside", "text");
  Opener other_key(std::string(kSessionKeySize, 'o'), GetParam()), other_beside(kKey, GetParam()),
      right(kKey, GetParam()),
      other_way(kKey, GetParam() == Sealing::encrypted ? Sealing::authenticated : Sealing::encrypted);
  EXPECT_FALSE(opens(other_key, "beside", frame, "text"));
  EXPECT_FALSE(opens(other_beside, "Beside", frame, "text"));
  EXPECT_FALSE(opens(other_way, "beside", frame, "text"));
  EXPECT_TRUE(opens(right, "beside", frame, "text"));
}

TEST(StreamSeals, CarryAnyBytesInAnyPieces) {
  constexpr uint64_t kSeed = 5;
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  std::mt19937_64 random(kSeed);
  StreamSealer sealer(kKey);
  StreamOpener opener(kKey);
  std::string sent, received;
  for (int i = 0; i < 40; ++i) {
    std::string said(random() % 100'000, '\0');
    for (char& c : said) c = static_cast<char>(random());
    sent += said;
    std::string out;
    sealer.seal(said, out);
    for (size_t at = 0; at < out.size();) {
      const size_t piece = std::min<size_t>(1 + random() % 50'000, out.size() - at);
      opener.open(std::string_view(out).substr(at, piece), received);
      at += piece;
    }
  }
  EXPECT_TRUE(sent == received);
}

TEST(StreamSeals, RefuseWhatIsNotOfThePeer) {
  for (const std::string& garbage :
       {std::string("GET / HTTP/1.1\r\n"), std::string(20, '\0'), std::string("\5\0\0\0", 4) + std::string(21, 'x')}) {
    StreamOpener opener(kKey);
    std::string out;
    EXPECT_EQ(testing::thrown_by([&] { opener.open(garbage, out); }).code(), ErrorCode::io);
    EXPECT_EQ(out, "");
  }
  StreamSealer sealer(kKey);
  StreamOpener opener(kKey);
  std::string frame, out;
  sealer.seal("once", frame);
  opener.open(frame, out);
  EXPECT_EQ(out, "once");
  EXPECT_EQ(testing::thrown_by([&] { opener.open(frame, out); }).code(), ErrorCode::io) << "said twice";
}

TEST(StreamSeals, EndWhereThePeerSaysSoOnly) {
  StreamSealer sealer(kKey);
  StreamOpener opener(kKey);
  std::string sealed, out;
  sealer.seal("all", sealed);
  opener.open(sealed, out);
  EXPECT_FALSE(opener.has_ended());
  std::string end;
  sealer.end(end);
  opener.open(end, out);
  EXPECT_TRUE(opener.has_ended());
  EXPECT_EQ(out, "all");
  sealed.clear();
  sealer.seal("more", sealed);
  EXPECT_EQ(testing::thrown_by([&] { opener.open(sealed, out); }).code(), ErrorCode::io) << "nothing follows";
}

TEST(StreamSeals, LeaveBytesAsTheyAreWithoutAKey) {
  StreamSealer sealer("");
  StreamOpener opener("");
  std::string sealed, out;
  sealer.seal("as it is", sealed);
  sealer.end(sealed);
  EXPECT_EQ(sealed, "as it is");
  opener.open(sealed, out);
  EXPECT_EQ(out, "as it is");
}

}  // namespace
}  // namespace banyan::run
