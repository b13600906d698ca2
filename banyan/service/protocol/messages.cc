#include "banyan/service/protocol/messages.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "banyan/run/system/system_error.h"
#include "banyan/service/protocol/wire_fields.h"

namespace banyan::service {
namespace {

bool is_gone(int error) { return error == EPIPE || error == ECONNRESET || error == ENOTCONN; }

Error gone() { return {ErrorCode::peer_lost, "the other side of the connection has gone"}; }

// The memory that messages of this thread are received in. It is not cleared for each: the longest message is 256 KiB,
// and most are some dozens of bytes.
char* room_for_message() {
  static thread_local const std::unique_ptr<char[]> room = std::make_unique_for_overwrite<char[]>(kMaxMessage + 1);
  return room.get();
}

// A message brings 253 at most (SCM_MAX_FD of the kernel). Room for all, though one is right: those that do not fit,
// the kernel would close here and now.
constexpr size_t kControlRoom = CMSG_SPACE(253 * sizeof(int));
constexpr size_t kMostDescriptors = kControlRoom / sizeof(int);

// Whatever is wrong with a message, its descriptors are ours: the kernel has opened them in this process already.
class ArrivedDescriptors {
 public:
  ArrivedDescriptors(msghdr& message, const std::function<void(run::FileDescriptor)>& close) : close_(close) {
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
      if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
      for (size_t i = 0; i < (header->cmsg_len - CMSG_LEN(0)) / sizeof(int); ++i) {
        int descriptor = -1;
        std::memcpy(&descriptor, CMSG_DATA(header) + i * sizeof descriptor, sizeof descriptor);
        all_[count_++] = run::FileDescriptor(descriptor);
      }
    }
  }
  ~ArrivedDescriptors() {
    for (size_t i = 0; close_ && i < count_; ++i) {
      if (!all_[i].is_open()) continue;
      try {
        close_(std::move(all_[i]));
      } catch (const std::exception&) {  // for want of memory: it is closed here, then
      }
    }
  }
  ArrivedDescriptors(const ArrivedDescriptors&) = delete;
  ArrivedDescriptors& operator=(const ArrivedDescriptors&) = delete;

  size_t count() const { return count_; }
  run::FileDescriptor take_first() { return std::move(all_.front()); }

 private:
  const std::function<void(run::FileDescriptor)>& close_;
  std::array<run::FileDescriptor, kMostDescriptors> all_;  // no allocation that could fail stands before them
  size_t count_ = 0;
};

}  // namespace

// ---- The fields of each message, in their order ----

template <>
inline constexpr auto kWireFields<BufferName> =
    std::tuple{&BufferName::region, &BufferName::generation, &BufferName::offset};
template <>
inline constexpr auto kWireFields<RegionTable::Place> =
    std::tuple{&RegionTable::Place::index, &RegionTable::Place::generation};
template <>
inline constexpr auto kWireFields<Hello> = std::tuple{&Hello::version, &Hello::program};
template <>
inline constexpr auto kWireFields<OfferRegion> = std::tuple{&OfferRegion::wish, &OfferRegion::bytes};
template <>
inline constexpr auto kWireFields<WithdrawRegion> = std::tuple{&WithdrawRegion::place};
template <>
inline constexpr auto kWireFields<OpenSession> = std::tuple{
    &OpenSession::wish,         &OpenSession::session,      &OpenSession::page,     &OpenSession::capability,
    &OpenSession::communicator, &OpenSession::name,         &OpenSession::tenant,   &OpenSession::rank,
    &OpenSession::members,      &OpenSession::job_size,     &OpenSession::hosts,    &OpenSession::host_of_rank,
    &OpenSession::timeout,      &OpenSession::join_timeout, &OpenSession::checksums};
template <>
inline constexpr auto kWireFields<CloseSession> = std::tuple{&CloseSession::session};
template <>
inline constexpr auto kWireFields<RankGone> = std::tuple{&RankGone::session, &RankGone::rank};
template <>
inline constexpr auto kWireFields<AskHints> = std::tuple{&AskHints::wish};
template <>
inline constexpr auto kWireFields<ShowRecord> =
    std::tuple{&ShowRecord::record, &ShowRecord::capability, &ShowRecord::communicator, &ShowRecord::name,
               &ShowRecord::tenant, &ShowRecord::rank,       &ShowRecord::size};
template <>
inline constexpr auto kWireFields<HideRecord> = std::tuple{&HideRecord::record};
template <>
inline constexpr auto kWireFields<Welcome> =
    std::tuple{&Welcome::version, &Welcome::host, &Welcome::capability, &Welcome::is_crowded};
template <>
inline constexpr auto kWireFields<RegionPlaced> = std::tuple{&RegionPlaced::wish, &RegionPlaced::place};
template <>
inline constexpr auto kWireFields<SessionOpened> = std::tuple{&SessionOpened::wish, &SessionOpened::means};
template <>
inline constexpr auto kWireFields<Refused> = std::tuple{&Refused::wish, &Refused::error};
template <>
inline constexpr auto kWireFields<SessionFailed> = std::tuple{&SessionFailed::session, &SessionFailed::error};
template <>
inline constexpr auto kWireFields<HintsGiven> = std::tuple{&HintsGiven::wish, &HintsGiven::hints};
template <>
inline constexpr std::tuple<> kWireFields<Succeeded>;

std::string encode(const ClientMessage& message) { return encode_one_of(message); }
std::string encode(const DaemonMessage& message) { return encode_one_of(message); }
ClientMessage decode_client_message(std::string_view bytes) { return decode_one_of<ClientMessage>(bytes); }
DaemonMessage decode_daemon_message(std::string_view bytes) { return decode_one_of<DaemonMessage>(bytes); }

bool send_parcel(int socket, std::string_view bytes, int descriptor) {
  iovec piece{.iov_base = const_cast<char*>(bytes.data()), .iov_len = bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  }
  ssize_t sent;
  do {
    sent = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return true;
  if (errno == EAGAIN) return false;
  if (is_gone(errno)) throw gone();
  throw run::system_error("cannot send a message of " + std::to_string(bytes.size()) + " bytes");
}

std::optional<Parcel> receive_parcel(int socket, const std::function<void(run::FileDescriptor)>& close) {
  char* const room = room_for_message();
  iovec piece{.iov_base = room, .iov_len = kMaxMessage + 1};
  alignas(cmsghdr) char control[kControlRoom];
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t received;
  do {
    received = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (received < 0 && errno == EAGAIN) return std::nullopt;
  if (received < 0 && is_gone(errno)) throw gone();
  if (received < 0) throw run::system_error("cannot receive a message");
  // First of all, since a message of any length may bring some, an empty one too, which otherwise looks like the end.
  ArrivedDescriptors descriptors(message, close);
  if (descriptors.count() > 1) throw Error(ErrorCode::invalid_input, "a message brings more than one descriptor");
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    throw Error(ErrorCode::io,
                "no descriptor is free for the one that a message brings; allow this process more of them (ulimit -n)");
  }
  if (received == 0) throw gone();  // no message of ours is empty
  if (static_cast<size_t>(received) > kMaxMessage || (message.msg_flags & MSG_TRUNC) != 0) {
    throw Error(ErrorCode::invalid_input, "a message is longer than " + std::to_string(kMaxMessage) + " bytes");
  }
  Parcel parcel;
  parcel.bytes.assign(room, static_cast<size_t>(received));
  if (descriptors.count() > 0) parcel.descriptor = descriptors.take_first();
  return parcel;
}

}  // namespace banyan::service
