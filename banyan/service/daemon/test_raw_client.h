// A client that says what it likes, for tests of what a daemon bears, and for benchmarks of that.
#pragma once

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/run/call/operation.h"
#include "banyan/run/join/deadline.h"
#include "banyan/run/system/shared_memory.h"
#include "banyan/service/client/control_connection.h"
#include "banyan/service/protocol/messages.h"
#include "banyan/service/protocol/rings.h"

namespace banyan::service {

// A process's end of a daemon, without the manners of service/client.
class RawConnection {
 public:
  static constexpr size_t kPage = 4096;
  static constexpr std::chrono::seconds kPatience{30};

  // Throws what greet() does.
  explicit RawConnection(const std::string& socket)
      : doorbell_(run::SharedMemory::with_pages(kPage)),
        greeting_(greet("unix:" + socket, doorbell_.fd(), run::Deadline::after(kPatience))) {}

  const Welcome& welcome() const { return greeting_.welcome; }
  int socket() const { return greeting_.socket.get(); }
  int event() const { return greeting_.event.get(); }
  DoorbellPage& doorbell() const { return *reinterpret_cast<DoorbellPage*>(doorbell_.data()); }
  uint64_t next_wish() { return ++wishes_; }

  // Waits for room in the socket; throws Error{timed_out}, Error{peer_lost}.
  void say(const ClientMessage& message, int descriptor = -1) const {
    const std::string bytes = encode(message);
    const run::Deadline deadline = run::Deadline::after(kPatience);
    while (!send_parcel(socket(), bytes, descriptor)) {
      if (deadline.has_passed()) throw Error(ErrorCode::timed_out, "the daemon does not read");
      usleep(500);
    }
  }
  // The next thing that the daemon says; nothing when it has said nothing for so long.
  std::optional<DaemonMessage> hear(std::chrono::milliseconds at_most = kPatience) const {
    pollfd waited{.fd = socket(), .events = POLLIN, .revents = 0};
    poll(&waited, 1, static_cast<int>(at_most.count()));
    const std::optional<Parcel> parcel = receive_parcel(socket());
    if (!parcel) return std::nullopt;
    return decode_daemon_message(parcel->bytes);
  }
  void ring(uint32_t session) const {
    if (service::ring(doorbell(), session)) set_event();
  }
  void set_event() const {
    const uint64_t one = 1;
    while (write(event(), &one, sizeof one) < 0 && errno == EINTR) {
    }
  }

 private:
  const run::SharedMemory doorbell_;
  Greeting greeting_;
  uint64_t wishes_ = 0;
};

// With memory and sessions, for tests.
class RawClient : public RawConnection {
 public:
  static constexpr size_t kPages = 256;

  explicit RawClient(const std::string& socket)
      : RawConnection(socket), memory_(run::SharedMemory::with_pages(kPages * kPage)) {}

  std::byte* data() const { return memory_.data(); }

  // The answer, in words where it is a refusal: "", or why not.
  std::string answer() const {
    const std::optional<DaemonMessage> said = hear();
    if (!said) return "nothing";
    if (const auto* const refused = std::get_if<Refused>(&*said)) return refused->error.message();
    if (const auto* const failed = std::get_if<SessionFailed>(&*said)) return failed->error.message();
    if (const auto* const placed = std::get_if<RegionPlaced>(&*said)) place_ = placed->place;
    return "";
  }
  // Offers this client's memory.
  std::string offer() { return offer(memory_.fd(), memory_.size()); }
  std::string offer(int descriptor, uint64_t bytes) {
    say(OfferRegion{.wish = next_wish(), .bytes = bytes}, descriptor);
    return answer();
  }
  BufferName at(size_t offset) const {
    return {.region = place_.index, .generation = place_.generation, .offset = offset};
  }

  // A session of a communicator with this many ranks, all of this host, of which this one is `rank`. Its page is that
  // of its number.
  OpenSession wish_for(uint32_t session, uint32_t ranks = 1, uint32_t rank = 0) {
    OpenSession wish;
    wish.wish = next_wish();
    wish.session = session;
    wish.page = at(session * kPage);
    wish.capability = welcome().capability;
    wish.communicator = session;
    wish.rank = rank;
    for (uint32_t each = 0; each < ranks; ++each) wish.members.push_back(each);
    wish.job_size = ranks;
    wish.hosts = {welcome().host};
    wish.host_of_rank.assign(ranks, 0);
    wish.timeout = wish.join_timeout = 60'000;
    return wish;
  }
  std::string open(uint32_t session, uint32_t ranks = 1, uint32_t rank = 0) {
    say(wish_for(session, ranks, rank));
    return answer();
  }
  SessionPage& page(uint32_t session) const {
    return *reinterpret_cast<SessionPage*>(memory_.data() + session * kPage);
  }
  ClientRings& rings(uint32_t session) { return rings_.try_emplace(session, page(session)).first->second; }
  // False: there is no room.
  bool submit(uint32_t session, const Submission& submission) {
    if (!rings(session).has_room()) return false;
    rings(session).submit(submission);
    ring(session);
    return true;
  }
  // A message of rank 0 to itself, out of or into bytes of this client's memory.
  Submission message(run::OperationKind kind, uint32_t tag, uint64_t bytes, size_t offset) const {
    Submission message;
    message.kind = static_cast<uint8_t>(kind);
    message.count = bytes;
    message.tag = tag;
    (kind == run::OperationKind::send ? message.send : message.recv) = at(offset);
    message.type = static_cast<uint8_t>(element::DataType::uint8);
    return message;
  }

 private:
  const run::SharedMemory memory_;
  mutable RegionTable::Place place_;
  std::map<uint32_t, ClientRings> rings_;
};

// A socket whose last close waits so long for its peer, which does not read.
inline run::FileDescriptor lingering_socket(run::FileDescriptor& peer, std::chrono::seconds time) {
  const run::FileDescriptor door(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  CHECK(bind(door.get(), any, length) == 0 && listen(door.get(), 1) == 0 && getsockname(door.get(), any, &length) == 0)
      << "no socket";
  run::FileDescriptor caller(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  connect(caller.get(), any, length);
  peer = run::FileDescriptor(accept4(door.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const std::string bytes(1 << 16, 'x');
  while (send(caller.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0) {
  }
  const linger waits{.l_onoff = 1, .l_linger = static_cast<int>(time.count())};
  CHECK(setsockopt(caller.get(), SOL_SOCKET, SO_LINGER, &waits, sizeof waits) == 0) << "SO_LINGER";
  return caller;
}

}  // namespace banyan::service
