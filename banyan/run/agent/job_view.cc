#include "banyan/run/agent/job_view.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/base/json_reader.h"
#include "banyan/run/agent/looks.h"
#include "banyan/run/join/handshake.h"
#include "banyan/run/join/network.h"
#include "banyan/run/join/peer_owner.h"
#include "banyan/run/join/socket_address.h"
#include "banyan/run/join/wire.h"
#include "banyan/run/seal/seal.h"
#include "banyan/run/system/host_names.h"
#include "banyan/run/system/system_error.h"

namespace banyan::run {
namespace {

using std::chrono::milliseconds;

constexpr JsonForm kForm{.name = "answer", .format = "look/2", .depth = 4};
constexpr size_t kMostBytes = size_t{256} << 20;

void wait_for(int fd, short events, const Deadline& deadline, const std::string& place) {
  while (true) {
    pollfd polled{.fd = fd, .events = events, .revents = 0};
    const int rc = poll(&polled, 1, static_cast<int>(deadline.next_sleep().count()));
    if (rc > 0) return;
    if (rc < 0 && errno != EINTR) throw system_error("cannot wait for " + place);
    if (deadline.has_passed()) {
      throw Error(ErrorCode::timed_out, place + " has not answered within " + deadline.text());
    }
  }
}

// The document that a process sends. `open` makes plain bytes of those that came.
std::string receive_document(const FileDescriptor& socket, const Deadline& deadline, const std::string& place,
                             const std::function<void(std::string_view, std::string&)>& open) {
  std::string text;
  std::array<char, 64 * 1024> buffer;
  while (true) {
    if (text.size() >= sizeof(uint64_t)) {
      const auto size = WireReader(std::string_view(text).substr(0, sizeof(uint64_t))).number<uint64_t>();
      if (size > kMostBytes) throw Error(ErrorCode::invalid_input, place + " answers nonsense");
      if (text.size() - sizeof(uint64_t) >= size) return text.substr(sizeof(uint64_t), size);
    }
    wait_for(socket.get(), POLLIN, deadline, place);
    const ssize_t count = recv(socket.get(), buffer.data(), buffer.size(), 0);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count < 0) throw system_error("cannot hear " + place);
    if (count == 0) throw Error(ErrorCode::peer_lost, place + " has hung up");
    open({buffer.data(), static_cast<size_t>(count)}, text);
  }
}

JobView view_of(const std::string& text) {
  const JsonDocument document(text, kForm);
  const JsonNode root = document.root();
  root.with_keys({"banyan", "asked", "met", "ranks"});
  const JsonNode ranks = root.at("ranks");
  JobView view;
  view.asked = root.at("asked").number_of(ranks.size(), "ranks");
  view.met = root.at("met").text();
  for (const JsonNode object : ranks.items()) {
    object.with_keys({"rank", "process", "place", "health", "text"});
    if (object.at("rank").whole() != view.ranks.size()) throw object.error("is not of the rank whose turn it is");
    JobView::Rank rank{.process = object.at("process").text(),
                       .place = object.at("place").text(),
                       .health = object.at("health").parsed(parse_health)};
    if (rank.health != Health::alive) {
      rank.why = object.at("text").text();
    } else {
      try {
        rank.view = parse_view(object.at("text").text());
      } catch (const Error& error) {  // it is of another version, or lies
        rank.health = Health::unknown;
        rank.why = error.what();
      }
    }
    view.ranks.push_back(std::move(rank));
  }
  return view;
}

// The number at the front of a text, which is cut off; none when there is none.
std::optional<int64_t> take_number(std::string_view& text) {
  int64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(rest - text.data()));
  return number;
}

struct Door {
  std::string name;
  std::set<std::string> sockets;  // that have this name, as those who have them open call them: "socket:[4711]"
};
using Doors = std::map<int64_t, std::map<int64_t, Door>>;  // by process id, those of each in the order of their making

// In the network of a process. Anybody may give a socket such a name.
Doors doors_beside(const std::string& process) {
  Doors doors;
  std::ifstream table("/proc/" + process + "/net/unix");
  const std::string prefix = std::string("@") + kDoorPrefix;
  for (std::string line; std::getline(table, line);) {
    const size_t place = line.find(prefix);
    if (place == std::string::npos) continue;
    std::string_view rest = std::string_view(line).substr(place + prefix.size());
    const std::optional<int64_t> pid = take_number(rest);
    if (!pid || !rest.starts_with('-')) continue;
    rest.remove_prefix(1);
    const std::optional<int64_t> number = take_number(rest);
    if (!number || !rest.empty()) continue;
    Door& door = doors[*pid][*number];
    door.name = line.substr(place + 1);
    const std::string before = line.substr(0, place - 1);  // its number is the last word there
    door.sockets.insert("socket:[" + before.substr(before.rfind(' ') + 1) + "]");
  }
  return doors;
}

