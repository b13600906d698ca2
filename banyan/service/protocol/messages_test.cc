#include "banyan/service/protocol/messages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

// Each number and each text another one, so that none can take the place of another.
OpenSession sample_session() {
  OpenSession open{.wish = 71,
                   .session = 72,
                   .page = {.region = 73, .generation = 74, .offset = 75},
                   .communicator = 76,
                   .name = "the name",
                   .tenant = "whose it is",
                   .rank = 1,
                   .members = {77, 78, 79},
                   .job_size = 80,
                   .hosts = {"a", "", "host of \"c\""},
                   .host_of_rank = {2, 0, 1},
                   .timeout = 81,
                   .join_timeout = 82,
                   .checksums = true};
  for (size_t i = 0; i < open.capability.size(); ++i) open.capability[i] = static_cast<uint8_t>(200 + i);
  return open;
}

std::vector<std::string> every_client_message() {
  return {encode(ClientMessage(Hello{.version = 5, .program = "train.py"})),
          encode(ClientMessage(OfferRegion{.wish = 1, .bytes = uint64_t{1} << 40})),
          encode(ClientMessage(WithdrawRegion{.place = {.index = 3, .generation = 4}})),
          encode(ClientMessage(sample_session())),
          encode(ClientMessage(CloseSession{.session = 9})),
          encode(ClientMessage(RankGone{.session = 9, .rank = 3})),
          encode(ClientMessage(AskHints{.wish = 9})),
          encode(ClientMessage(ShowRecord{.record = 3,
                                          .capability = {1, 2, 3},
                                          .communicator = 8,
                                          .name = "world",
                                          .tenant = "vgg",
                                          .rank = 1,
                                          .size = 4})),
          encode(ClientMessage(HideRecord{.record = 3}))};
}

std::vector<std::string> every_daemon_message() {
  return {encode(DaemonMessage(Welcome{.version = 5, .host = "h", .capability = {1, 2, 3}})),
          encode(DaemonMessage(RegionPlaced{.wish = 6, .place = {.index = 7, .generation = 8}})),
          encode(DaemonMessage(SessionOpened{.wish = 6, .means = "TCP"})),
          encode(DaemonMessage(Refused{.wish = 6, .error = Error(ErrorCode::not_found, "no such host", "there")})),
          encode(DaemonMessage(SessionFailed{.session = 6, .error = Error(ErrorCode::peer_lost, "gone")})),
          encode(DaemonMessage(HintsGiven{.wish = 6, .hints = "{}"})),
          encode(DaemonMessage(Succeeded()))};
}

TEST(Messages, SayTheSameAtTheOtherEnd) {
  const OpenSession sent = sample_session();
  const auto got = std::get<OpenSession>(decode_client_message(encode(ClientMessage(sent))));
  EXPECT_EQ(got.wish, 71u);
  EXPECT_EQ(got.session, 72u);
  EXPECT_EQ(got.page.region, 73u);
  EXPECT_EQ(got.page.generation, 74u);
  EXPECT_EQ(got.page.offset, 75u);
  EXPECT_EQ(got.capability, sent.capability);
  EXPECT_EQ(got.communicator, 76u);
  EXPECT_EQ(got.name, "the name");
  EXPECT_EQ(got.tenant, "whose it is");
  EXPECT_EQ(got.rank, 1u);
  EXPECT_THAT(got.members, ElementsAre(77, 78, 79));
  EXPECT_EQ(got.job_size, 80u);
  EXPECT_EQ(got.hosts, sent.hosts);
  EXPECT_THAT(got.host_of_rank, ElementsAre(2, 0, 1));
  EXPECT_EQ(got.timeout, 81u);
  EXPECT_EQ(got.join_timeout, 82u);
  EXPECT_TRUE(got.checksums);
}

TEST(Messages, AreWrittenAgainAsTheyWereRead) {
  for (const std::string& bytes : every_client_message()) EXPECT_EQ(encode(decode_client_message(bytes)), bytes);
  for (const std::string& bytes : every_daemon_message()) EXPECT_EQ(encode(decode_daemon_message(bytes)), bytes);
}

TEST(Messages, BringErrorsWhole) {
  const Error error(ErrorCode::not_found, "no such host", "there");
  const auto got = std::get<Refused>(decode_daemon_message(encode(DaemonMessage(Refused{.wish = 1, .error = error}))));
  EXPECT_EQ(got.error.code(), ErrorCode::not_found);
  EXPECT_EQ(got.error.message(), "no such host");
  EXPECT_EQ(got.error.where(), "there");
}

TEST(Messages, ThatAreCutShortOrTooLongAreRefused) {
  for (const std::string& bytes : every_client_message()) {
    for (size_t length = 0; length < bytes.size(); ++length) {
      EXPECT_THROW(decode_client_message(bytes.substr(0, length)), Error) << length;
    }
    EXPECT_THROW(decode_client_message(bytes + "x"), Error);
  }
  for (const std::string& bytes : every_daemon_message()) {
    for (size_t length = 0; length < bytes.size(); ++length) {
      EXPECT_THROW(decode_daemon_message(bytes.substr(0, length)), Error) << length;
    }
    EXPECT_THROW(decode_daemon_message(bytes + "x"), Error);
  }
}

