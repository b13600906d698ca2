#include "banyan/service/daemon/succession.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "banyan/run/join/deadline.h"
#include "banyan/run/record/log.h"
#include "banyan/run/system/system_error.h"
#include "banyan/service/protocol/messages.h"

namespace banyan::service {
namespace {

// Of what they tell each other; daemons that differ do not follow each other.
constexpr uint32_t kVersion = 3;
constexpr std::chrono::seconds kHandOverTime{10};
constexpr int kChildsSocket = 3;

struct Passed {
  std::string_view name;
  run::FileDescriptor HandedSockets::*place;
};
constexpr std::array<Passed, 3> kPassed = {
    {{"tenants", &HandedSockets::tenants}, {"operators", &HandedSockets::operators}, {"http", &HandedSockets::http}}};

// Waits for a reader that is slow, but not long: the other side does nothing else.
void send(int socket, const std::string& bytes, int descriptor = -1) {
  constexpr int kPatience = 1000;  // milliseconds
  for (int tries = 0; tries < 3; ++tries) {
    if (send_parcel(socket, bytes, descriptor)) return;
    pollfd waited{.fd = socket, .events = POLLOUT, .revents = 0};
    poll(&waited, 1, kPatience);
  }
  throw Error(ErrorCode::io, "the other daemon reads nothing");
}

// What systemd has said of this process is not true of the next one.
std::vector<char*> environment_of_successor() {
  std::vector<char*> kept;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view variable(*each);
    if (variable.starts_with("WATCHDOG_PID=") || variable.starts_with("LISTEN_")) continue;
    kept.push_back(*each);
  }
  kept.push_back(nullptr);
  return kept;
}

pid_t spawn(const std::string& program, const std::vector<std::string>& arguments, int socket) {
  std::vector<std::string> words = {program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  words.insert(words.end(), {"--upgrade-from", std::to_string(kChildsSocket)});
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  std::vector<char*> environment = environment_of_successor();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, socket, kChildsSocket);  // which is not closed by executing it
  pid_t process = -1;
  const int trouble = posix_spawn(&process, program.c_str(), &actions, nullptr, pointers.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  if (trouble != 0) throw run::system_error("cannot start " + in_quotes(program), trouble);
  return process;
}

}  // namespace

// ---- The older one, seen by the newer ----

Predecessor::Predecessor(int socket) : socket_(socket) {
  int kind = 0;
  socklen_t size = sizeof kind;
  if (getsockopt(socket, SOL_SOCKET, SO_TYPE, &kind, &size) != 0 || kind != SOCK_SEQPACKET) {
    socket_.release();
    throw Error(ErrorCode::invalid_input, "--upgrade-from " + std::to_string(socket) +
                                              " is no socket of a daemon; it is for daemons, which start the next one "
                                              "by 'banyan service upgrade'");
  }
  fcntl(socket, F_SETFD, FD_CLOEXEC);
}

Inheritance Predecessor::take_over() {
  send(socket_.get(), run::WireWriter().text("ready").number(kVersion).take());
  const run::Deadline deadline = run::Deadline::after(kHandOverTime);
  Inheritance given;
  bool knows_older = false;
  for (;;) {
    std::optional<Parcel> parcel = receive_parcel(socket_.get());
    if (!parcel) {
      if (deadline.has_passed()) {
        throw Error(ErrorCode::timed_out, "the daemon that started this one hands over nothing");
      }
      pollfd waited{.fd = socket_.get(), .events = POLLIN, .revents = 0};
      poll(&waited, 1, static_cast<int>(deadline.next_sleep().count()));
      continue;
    }
    run::WireReader reader(parcel->bytes);
    const std::string kind = reader.text();
    if (kind == "take") {
      given.unlinks_tenants = reader.number<uint8_t>() != 0;
      given.unlinks_operators = reader.number<uint8_t>() != 0;
      if (!knows_older) throw Error(ErrorCode::invalid_input, "the older daemon does not say who it is");
      given.older.socket = copy_of(socket_);
      return given;
    }
    // A daemon of version 0.2 may have older ones itself.
    if (kind == "older" && std::exchange(knows_older, true)) {
      throw Error(ErrorCode::unsupported,
                  "a daemon that was here before it still has communicators; upgrade again "
                  "when that one has ended");
    }
    if (kind == "older") take(reader, given.older.daemon);
    if (kind == "session") {
      const std::string communicator = reader.text();
      for (const uint32_t rank : reader.ranks()) given.older.sessions.insert({communicator, rank});
    }
    for (const Passed& each : kPassed) {
      if (each.name == kind && parcel->descriptor) given.sockets.*each.place = *std::move(parcel->descriptor);
    }
  }
}

void Predecessor::serve(const HostCard& own) {
  send(socket_.get(), run::WireWriter().text("serving").text(own.encode()).take());
}

void Predecessor::fail(const std::string& why) noexcept {
  try {
    send(socket_.get(), run::WireWriter().text("failed").text(why).take());
  } catch (...) {  // it has ended, or sees this one end
  }
}

// ---- The newer one, seen by the older ----

Successor::Successor(run::Reactor& reactor, const std::string& program, const std::vector<std::string>& arguments,
                     Events events)
    : reactor_(reactor), program_(program), events_(std::move(events)) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0) {
    throw run::system_error("cannot make a pair of sockets");
  }
  socket_ = run::FileDescriptor(ends[0]);
  run::FileDescriptor far(ends[1]);
  // Were it the child's number already, dup2 would leave it to be closed.
  if (far.get() == kChildsSocket) far = run::FileDescriptor(fcntl(far.get(), F_DUPFD_CLOEXEC, kChildsSocket + 1));
  process_ = spawn(program, arguments, far.get());
  reactor_.watch(socket_.get(), EPOLLIN, [this](uint32_t) { receive(); });
  wait_at_most(kReadyTime, "has not said within 5 s that it is ready");
}