// What a process has open; nothing where this one may not know.
std::optional<std::set<std::string>> opened_by(int64_t pid) {
  std::error_code trouble;
  std::set<std::string> opened;
  const std::filesystem::path folder = "/proc/" + std::to_string(pid) + "/fd";
  for (std::filesystem::directory_iterator each(folder, trouble), end; !trouble && each != end;
       each.increment(trouble)) {
    std::error_code closed;
    opened.insert(std::filesystem::read_symlink(each->path(), closed));
  }
  return trouble ? std::nullopt : std::optional(std::move(opened));
}

// But for those that bear the number of a process that has not made them, as far as that can be known.
Doors honest_doors_beside(const std::string& process) {
  Doors doors = doors_beside(process);
  for (auto& [pid, own] : doors) {
    const std::optional<std::set<std::string>> opened = opened_by(pid);
    if (!opened) continue;
    std::erase_if(own, [&](const auto& door) {
      const std::set<std::string>& sockets = door.second.sockets;
      return std::ranges::none_of(sockets, [&](const std::string& socket) { return opened->contains(socket); });
    });
  }
  std::erase_if(doors, [](const auto& own) { return own.second.empty(); });
  return doors;
}

// Connected to a door; closed where too many others are calling it: a stranger may have a door that he never opens.
FileDescriptor call_door(const std::string& door, const std::string& place) {
  FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) throw system_error("cannot make a socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, door.data(), std::min(door.size(), sizeof address.sun_path - 1));
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + door.size());
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0) return socket;
  if (errno != EAGAIN) throw system_error("cannot look at " + place);
  return {};
}

void wait_for_doors(const std::string& place, const Deadline& deadline) {
  constexpr milliseconds kQueueTime{10};
  if (deadline.has_passed()) {
    throw Error(ErrorCode::timed_out,
                place + " is called by too many others, and has not answered within " + deadline.text());
  }
  std::this_thread::sleep_for(std::min(kQueueTime, deadline.next_sleep()));
}

JobView look_through(const FileDescriptor& socket, const std::string& place, const Deadline& deadline) {
  if (const auto stranger = stranger_at(socket.get())) throw Error(ErrorCode::io, place + " " + *stranger);
  try {
    return view_of(receive_document(socket, deadline, place,
                                    [](std::string_view bytes, std::string& text) { text.append(bytes); }));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::peer_lost) throw;
    throw Error(ErrorCode::io, place + " lets nobody look but its own user and root");
  }
}

Admitted shake_hands(const SocketAddress& target, const std::string& place, const Secret& secret,
                     const Deadline& deadline) {
  FileDescriptor socket = make_tcp_socket(target.family());
  send_at_once(socket);
  if (connect(socket.get(), target.get(), target.size) != 0 && errno != EINPROGRESS) {
    throw system_error("cannot call " + place);
  }
  wait_for(socket.get(), POLLOUT, deadline, place);
  int error = 0;
  socklen_t size = sizeof error;
  if (getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) {
    throw system_error("cannot call " + place, error);
  }
  Handshake handshake = Handshake::caller(
      std::move(socket), secret, {.purpose = kLookPurpose, .payload = {}, .from = kLookPurpose, .to = kLookPurpose});
  Handshake::State state;
  while (Handshake::is_waiting(state = handshake.advance())) {
    wait_for(handshake.fd(), state == Handshake::State::wants_read ? POLLIN : POLLOUT, deadline, place);
  }
  if (state == Handshake::State::refused) throw Error(ErrorCode::mismatch, handshake.refusal(), place);
  return handshake.take();
}

// 0 when there is no such process.
int64_t parent_of(int64_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  // "4711 (name) S 1 ...": the name may hold blanks and brackets.
  if (!std::getline(file, line) || line.rfind(')') == std::string::npos) return 0;
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string state;
  int64_t parent = 0;
  return fields >> state >> parent ? parent : 0;
}

bool is_below(int64_t pid, int64_t ancestor) {
  constexpr int kDeepest = 64;
  int64_t here = parent_of(pid);
  for (int depth = 0; depth < kDeepest && here > 1; ++depth) {
    if (here == ancestor) return true;
    here = parent_of(here);
  }
  return false;
}

