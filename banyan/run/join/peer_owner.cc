#include "banyan/run/join/peer_owner.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "banyan/run/join/socket_address.h"
#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/system/system_error.h"

namespace banyan::run {
namespace {

// The peer's end first.
struct Ends {
  SocketAddress peer, own;
};

// IPv4 where both are, be it within IPv6.
SocketAddress plain(const SocketAddress& address) {
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address.storage);
  if (address.family() != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) return address;
  SocketAddress result;
  auto& v4 = reinterpret_cast<sockaddr_in&>(result.storage);
  v4.sin_family = AF_INET;
  v4.sin_port = v6.sin6_port;
  std::memcpy(&v4.sin_addr, &v6.sin6_addr.s6_addr[12], sizeof v4.sin_addr);
  result.size = sizeof v4;
  return result;
}

std::optional<Ends> ends_of(int fd) {
  Ends ends;
  ends.own.size = ends.peer.size = sizeof ends.own.storage;
  if (getsockname(fd, ends.own.get(), &ends.own.size) != 0 || getpeername(fd, ends.peer.get(), &ends.peer.size) != 0) {
    return {};
  }
  ends.own = plain(ends.own);
  ends.peer = plain(ends.peer);
  return ends;
}

std::optional<uid_t> owner_of_unix_peer(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return {};
  return peer.uid;
}

void put(const SocketAddress& address, __be32* ip, __be16& port) {
  port = htons(address.port());
  if (address.family() == AF_INET) {
    std::memcpy(ip, &reinterpret_cast<const sockaddr_in&>(address.storage).sin_addr, sizeof(in_addr));
  } else {
    std::memcpy(ip, &reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_addr, sizeof(in6_addr));
  }
}

std::optional<uid_t> ask_kernel(const Ends& ends) {
  const FileDescriptor netlink(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!netlink.is_open()) {
    if (is_shortage(errno)) throw system_error("the kernel cannot be asked whose connection this is");
    return {};
  }
  struct {
    nlmsghdr header{};
    inet_diag_req_v2 request{};
  } question;
  question.header.nlmsg_len = sizeof question;
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST;
  question.request.sdiag_family = static_cast<__u8>(ends.peer.family());
  question.request.sdiag_protocol = IPPROTO_TCP;
  question.request.idiag_states = ~__u32{0};
  inet_diag_sockid& id = question.request.id;
  put(ends.peer, id.idiag_src, id.idiag_sport);
  put(ends.own, id.idiag_dst, id.idiag_dport);
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  if (sendto(netlink.get(), &question, sizeof question, 0, reinterpret_cast<const sockaddr*>(&kernel), sizeof kernel) !=
      static_cast<ssize_t>(sizeof question)) {
    return {};
  }
  // The answer is there when the question was taken.
  alignas(nlmsghdr) std::array<char, 4096> buffer;
  const ssize_t count = recv(netlink.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  nlmsghdr header;
  inet_diag_msg answer;
  if (count < static_cast<ssize_t>(NLMSG_HDRLEN + sizeof answer)) return {};
  std::memcpy(&header, buffer.data(), sizeof header);
  std::memcpy(&answer, buffer.data() + NLMSG_HDRLEN, sizeof answer);
  // Where there is no such connection, the kernel tells of a listener that would have taken it.
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY || answer.id.idiag_sport != id.idiag_sport ||
      answer.id.idiag_dport != id.idiag_dport || answer.idiag_inode == 0) {
    return {};
  }
  return answer.idiag_uid;
}

// As the table writes it: the words of the address as numbers of this machine.
std::string table_text(const SocketAddress& address, bool in_v6) {
  std::array<uint32_t, 4> words{0, 0, htonl(0xffff), 0};
  const bool is_v4 = address.family() == AF_INET;
  if (is_v4) {
    std::memcpy(&words[3], &reinterpret_cast<const sockaddr_in&>(address.storage).sin_addr, sizeof words[3]);
  } else {
    std::memcpy(words.data(), &reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_addr, sizeof words);
  }
  std::string text;
  std::array<char, 16> digits;
  for (size_t i = in_v6 ? 0 : 3; i < words.size(); ++i) {
    std::snprintf(digits.data(), digits.size(), "%08X", words[i]);
    text += digits.data();
  }
  std::snprintf(digits.data(), digits.size(), ":%04X", address.port());
  return text + digits.data();
}

std::optional<uid_t> look_up(const Ends& ends, const char* table, bool in_v6) {
  const std::string peer = table_text(ends.peer, in_v6), own = table_text(ends.own, in_v6);
  std::ifstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string number, local, remote, state, queues, timer, retries, timeout;
    uid_t uid = 0;
    uint64_t inode = 0;
    if (!(fields >> number >> local >> remote >> state >> queues >> timer >> retries >> uid >> timeout >> inode))
      continue;
    if (local == peer && remote == own) return inode == 0 ? std::nullopt : std::make_optional(uid);
  }
  return {};
}

// That of users without a number in this user namespace; nothing when all have one.
std::optional<uid_t> uid_of_unknown_users() {
  uint64_t first = 1, outside = 1, count = 0;
  std::ifstream("/proc/self/uid_map") >> first >> outside >> count;
  if (first == 0 && outside == 0 && count >= UINT32_MAX) return {};
  uid_t uid = 65534;
  std::ifstream("/proc/sys/kernel/overflowuid") >> uid;
  return uid;
}

}  // namespace

std::optional<uid_t> owner_of_peer_by_table(int fd) {
  const std::optional<Ends> ends = ends_of(fd);
  if (!ends) return {};
  if (ends->peer.family() == AF_INET) {
    if (const auto uid = look_up(*ends, "/proc/net/tcp", false)) return uid;
  }
  return look_up(*ends, "/proc/net/tcp6", true);
}

std::optional<uid_t> owner_of_peer(int fd) {
  const std::optional<Ends> ends = ends_of(fd);
  if (!ends) return {};
  if (ends->own.family() == AF_UNIX) return owner_of_unix_peer(fd);
  if (const auto uid = ask_kernel(*ends)) return uid;
  return owner_of_peer_by_table(fd);
}

std::optional<std::string> stranger_at(int fd) {
  const std::optional<uid_t> owner = owner_of_peer(fd);
  const uid_t own = geteuid();
  const std::string trusted = "without a secret only user " + std::to_string(own) + " is trusted";
  if (!owner) return "has no owner that the kernel would name, and " + trusted;
  if (*owner == uid_of_unknown_users()) {
    return "may belong to any user outside of this user namespace (" + std::to_string(*owner) + "), and " + trusted;
  }
  if (*owner == own || *owner == 0) return {};
  return "belongs to user " + std::to_string(*owner) + ", and " + trusted;
}

}  // namespace banyan::run
