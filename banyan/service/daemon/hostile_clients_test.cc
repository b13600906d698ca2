// What clients can do to a daemon, and what it costs others: nothing.
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include <future>
#include <iterator>

#include "banyan/run/record/recorder.h"
#include "banyan/run/system/event.h"
#include "banyan/run/system/processes.h"
#include "banyan/service/daemon/daemon.h"
#include "banyan/service/daemon/test_raw_client.h"
#include "banyan/service/http/client.h"
#include "banyan/service/protocol/test_memory.h"
#include "banyan/service/session/session.h"
#include "banyan/service/view/view_json.h"
#include "banyan/testing/temporary_folder.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using run::OperationKind;

constexpr size_t kBuffers = 128 * RawClient::kPage;  // where pages of sessions end, in the memory of a RawClient

class HostileClients : public ::testing::Test, protected testing::TemporaryFolder {
 protected:
  ~HostileClients() override {
    if (daemon_) daemon_->stop();
    if (thread_.joinable()) thread_.join();
    daemon_.reset();
  }
  std::string socket() const { return folder_ + "/socket"; }
  void begin(const TenantLimits& limits = {}, milliseconds hello_time = seconds(10)) {
    listen(limits, hello_time);
    start();
  }
  void listen(const TenantLimits& limits = {}, milliseconds hello_time = seconds(10)) {
    daemon_.emplace(Daemon::Options{.socket = socket(),
                                    .host = "here",
                                    .operators = folder_ + "/operators",
                                    .is_oversubscribed = true,
                                    .is_for_all_users = true,
                                    .limits = limits,
                                    .sub_ids = folder_ + "/subuid",
                                    .name_of = name_of_,
                                    .hello_time = hello_time});
  }
  void start() {
    thread_ = std::thread([this] { daemon_->run(); });
  }
  run::FileDescriptor call() const {
    run::FileDescriptor caller(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, socket().c_str(), sizeof address.sun_path - 1);
    const run::Deadline deadline = run::Deadline::after(seconds(30));
    while (connect(caller.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      CHECK(errno == EAGAIN && !deadline.has_passed()) << socket();  // too many wait at the door
      usleep(500);
    }
    return caller;
  }
  HostView view() const {
    return host_view_from(http_ask("unix:" + folder_ + "/operators", "GET", "/v1/host", "", seconds(20)).body);
  }
  // Whether another client gets all that it needs within this time: it attaches, opens a session, and calls.
  ::testing::AssertionResult others_are_served(milliseconds within = seconds(5)) const {
    std::future<std::string> served = std::async(std::launch::async, [this] { return serve_another(); });
    if (served.wait_for(within) != std::future_status::ready) {
      return ::testing::AssertionFailure() << "another client waits";
    }
    const std::string trouble = served.get();
    if (trouble.empty()) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << trouble;
  }

  std::function<std::optional<std::string>(uint32_t)> name_of_ = UserNames::system_name_of;
  std::optional<Daemon> daemon_;

 private:
  std::string serve_another() const {
    try {
      RawClient client(socket());
      if (std::string why = client.offer(); !why.empty()) return why;
      if (std::string why = client.open(0); !why.empty()) return why;
      client.data()[kBuffers] = std::byte{42};
      client.submit(0, client.message(OperationKind::recv, 1, 1, kBuffers + 1));
      client.submit(0, client.message(OperationKind::send, 1, 1, kBuffers));
      for (int done = 0; done < 2;) {
        if (client.rings(0).take()) ++done;
        std::this_thread::yield();
      }
      return client.data()[kBuffers + 1] == std::byte{42} ? "" : "it got something else";
    } catch (const Error& error) {
      return error.what();
    }
  }

  std::thread thread_;
};

// ---- Quotas ----

TEST_F(HostileClients, HaveConnectionsOnlyUpToTheQuotaOfTheirUser) {
  TenantLimits limits;
  limits[Resource::connections] = 3;
  begin(limits);
  std::vector<run::FileDescriptor> silent;
  for (int i = 0; i < 3; ++i) silent.push_back(call());
  EXPECT_THAT(testing::error_of([&] { RawClient more(socket()); }),
              HasSubstr("a quota for each user of 3 connections"));
  silent.clear();
  EXPECT_TRUE(others_are_served());
}

// Who may have rootless containers runs programs as 65,536 users.
TEST_F(HostileClients, ShareTheQuotasOfTheOwnerOfTheirSubIds) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may become others";
  std::filesystem::permissions(folder_, std::filesystem::perms(0777));
  // They go through the folder above, which is this program's.
  std::filesystem::permissions(std::filesystem::temp_directory_path(), std::filesystem::perms(0711));
  std::ofstream(folder_ + "/subuid") << "1001:100000:65536\n";
  TenantLimits limits;
  limits[Resource::connections] = 3;
  begin(limits);
  constexpr std::array<uid_t, 5> kUsers = {100'000, 100'001, 1001, 165'535, 165'536};
  const auto comes = [&](uint32_t number) -> std::string {
    for (uint32_t before = 0; before < number; ++before) {
      while (!std::filesystem::exists(folder_ + "/came" + std::to_string(before))) usleep(1000);
    }
    CHECK(setresgid(kUsers[number], kUsers[number], kUsers[number]) == 0) << errno;
    CHECK(setresuid(kUsers[number], kUsers[number], kUsers[number]) == 0) << errno;
    std::string said = "came";
    std::optional<RawClient> client;
    try {
      client.emplace(socket());
    } catch (const Error& error) {
      said = error.what();
    }
    std::ofstream(folder_ + "/came" + std::to_string(number));
    while (!std::filesystem::exists(folder_ + "/came" + std::to_string(kUsers.size() - 1))) usleep(1000);
    return said;
  };
  const std::vector<std::string> said = run::run_processes(kUsers.size(), seconds(60), comes);
  EXPECT_THAT(said, ::testing::ElementsAre("came", "came", "came", HasSubstr("user 1001"), "came"));
}