// The process, or else those below it.
std::vector<int64_t> joined_behind(const Doors& doors, int64_t pid) {
  if (doors.contains(pid)) return {pid};
  std::vector<int64_t> started;
  for (const auto& [process, own] : doors) {
    if (is_below(process, pid)) started.push_back(process);
  }
  return started;
}

}  // namespace

std::vector<int64_t> joined_processes(int64_t pid) {
  return joined_behind(honest_doors_beside(std::to_string(pid)), pid);
}

// A door at which too many call is tried again and again, as long as no other one shows anything.
std::vector<JobView> look_at_process(int64_t pid, const Deadline& deadline) {
  const std::string place = "process " + std::to_string(pid);
  if (!std::filesystem::exists("/proc/" + std::to_string(pid))) {
    throw Error(ErrorCode::not_found, "there is no " + place + " on this host");
  }
  std::vector<JobView> views;
  std::set<std::string> known;  // processes whose jobs were seen
  std::optional<Error> trouble;
  const Doors doors = honest_doors_beside(std::to_string(pid));
  for (bool is_full = true; is_full && views.empty();) {
    is_full = false;
    for (const int64_t process : joined_behind(doors, pid)) {
      const std::string name = "process " + std::to_string(process);
      if (known.contains(name + " on " + host_name())) continue;
      for (const auto& [number, door] : doors.at(process)) {
        try {
          const FileDescriptor socket = call_door(door.name, name);
          is_full = is_full || !socket.is_open();
          if (!socket.is_open()) continue;
          views.push_back(look_through(socket, name, deadline));
          for (const JobView::Rank& rank : views.back().ranks) known.insert(rank.process);
        } catch (const Error& error) {  // it may be a stranger's
          trouble = error;
        }
      }
    }
    if (is_full && views.empty()) wait_for_doors(place, deadline);
  }
  if (!views.empty()) return views;
  if (trouble) throw Error(*trouble);
  throw Error(ErrorCode::not_found,
              place +
                  " and the processes that it has started have joined no job by this version of Banyan, or are "
                  "still joining, or are in another network");
}

// One process of each job is enough. Doors at which too many call are tried again and again, after all others.
std::optional<JobView> look_at_job_that_met(const std::string& url, const Deadline& deadline) {
  struct Called {
    std::string process, name;
  };
  std::deque<Called> doors;
  for (const auto& [pid, own] : doors_beside("self")) {
    const std::string process = "process " + std::to_string(pid) + " on " + host_name();
    for (const auto& [number, door] : own) doors.push_back({process, door.name});
  }
  std::set<std::string> asked, known;  // processes; those whose job was seen
  for (size_t in_vain = 0; !doors.empty();) {
    const Called door = std::move(doors.front());
    doors.pop_front();
    if (known.contains(door.process) && !asked.contains(door.process)) continue;
    asked.insert(door.process);
    try {
      const FileDescriptor socket = call_door(door.name, door.process);
      if (!socket.is_open()) {
        doors.push_back(door);
        if (++in_vain < doors.size()) continue;
        wait_for_doors(door.process, deadline);
        in_vain = 0;
        continue;
      }
      JobView view = look_through(socket, door.process, deadline);
      if (view.met == url) return view;
      for (const JobView::Rank& rank : view.ranks) known.insert(rank.process);
    } catch (const Error& error) {  // another user's, or it has just ended, or is of another version
      if (error.code() == ErrorCode::timed_out && deadline.has_passed()) throw;
    }
  }
  return std::nullopt;
}

JobView look_at(const std::string& place, const Secret& secret, const Deadline& deadline) {
  const size_t colon = place.rfind(':');
  uint16_t port = 0;
  if (colon != std::string::npos) {
    const char* const end = place.data() + place.size();
    const auto [rest, error] = std::from_chars(place.data() + colon + 1, end, port);
    if (error != std::errc() || rest != end) port = 0;
  }
  if (port == 0) throw Error(ErrorCode::invalid_input, "'" + place + "' is no place; write host:port or a process id");
  std::string host = place.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const SocketAddress target = SocketAddress::parse(addresses_of(host).front(), port);
  const Admitted made = shake_hands(target, place, secret, deadline);
  StreamOpener opener(made.keys.receiving);
  return view_of(receive_document(made.socket, deadline, place,
                                  [&](std::string_view bytes, std::string& text) { opener.open(bytes, text); }));
}

}  // namespace banyan::run