// Whatever a byte becomes: it is refused, or it is another message that is written as it was read.
TEST(Messages, WithWrongBytesAreRefusedOrRead) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  size_t refused = 0;
  for (int times = 0; times < 20'000; ++times) {
    const std::vector<std::string> all = every_client_message();
    std::string bytes = all[random() % all.size()];
    for (size_t changes = 1 + random() % 3; changes > 0; --changes) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    try {
      EXPECT_EQ(encode(decode_client_message(bytes)), bytes);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_input);
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000u);
}

struct Pair {
  Pair() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    one = run::FileDescriptor(ends[0]);
    other = run::FileDescriptor(ends[1]);
  }
  run::FileDescriptor one, other;
};

TEST(Parcels, BringTheirDescriptor) {
  Pair pair;
  const run::FileDescriptor file(memfd_create("parcel", MFD_CLOEXEC));
  ASSERT_EQ(write(file.get(), "content", 7), 7);
  EXPECT_TRUE(send_parcel(pair.one.get(), "first", file.get()));
  EXPECT_TRUE(send_parcel(pair.one.get(), "second"));
  const std::optional<Parcel> first = receive_parcel(pair.other.get()), second = receive_parcel(pair.other.get());
  ASSERT_TRUE(first && second && first->descriptor);
  EXPECT_EQ(first->bytes, "first");
  EXPECT_EQ(second->bytes, "second");
  EXPECT_FALSE(second->descriptor);
  char content[8] = {};
  EXPECT_EQ(pread(first->descriptor->get(), content, 7, 0), 7);
  EXPECT_STREQ(content, "content");
  EXPECT_FALSE(receive_parcel(pair.other.get()));
}

TEST(Parcels, WaitForNothing) {
  Pair pair;
  const std::string large(10'000, 'x');
  size_t sent = 0;
  while (send_parcel(pair.one.get(), large)) ++sent;
  EXPECT_GT(sent, 0u);
  for (size_t i = 0; i < sent; ++i) EXPECT_TRUE(receive_parcel(pair.other.get()));
  EXPECT_TRUE(send_parcel(pair.one.get(), large));
}

TEST(Parcels, OfWhoHasGoneAreLost) {
  Pair pair;
  pair.one.reset();
  EXPECT_THROW(receive_parcel(pair.other.get()), Error);
  EXPECT_THROW(send_parcel(pair.other.get(), "anybody?"), Error);
}

int count_descriptors() {
  int count = 0;
  for (int fd = 0; fd < 512; ++fd) count += fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return count;
}

// An empty one looks like the end of the connection.
TEST(Parcels, OfAnyLengthLeakNoDescriptor) {
  const int before = count_descriptors();
  for (size_t length = 0; length < 40; ++length) {
    for (const size_t descriptors : {size_t{0}, size_t{1}, size_t{2}, size_t{253}}) {
      const bool has_closer = length % 2 == 0;
      Pair pair;
      const std::vector<int> sent(descriptors, pair.one.get());
      std::string bytes(length, 'x');
      iovec piece{.iov_base = bytes.data(), .iov_len = length};
      alignas(cmsghdr) char control[CMSG_SPACE(253 * sizeof(int))] = {};
      msghdr message{};
      message.msg_iov = &piece;
      message.msg_iovlen = 1;
      if (descriptors > 0) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(descriptors * sizeof(int));
        cmsghdr* const header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(descriptors * sizeof(int));
        std::memcpy(CMSG_DATA(header), sent.data(), descriptors * sizeof(int));
      }
      ASSERT_EQ(sendmsg(pair.one.get(), &message, 0), static_cast<ssize_t>(length));
      size_t given = 0;
      const std::function<void(run::FileDescriptor)> nothing, close = [&](run::FileDescriptor) { ++given; };
      try {
        const std::optional<Parcel> parcel = receive_parcel(pair.other.get(), has_closer ? close : nothing);
        ASSERT_TRUE(parcel && length > 0 && descriptors <= 1);
        EXPECT_EQ(parcel->bytes, bytes);
        EXPECT_EQ(parcel->descriptor.has_value(), descriptors == 1);
      } catch (const Error& error) {
        EXPECT_TRUE(length == 0 || descriptors > 1) << error.what();
        EXPECT_EQ(given, has_closer ? descriptors : 0) << "all go to who closes them";
      }
    }
  }
  EXPECT_EQ(count_descriptors(), before);
}

TEST(Parcels, WhoseDescriptorFindsNoRoomSaySo) {
  Pair pair;
  ASSERT_TRUE(send_parcel(pair.one.get(), "x", pair.one.get()));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 3;  // all that are open stay
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const std::string refusal = testing::error_of([&] { receive_parcel(pair.other.get()); }, ErrorCode::io);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_THAT(refusal, HasSubstr("ulimit -n"));
}

}  // namespace
}  // namespace banyan::service
