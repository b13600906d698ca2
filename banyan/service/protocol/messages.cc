#include "banyan/service/protocol/messages.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "banyan/run/system/system_error.h"

namespace banyan::service {
namespace {

using run::WireReader;
using run::WireWriter;

constexpr uint8_t kErrorCodes = static_cast<uint8_t>(ErrorCode::invalid_usage) + 1;

// ---- Parts ----

void put(WireWriter& writer, const Capability& capability) {
  for (const uint8_t byte : capability) writer.number(byte);
}
void put(WireWriter& writer, const BufferName& name) {
  writer.number(name.region).number(name.generation).number(name.offset);
}
void put(WireWriter& writer, const RegionTable::Place& place) { writer.number(place.index).number(place.generation); }
void put(WireWriter& writer, bool flag) { writer.number(static_cast<uint8_t>(flag)); }

bool take_flag(WireReader& reader) {
  const auto flag = reader.number<uint8_t>();
  if (flag > 1) throw Error(ErrorCode::invalid_input, "a message has a flag that is neither 0 nor 1");
  return flag == 1;
}
Capability take_capability(WireReader& reader) {
  Capability capability;
  for (uint8_t& byte : capability) byte = reader.number<uint8_t>();
  return capability;
}
BufferName take_buffer(WireReader& reader) {
  BufferName name;
  name.region = reader.number<uint32_t>();
  name.generation = reader.number<uint32_t>();
  name.offset = reader.number<uint64_t>();
  return name;
}
RegionTable::Place take_place(WireReader& reader) {
  RegionTable::Place place;
  place.index = reader.number<uint32_t>();
  place.generation = reader.number<uint32_t>();
  return place;
}
// ---- Messages. Each is written and read in the same order. ----

void put(WireWriter& writer, const Hello& hello) { writer.number(hello.version).text(hello.program); }
void take(WireReader& reader, Hello& hello) {
  hello.version = reader.number<uint32_t>();
  hello.program = reader.text();
}

void put(WireWriter& writer, const OfferRegion& offer) { writer.number(offer.wish).number(offer.bytes); }
void take(WireReader& reader, OfferRegion& offer) {
  offer.wish = reader.number<uint64_t>();
  offer.bytes = reader.number<uint64_t>();
}

void put(WireWriter& writer, const WithdrawRegion& withdraw) { put(writer, withdraw.place); }
void take(WireReader& reader, WithdrawRegion& withdraw) { withdraw.place = take_place(reader); }

void put(WireWriter& writer, const OpenSession& open) {
  writer.number(open.wish).number(open.session);
  put(writer, open.page);
  put(writer, open.capability);
  writer.number(open.communicator)
      .text(open.name)
      .text(open.tenant)
      .number(open.rank)
      .ranks(open.members)
      .number(open.job_size);
  writer.number(static_cast<uint32_t>(open.hosts.size()));
  for (const std::string& host : open.hosts) writer.text(host);
  writer.ranks(open.host_of_rank).number(open.timeout).number(open.join_timeout);
  put(writer, open.checksums);
}
void take(WireReader& reader, OpenSession& open) {
  open.wish = reader.number<uint64_t>();
  open.session = reader.number<uint32_t>();
  open.page = take_buffer(reader);
  open.capability = take_capability(reader);
  open.communicator = reader.number<uint64_t>();
  open.name = reader.text();
  open.tenant = reader.text();
  open.rank = reader.number<uint32_t>();
  open.members = reader.ranks();
  open.job_size = reader.number<uint32_t>();
  open.hosts.resize(reader.count(sizeof(uint32_t)));
  for (std::string& host : open.hosts) host = reader.text();
  open.host_of_rank = reader.ranks();
  open.timeout = reader.number<uint32_t>();
  open.join_timeout = reader.number<uint32_t>();
  open.checksums = take_flag(reader);
}

void put(WireWriter& writer, const CloseSession& close) { writer.number(close.session); }
void take(WireReader& reader, CloseSession& close) { close.session = reader.number<uint32_t>(); }

void put(WireWriter& writer, const RankGone& gone) { writer.number(gone.session).number(gone.rank); }
void take(WireReader& reader, RankGone& gone) {
  gone.session = reader.number<uint32_t>();
  gone.rank = reader.number<uint32_t>();
}

void put(WireWriter& writer, const Welcome& welcome) {
  writer.number(welcome.version).text(welcome.host);
  put(writer, welcome.capability);
  writer.number(uint8_t{welcome.is_crowded});
}
Welcome take_welcome(WireReader& reader) {
  Welcome welcome;
  welcome.version = reader.number<uint32_t>();
  welcome.host = reader.text();
  welcome.capability = take_capability(reader);
  welcome.is_crowded = reader.number<uint8_t>() != 0;
  return welcome;
}

void put(WireWriter& writer, const RegionPlaced& placed) {
  writer.number(placed.wish);
  put(writer, placed.place);
}
RegionPlaced take_placed(WireReader& reader) {
  const auto wish = reader.number<uint64_t>();
  return {.wish = wish, .place = take_place(reader)};
}

void put(WireWriter& writer, const SessionOpened& opened) { writer.number(opened.wish).text(opened.means); }
SessionOpened take_opened(WireReader& reader) {
  const auto wish = reader.number<uint64_t>();
  return {.wish = wish, .means = reader.text()};
}

void put(WireWriter& writer, const AskHints& ask) { writer.number(ask.wish); }
void take(WireReader& reader, AskHints& ask) { ask.wish = reader.number<uint64_t>(); }

void put(WireWriter& writer, const ShowRecord& show) {
  writer.number(show.record);
  put(writer, show.capability);
  writer.number(show.communicator).text(show.name).text(show.tenant).number(show.rank).number(show.size);
}
void take(WireReader& reader, ShowRecord& show) {
  show.record = reader.number<uint32_t>();
  show.capability = take_capability(reader);
  show.communicator = reader.number<uint64_t>();
  show.name = reader.text();
  show.tenant = reader.text();
  show.rank = reader.number<uint32_t>();
  show.size = reader.number<uint32_t>();
}

void put(WireWriter& writer, const HideRecord& hide) { writer.number(hide.record); }
void take(WireReader& reader, HideRecord& hide) { hide.record = reader.number<uint32_t>(); }

void put(WireWriter& writer, const HintsGiven& given) { writer.number(given.wish).text(given.hints); }
void take(WireReader& reader, HintsGiven& given) {
  given.wish = reader.number<uint64_t>();
  given.hints = reader.text();
}

void put(WireWriter& writer, const Refused& refused) {
  writer.number(refused.wish);
  put_error(writer, refused.error);
}
Refused take_refused(WireReader& reader) {
  const auto wish = reader.number<uint64_t>();
  return {.wish = wish, .error = take_error(reader)};
}

void put(WireWriter& writer, const SessionFailed& failed) {
  writer.number(failed.session);
  put_error(writer, failed.error);
}
SessionFailed take_failed(WireReader& reader) {
  const auto session = reader.number<uint32_t>();
  return {.session = session, .error = take_error(reader)};
}

void put(WireWriter&, const Succeeded&) {}

// The first byte is the place of the message in its variant.
template <typename Variant>
std::string encode_any(const Variant& message) {
  WireWriter writer;
  writer.number(static_cast<uint8_t>(message.index()));
  std::visit([&](const auto& said) { put(writer, said); }, message);
  return writer.take();
}

template <typename Message>
Message taken(WireReader& reader) {
  Message message;
  take(reader, message);
  return message;
}

ClientMessage take_client_message(WireReader& reader) {
  switch (reader.number<uint8_t>()) {
    case 0:
      return taken<Hello>(reader);
    case 1:
      return taken<OfferRegion>(reader);
    case 2:
      return taken<WithdrawRegion>(reader);
    case 3:
      return taken<OpenSession>(reader);
    case 4:
      return taken<CloseSession>(reader);
    case 5:
      return taken<RankGone>(reader);
    case 6:
      return taken<AskHints>(reader);
    case 7:
      return taken<ShowRecord>(reader);
    case 8:
      return taken<HideRecord>(reader);
    default:
      throw Error(ErrorCode::invalid_input, "a message of an unknown kind");
  }
}

DaemonMessage take_daemon_message(WireReader& reader) {
  switch (reader.number<uint8_t>()) {
    case 0:
      return take_welcome(reader);
    case 1:
      return take_placed(reader);
    case 2:
      return take_opened(reader);
    case 3:
      return take_refused(reader);
    case 4:
      return take_failed(reader);
    case 5:
      return taken<HintsGiven>(reader);
    case 6:
      return Succeeded();
    default:
      throw Error(ErrorCode::invalid_input, "a message of an unknown kind");
  }
}

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

void put_error(WireWriter& writer, const Error& error) {
  writer.number(static_cast<uint8_t>(error.code())).text(error.message()).text(error.where());
}
Error take_error(WireReader& reader) {
  const auto code = reader.number<uint8_t>();
  if (code >= kErrorCodes) throw Error(ErrorCode::invalid_input, "a message has an error of an unknown kind");
  std::string message = reader.text();
  return {static_cast<ErrorCode>(code), std::move(message), reader.text()};
}

std::string encode(const ClientMessage& message) { return encode_any(message); }
std::string encode(const DaemonMessage& message) { return encode_any(message); }

ClientMessage decode_client_message(std::string_view bytes) {
  WireReader reader(bytes);
  ClientMessage message = take_client_message(reader);
  reader.end();
  return message;
}

DaemonMessage decode_daemon_message(std::string_view bytes) {
  WireReader reader(bytes);
  DaemonMessage message = take_daemon_message(reader);
  reader.end();
  return message;
}

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