TEST_F(HostileClients, ShareTheQuotasOfTheirUserWhateverTheNumberOfTheirConnections) {
  TenantLimits limits;
  limits[Resource::sessions] = 3;
  limits[Resource::regions] = 3;
  limits[Resource::ranks] = 50;
  begin(limits);
  RawClient first(socket()), second(socket());
  ASSERT_EQ(first.offer(), "");
  ASSERT_EQ(second.offer(), "");
  ASSERT_EQ(first.offer(memory_of(4096).get(), 4096), "");
  EXPECT_THAT(second.offer(memory_of(4096).get(), 4096), HasSubstr("of 3 regions of memory; user"));
  ASSERT_EQ(second.open(0, 20), "");
  ASSERT_EQ(second.open(1, 20, 1), "");
  EXPECT_THAT(second.open(2, 20, 2), HasSubstr("of 50 ranks in the communicators of its sessions; user"));
  ASSERT_EQ(second.open(4), "");  // another communicator: that one is refused for good
  EXPECT_THAT(second.open(3), HasSubstr("of 3 sessions; user"));
  second.say(CloseSession{.session = 1});
  EXPECT_EQ(second.open(3), "");
}

TEST_F(HostileClients, AreHungUpOnWhenTheySayNothing) {
  begin({}, milliseconds(50));
  const run::FileDescriptor silent = call();
  pollfd waited{.fd = silent.get(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(poll(&waited, 1, 20'000), 1);
  EXPECT_THROW(receive_parcel(silent.get()), Error);
  RawClient greeted(socket());
  EXPECT_EQ(greeted.hear(milliseconds(150)), std::nullopt) << "who has said hello stays";
}

TEST_F(HostileClients, NameMoreHostsThanRanksInVain) {
  begin();
  RawClient client(socket());
  ASSERT_EQ(client.offer(), "");
  OpenSession wish = client.wish_for(0);
  for (int i = 0; i < 10'000; ++i) wish.hosts.push_back("h" + std::to_string(i));
  client.say(wish);
  EXPECT_THAT(client.answer(), HasSubstr("10001 hosts for 1 ranks"));
}

// ---- Descriptors of the daemon ----

size_t descriptors_of_this_process() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

// The daemon closes what a client has brought some time after the client has gone: they are as many at many looks.
size_t settled_descriptors() {
  constexpr int kLooks = 100;
  const run::Deadline deadline = run::Deadline::after(seconds(20));
  size_t count = descriptors_of_this_process();
  for (int same = 0; same < kLooks && !deadline.has_passed(); usleep(2000)) {
    const size_t now = descriptors_of_this_process();
    same = now == count ? same + 1 : 0;
    count = now;
  }
  return count;
}

TEST_F(HostileClients, AreToldThatNoDescriptorsAreLeftAndSoAreOperators) {
  struct Limit {
    Limit() { CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0) << errno; }
    ~Limit() { setrlimit(RLIMIT_NOFILE, &before); }
    rlimit before{};
  } const limit;
  rlimit few = limit.before;
  few.rlim_cur = 256;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  begin();
  EXPECT_TRUE(others_are_served());
  settled_descriptors();  // what others_are_served() had leaves no numbers free below
  std::vector<run::FileDescriptor> filling;
  while (filling.empty() || filling.back().get() < 224) filling.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_THAT(testing::error_of([&] { RawClient client(socket()); }),
              HasSubstr("of 256 descriptors in use and keeps the last ones"));
  const HostView seen = view();
  EXPECT_EQ(seen.most_descriptors, 256u);
  EXPECT_GE(seen.descriptors, 224u);
  EXPECT_GE(seen.refused.at("descriptors"), 1u);
  ASSERT_EQ(seen.troubles.size(), 1u);
  EXPECT_EQ(seen.troubles[0].kind, "descriptors");
  EXPECT_THAT(seen.troubles[0].words, HasSubstr("lets no program in"));
  EXPECT_TRUE(std::any_of(seen.events.begin(), seen.events.end(), [](const EventView& event) {
    return event.words.find("descriptors in use") != std::string::npos;
  }));
  filling.clear();
  EXPECT_TRUE(others_are_served());
  EXPECT_LT(view().descriptors, 224u);
}

// The system asks a server for names of users, which may not answer.
TEST_F(HostileClients, WhoseNameIsNotKnownYetWaitForItAlone) {
  std::promise<void> answered;
  name_of_ = [answer = answered.get_future().share()](uint32_t) -> std::optional<std::string> {
    answer.wait();
    return "somebody";
  };
  begin();
  std::future<bool> served = std::async(std::launch::async, [&] { return bool(others_are_served(seconds(20))); });
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(view().communicators.empty()) << "operators are answered meanwhile";
  EXPECT_EQ(served.wait_for(milliseconds(100)), std::future_status::timeout) << "the first client is let in already";
  answered.set_value();
  EXPECT_TRUE(served.get());
  EXPECT_TRUE(others_are_served());
}

// ---- Memory of the daemon ----

TEST_F(HostileClients, ThatReadNoCompletionsWaitForThemselves) {
  begin();
  RawClient client(socket());
  ASSERT_EQ(client.offer(), "");
  ASSERT_EQ(client.open(0), "");
  auto moved = std::chrono::steady_clock::now();
  uint64_t submitted = 0;
  for (bool sends = false; std::chrono::steady_clock::now() - moved < milliseconds(300) && submitted < 100'000;) {
    const auto kind = sends ? OperationKind::send : OperationKind::recv;
    if (!client.submit(0, client.message(kind, 1, 0, kBuffers))) continue;
    sends = !sends;
    ++submitted;
    moved = std::chrono::steady_clock::now();
  }
  EXPECT_LT(submitted, SessionCalls::kMostUnread + SessionCalls::kOwnMessages + 1000) << "the daemon keeps completions";
  EXPECT_TRUE(others_are_served());
  // Once it reads them, it goes on.
  uint64_t completed = 0;
  const auto end = std::chrono::steady_clock::now() + seconds(20);
  while (completed + 1 < submitted && std::chrono::steady_clock::now() < end) {
    while (client.rings(0).take()) ++completed;
    if (client.rings(0).is_awaited()) client.ring(0);
    client.set_event();
  }
  EXPECT_GE(completed + 1, submitted);
}

TEST_F(HostileClients, HaveMessagesThatNobodyReceivesKeptOnlyUpToTheQuotaOfTheirUser) {
  constexpr uint64_t kBytes = 50 * RawClient::kPage;
  TenantLimits limits;
  limits[Resource::kept_bytes] = 3 * kBytes;
  begin(limits);
  RawClient client(socket());
  ASSERT_EQ(client.offer(), "");
  ASSERT_EQ(client.open(0), "");
  ASSERT_TRUE(client.submit(0, client.message(OperationKind::recv, 2, 1, kBuffers)));
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(client.submit(0, client.message(OperationKind::send, 1, kBytes, kBuffers)));
  EXPECT_THAT(client.answer(), HasSubstr("bytes kept by the service, for messages that nobody receives"));
  EXPECT_TRUE(others_are_served());
  // What it kept has gone with the session.
  client.say(CloseSession{.session = 0});
  ASSERT_EQ(client.open(1), "");
  ASSERT_TRUE(client.submit(1, client.message(OperationKind::recv, 2, 1, kBuffers)));
  ASSERT_TRUE(client.submit(1, client.message(OperationKind::send, 1, 2 * kBytes, kBuffers)));
  EXPECT_EQ(client.hear(milliseconds(200)), std::nullopt);
}

TEST_F(HostileClients, CannotTakeTheirMemoryAway) {
  begin();
  RawClient client(socket());
  constexpr uint64_t kBytes = 32 * RawClient::kPage;
  EXPECT_THAT(client.offer(memory_of(kBytes, kGoodSeals, false).get(), kBytes),
              HasSubstr("not all of its pages are there"));
  ASSERT_EQ(client.offer(), "");
  EXPECT_THAT(client.offer(), HasSubstr("as what was offered to a daemon before"));
  EXPECT_EQ(madvise(client.data() + kBuffers, kBytes, MADV_REMOVE), -1);
  EXPECT_EQ(madvise(&client.doorbell(), RawClient::kPage, MADV_REMOVE), -1);
  EXPECT_TRUE(others_are_served());
}

// ---- What takes long ----

constexpr seconds kLinger{8};

// Sends what does not fit, with this descriptor as often as it says. False: the daemon has hung up before.
bool send_with(int socket, std::string bytes, int descriptor, size_t times) {
  constexpr size_t kMost = 253;  // SCM_MAX_FD
  iovec piece{.iov_base = bytes.data(), .iov_len = bytes.size()};
  const std::vector<int> descriptors(times, descriptor);
  alignas(cmsghdr) char control[CMSG_SPACE(kMost * sizeof(int))] = {};
  CHECK(times <= kMost) << times;
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (times > 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(times * sizeof(int));
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(times * sizeof(int));
    std::memcpy(CMSG_DATA(header), descriptors.data(), times * sizeof(int));
  }
  const run::Deadline deadline = run::Deadline::after(seconds(30));
  while (sendmsg(socket, &message, MSG_NOSIGNAL) < 0) {
    if (errno == EPIPE || errno == ECONNRESET) return false;
    // The kernel lets a user have so many descriptors under way at most, and a socket so many bytes.
    CHECK((errno == ETOOMANYREFS || errno == EAGAIN) && !deadline.has_passed()) << "it is not sent: " << errno;
    usleep(200);
  }
  return true;
}
void send_with(int socket, const ClientMessage& said, int descriptor, size_t times) {
  CHECK(send_with(socket, encode(said), descriptor, times)) << "the daemon has hung up";
}

enum class Way { as_doorbell, as_memory, several_at_once, unread };
class Lingering : public HostileClients, public ::testing::WithParamInterface<Way> {};

// The daemon has the last ones, since it begins only when all others are closed.
TEST_P(Lingering, DescriptorsOfAClientHoldUpNobodyElse) {
  listen();
  run::FileDescriptor peer;
  const run::FileDescriptor client = call();
  {
    const run::FileDescriptor linger = lingering_socket(peer, kLinger);
    const run::FileDescriptor doorbell = memory_of(4096);
    const ClientMessage offer = OfferRegion{.wish = 1, .bytes = 4096};
    const size_t times = GetParam() == Way::several_at_once ? 8 : 1;
    if (GetParam() == Way::as_doorbell) {
      send_with(client.get(), Hello{}, linger.get(), 1);
    } else {
      send_with(client.get(), Hello{}, doorbell.get(), 1);
      if (GetParam() == Way::unread) send_with(client.get(), Hello{}, doorbell.get(), 1);  // it is hung up on
      send_with(client.get(), offer, linger.get(), times);
    }
  }
  const auto begun = std::chrono::steady_clock::now();
  start();
  EXPECT_TRUE(others_are_served());
  EXPECT_LT(std::chrono::steady_clock::now() - begun, kLinger) << "others were served while it lingered";
}
INSTANTIATE_TEST_SUITE_P(HostileClients, Lingering,
                         ::testing::Values(Way::as_doorbell, Way::as_memory, Way::several_at_once, Way::unread));

// Memory of which a thread holds the lock while this lives: it writes to it from a page that does not come.
class LockedMemory {
 public:
  explicit LockedMemory(uint64_t bytes)
      : file_(memory_of(bytes)), faults_(static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC))) {
    uffdio_api api{};
    api.api = UFFD_API;
    if (!faults_.is_open() || ioctl(faults_.get(), UFFDIO_API, &api) != 0) return;
    page_ = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uffdio_register missing{};
    missing.range = {.start = reinterpret_cast<uintptr_t>(page_), .len = kPage};
    missing.mode = UFFDIO_REGISTER_MODE_MISSING;
    CHECK(ioctl(faults_.get(), UFFDIO_REGISTER, &missing) == 0) << errno;
    writer_ = std::thread([this] { CHECK_EQ(pwrite(file_.get(), page_, kPage, 0), ssize_t{kPage}); });
    uffd_msg fault{};
    is_locked_ = read(faults_.get(), &fault, sizeof fault) == sizeof fault;
  }
  ~LockedMemory() {
    if (!writer_.joinable()) return;
    uffdio_zeropage brought{};
    brought.range = {.start = reinterpret_cast<uintptr_t>(page_), .len = kPage};
    CHECK(ioctl(faults_.get(), UFFDIO_ZEROPAGE, &brought) == 0) << errno;
    writer_.join();
    munmap(page_, kPage);
  }

  int fd() const { return file_.get(); }
  bool is_locked() const { return is_locked_; }

 private:
  static constexpr size_t kPage = 4096;
  const run::FileDescriptor file_, faults_;
  void* page_ = nullptr;
  std::thread writer_;
  bool is_locked_ = false;
};

TEST_F(HostileClients, WhoLockTheirMemoryHoldUpNobodyElse) {
  const LockedMemory locked(run::Recorder::kMemoryBytes), doorbell(4096);
  if (!locked.is_locked()) GTEST_SKIP() << "this user cannot hold up its own page faults here";
  begin({}, seconds(1));
  const run::FileDescriptor caller = call();
  ASSERT_TRUE(send_parcel(caller.get(), encode(ClientMessage(Hello{})), doorbell.fd()));
  EXPECT_TRUE(others_are_served());
  RawClient client(socket());
  client.say(OfferRegion{.wish = 1, .bytes = run::Recorder::kMemoryBytes}, locked.fd());
  client.say(ShowRecord{.record = 1, .communicator = 1, .name = "job", .rank = 0, .size = 2}, locked.fd());
  client.say(HideRecord{.record = 1});
  EXPECT_TRUE(others_are_served());
  EXPECT_EQ(client.hear(milliseconds(200)), std::nullopt) << "nothing can be said of that memory yet";
  pollfd waited{.fd = caller.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&waited, 1, 20'000), 1) << "who has not said hello in time is hung up on";
  EXPECT_TRUE(others_are_served());
  EXPECT_TRUE(view().communicators.empty());
}

// What it has sent before it was let in goes with its socket.
TEST_F(HostileClients, ThatAreTurnedAwayHoldUpNobodyWithTheirDescriptors) {
  TenantLimits limits;
  limits[Resource::connections] = 1;
  listen(limits);
  run::FileDescriptor peer, guest = call();
  const run::FileDescriptor client = call();
  {
    const run::FileDescriptor linger = lingering_socket(peer, kLinger);
    send_with(client.get(), Hello{}, linger.get(), 1);
  }
  const auto begun = std::chrono::steady_clock::now();
  start();
  pollfd waited{.fd = client.get(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(poll(&waited, 1, 20'000), 1);
  std::optional<Parcel> refusal;
  for (int tries = 0; tries < 2 && !refusal; ++tries) {  // the kernel may tell of the hang-up first, once
    try {
      refusal = receive_parcel(client.get());
    } catch (const Error&) {
    }
  }
  ASSERT_TRUE(refusal);
  EXPECT_TRUE(std::holds_alternative<Refused>(decode_daemon_message(refusal->bytes)));
  guest.reset();
  while (!others_are_served() && std::chrono::steady_clock::now() - begun < kLinger) usleep(10'000);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, kLinger) << "others were served while it lingered";
}

// Messages of every length, from none on, with and without descriptors, before hello and after it. The kernel opens
// descriptors in the daemon before it looks at a byte.
TEST_F(HostileClients, LeaveNoDescriptorBehindWhateverMessageBringsIt) {
  const char* const asked = std::getenv("BANYAN_TEST_MESSAGES");
  const int messages = asked == nullptr ? 2400 : std::stoi(asked);
  TenantLimits limits;
  limits.acts_per_second = limits.acts_at_once = 1e9;
  begin(limits);
  EXPECT_TRUE(others_are_served());
  const run::FileDescriptor file = memory_of(4096);
  const std::string hello = encode(ClientMessage(Hello{})), bytes(kMaxMessage, '\x01');
  constexpr std::array<size_t, 4> kDescriptors = {0, 1, 2, 253};
  constexpr std::array<size_t, 5> kLong = {4095, 65'536, kMaxMessage / 2, kMaxMessage - 1024, kMaxMessage};
  const size_t before = settled_descriptors();
  for (int number = 0; number < messages; ++number) {
    const size_t step = static_cast<size_t>(number);
    const size_t turn = step / (2 * kDescriptors.size());  // all ways of one length, then the next length
    const size_t length = turn % 400 < 395 ? turn % 400 : kLong.at(turn % 400 - 395);
    const run::FileDescriptor client = call();
    const int room = 2 * kMaxMessage;
    ASSERT_EQ(setsockopt(client.get(), SOL_SOCKET, SO_SNDBUF, &room, sizeof room), 0);
    if (step % 2 == 1) send_with(client.get(), hello, file.get(), 1);
    send_with(client.get(), bytes.substr(0, length), file.get(), kDescriptors.at(step / 2 % kDescriptors.size()));
  }
  const run::Deadline deadline = run::Deadline::after(seconds(20));
  while (descriptors_of_this_process() != before && !deadline.has_passed()) usleep(1000);
  EXPECT_EQ(descriptors_of_this_process(), before) << messages << " messages";
  EXPECT_TRUE(others_are_served());
}

TEST_F(HostileClients, CannotMakeTheDaemonWaitForAnEventThatTheyHaveTakenAway) {
  run::Event event;
  ASSERT_TRUE(event.set());
  ASSERT_EQ(fcntl(event.fd(), F_SETFL, 0), 0);
  std::future<bool> cleared =
      std::async(std::launch::async, [&] { return event.clear_shared() && event.clear_shared(); });
  EXPECT_EQ(cleared.wait_for(seconds(5)), std::future_status::ready) << "it waits for an event";
  event.set();  // should it
  EXPECT_TRUE(cleared.get());
}

TEST_F(HostileClients, ThatNeedPlansForManyRanksWaitForThemselves) {
  begin();
  RawClient client(socket());
  ASSERT_EQ(client.offer(), "");
  constexpr uint32_t kRanks = 1000;
  client.say(client.wish_for(0, kRanks));
  EXPECT_TRUE(others_are_served()) << "while it is opened";
  ASSERT_EQ(client.answer(), "");
  Submission sum = client.message(OperationKind::all_reduce, 0, 10, kBuffers);
  sum.send = sum.recv;
  sum.recv = client.at(kBuffers + 100);
  ASSERT_TRUE(client.submit(0, sum));
  EXPECT_TRUE(others_are_served(seconds(3))) << "while its plan is made";
}

TEST_F(HostileClients, CloseASessionThatIsBeingOpenedAndOpenItAgain) {
  begin();
  RawClient client(socket());
  ASSERT_EQ(client.offer(), "");
  for (int i = 0; i < 20; ++i) {
    client.say(client.wish_for(0, 50));
    client.say(CloseSession{.session = 0});
  }
  OpenSession last = client.wish_for(0, 50);
  client.say(last);
  bool is_open = false;
  while (!is_open) {
    const std::optional<DaemonMessage> said = client.hear();
    ASSERT_TRUE(said);
    const auto* const opened = std::get_if<SessionOpened>(&*said);
    is_open = opened != nullptr && opened->wish == last.wish;
  }
  EXPECT_TRUE(others_are_served());
}

}  // namespace
}  // namespace banyan::service
