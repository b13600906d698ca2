#include "apps/banyand/test_banyand.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/run/system/file_descriptor.h"
#include "banyan/service/client/service_executors.h"
#include "banyan/service/protocol/place.h"

namespace banyan::service {
namespace {

constexpr std::chrono::seconds kStartTime{30};

// The process that has begun to listen there; nothing: nobody does.
std::optional<pid_t> listener_at(const std::string& path, int type) {
  const run::FileDescriptor probe(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  if (connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return std::nullopt;
  ucred peer{};
  socklen_t size = sizeof peer;
  CHECK(getsockopt(probe.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0) << errno;
  return peer.pid;
}

std::string operators_of(const BanyandProcess::Options& options) {
  const auto given = std::find(options.more.begin(), options.more.end(), "--operators");
  return given == options.more.end() ? operator_socket_beside(options.socket) : *std::next(given);
}

}  // namespace

BanyandProcess::BanyandProcess(Options options) : options_(std::move(options)) { start(); }

void BanyandProcess::start() {
  std::vector<std::string> arguments = {options_.program, "--socket",     options_.socket,
                                        "--world",        options_.world, "--crowded"};
  arguments.insert(arguments.end(), options_.more.begin(), options_.more.end());
  setenv("BANYAN_HOST_ID", options_.host.c_str(), 1);
  const std::string log = options_.socket + ".log";
  const run::FileDescriptor out(open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  daemon_ = run::Child({.words = arguments, .output = out.get(), .errors = out.get()});
  const auto deadline = std::chrono::steady_clock::now() + kStartTime;
  // A daemon whose upgrade was broken off may hold the socket for a moment, and this one then ends. A daemon listens to
  // operators last.
  while (listener_at(options_.socket, SOCK_SEQPACKET) != id() || !listener_at(operators_of(options_), SOCK_STREAM)) {
    if (has_ended() || std::chrono::steady_clock::now() > deadline) {
      throw Error(ErrorCode::io, "banyand does not listen at " + options_.socket);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

void BanyandProcess::stop() {
  if (!has_ended()) daemon_.send(SIGSTOP);
}

void BanyandProcess::go_on() {
  if (!has_ended()) daemon_.send(SIGCONT);
}

bool BanyandProcess::has_ended() {
  if (!daemon_.has_ended()) return false;
  daemon_.end();
  return true;
}

std::shared_ptr<ServiceLink> attached_to(const std::string& url, run::RegionPool& pool) {
  const run::Deadline last = run::Deadline::after(kStartTime);
  for (;;) {
    try {
      return std::make_shared<ServiceLink>(url, pool, run::Deadline::after(kStartTime));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::not_found || last.has_passed()) throw;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
}

run::Communicator::Options options_by(const std::shared_ptr<ServiceLink>& link, std::chrono::milliseconds patience,
                                      const std::string& tenant) {
  run::Communicator::Options options{.timeout = patience, .join_timeout = patience};
  options.extras[ServiceExecutors::kExtra] = ServiceExecutors::extra_of(*link);
  options.executors = [link, tenant](std::shared_ptr<run::JoinedProcesses> job, const run::Communicator::Options& own) {
    return std::make_unique<ServiceExecutors>(link, std::move(job), own, tenant);
  };
  return options;
}

uint64_t seed_of_test() {
  const char* const given = getenv("BANYAN_TEST_SEED");
  const uint64_t seed = given != nullptr ? std::stoull(given) : std::random_device()();
  std::cout << "BANYAN_TEST_SEED=" << seed << std::endl;
  return seed;
}

uint32_t number_from(const char* variable, uint32_t usual) {
  const char* const given = getenv(variable);
  return given != nullptr ? static_cast<uint32_t>(std::stoul(given)) : usual;
}

bool has_ended(pid_t process) {
  const std::string folder = "/proc/" + std::to_string(process);
  std::ifstream file(folder + "/stat");
  std::string number, name, state;
  if (!(file >> number >> name >> state)) return true;
  if (state != "Z") return false;
  // Its other threads may have its sockets still.
  std::error_code gone;
  const auto threads = std::filesystem::directory_iterator(folder + "/task", gone);
  return gone || std::distance(begin(threads), end(threads)) <= 1;
}

std::optional<pid_t> process_with(const std::string& argument, pid_t but) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (!std::all_of(name.begin(), name.end(), [](char digit) { return digit >= '0' && digit <= '9'; })) continue;
    std::ifstream file(entry.path() / "cmdline");
    bool has_it = false;
    for (std::string each; std::getline(file, each, '\0');) has_it = has_it || each == argument;
    const auto process = static_cast<pid_t>(std::stol(name));
    if (has_it && process != but && !has_ended(process)) return process;
  }
  return std::nullopt;
}

}  // namespace banyan::service