Successor::~Successor() {
  if (until_) reactor_.cancel(*until_);
  if (!is_over_) reactor_.forget(socket_.get());
  if (serves_ || process_ < 0) return;
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
}

void Successor::wait_at_most(std::chrono::milliseconds time, const std::string& what) {
  if (until_) reactor_.cancel(*until_);
  until_ = reactor_.after(time, [this, what] {
    until_.reset();
    fail(what);
  });
}

void Successor::hand_over(const Inheritance& given) {
  try {
    for (const Passed& each : kPassed) {
      const run::FileDescriptor& socket = given.sockets.*each.place;
      if (socket.is_open()) send(socket_.get(), run::WireWriter().text(std::string(each.name)).take(), socket.get());
    }
    run::WireWriter older;
    older.text("older");
    put(older, given.older.daemon);
    send(socket_.get(), older.take());
    for (const auto& [communicator, rank] : given.older.sessions) {
      send(socket_.get(), run::WireWriter().text("session").text(communicator).ranks({rank}).take());
    }
    run::WireWriter writer;
    writer.text("take").number(static_cast<uint8_t>(given.unlinks_tenants));
    writer.number(static_cast<uint8_t>(given.unlinks_operators));
    send(socket_.get(), writer.take());
    wait_at_most(kServingTime, "has not served within 3 s");
  } catch (const Error& error) {
    fail_with(error, "takes nothing over: ");
  }
}

void Successor::receive() {
  try {
    while (!is_over_) {
      const std::optional<Parcel> parcel = receive_parcel(socket_.get());
      if (!parcel) return;
      run::WireReader reader(parcel->bytes);
      const std::string kind = reader.text();
      if (kind == "failed" && !serves_) return fail("cannot serve: " + reader.text());
      if (kind == "ready" && !std::exchange(is_ready_, true)) {
        const auto version = reader.number<uint32_t>();
        if (version != kVersion) return fail("hands over in another way (version " + std::to_string(version) + ")");
        events_.ready();
      } else if (kind == "serving" && is_ready_ && !serves_) {
        const HostCard card = HostCard::decode(reader.text());
        if (until_) reactor_.cancel(*std::exchange(until_, std::nullopt));
        serves_ = true;
        events_.serving(card);
      }
    }
  } catch (const Error& error) {
    if (serves_) {
      reactor_.forget(socket_.get());
      is_over_ = true;
      events_.ended();
      BANYAN_LOG(warning) << "the daemon that took over (process " << process_ << ") has ended: " << how_it_ended();
      return;
    }
    fail_with(error, "says what is not understood: ");
  }
}

// It is about to end, or closes what it does not know.
std::string Successor::how_it_ended() {
  constexpr useconds_t kPause = 10'000;
  for (int tries = 0; tries < 20; ++tries) {
    int status = 0;
    if (waitpid(process_, &status, WNOHANG) == process_) {
      process_ = -1;
      return WIFEXITED(status) ? "has ended with exit code " + std::to_string(WEXITSTATUS(status))
                               : "was ended by signal " + std::to_string(WTERMSIG(status));
    }
    usleep(kPause);
  }
  return "has hung up";
}

// The end of the connection is the end of the program, which says more.
void Successor::fail_with(const Error& error, const std::string& otherwise) {
  fail(error.code() == ErrorCode::peer_lost ? how_it_ended() : otherwise + error.message());
}

void Successor::fail(const std::string& why) {
  if (std::exchange(is_over_, true)) return;
  reactor_.forget(socket_.get());
  if (until_) reactor_.cancel(*std::exchange(until_, std::nullopt));
  events_.failed(in_quotes(program_) + " " + why);
}

}  // namespace banyan::service
