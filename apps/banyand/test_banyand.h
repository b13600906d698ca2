// banyand as a process of its own, to be killed.
#pragma once

#include <signal.h>
#include <stdlib.h>
#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/run/communicator/communicator.h"
#include "banyan/run/host/regions.h"
#include "banyan/run/system/child.h"
#include "banyan/service/client/service_link.h"
#include "banyan/testing/temporary_folder.h"

namespace banyan::service {

// Runs from its constructor until kill_now() or the end of the object, or of the thread that has made it.
class BanyandProcess {
 public:
  struct Options {
    std::string socket, world, host;
    std::vector<std::string> more = {};  // arguments
    std::string program = BANYAND_BINARY;
  };
  // Returns when it listens to programs and operators. Throws Error{io} when it does not within half a minute.
  explicit BanyandProcess(Options options);

  // -1 once it has ended. Never signal that: kill(-1) reaches all processes of the machine.
  pid_t id() const { return daemon_.id(); }
  // By SIGKILL; returns when it is no more.
  void kill_now() { daemon_.end(); }
  // By SIGSTOP, and SIGCONT. Nothing happens to one that has ended.
  void stop();
  void go_on();
  // Begins anew after kill_now(), and returns when it listens.
  void start();
  // Whether it has ended by itself.
  bool has_ended();

 private:
  const Options options_;
  run::Child daemon_;
};

// To the daemon at a url, which may only be starting. Throws what ServiceLink's constructor throws, but for the first
// half minute that nobody is there.
std::shared_ptr<ServiceLink> attached_to(const std::string& url, run::RegionPool& pool);

// A host for each number, which is a name here ("host0"), with a daemon that they all meet in one folder.
class DaemonFolder : public testing::TemporaryFolder {
 protected:
  DaemonFolder() { setenv("BANYAN_RECORDER_DIR", folder_.c_str(), 1); }

  static std::string name_of(uint32_t host) { return "host" + std::to_string(host); }
  std::string socket_of(uint32_t host) const { return folder_ + "/daemon" + std::to_string(host); }
  std::string url_of(uint32_t host) const { return "unix:" + socket_of(host); }
  // The place at which ranks meet.
  std::string meeting(const std::string& name = "meeting") const { return "file://" + folder_ + "/" + name; }
  BanyandProcess::Options options_of(uint32_t host, std::vector<std::string> more = {}) const {
    return {.socket = socket_of(host), .world = meeting("world"), .host = name_of(host), .more = std::move(more)};
  }
  std::unique_ptr<BanyandProcess> daemon_of(uint32_t host, std::vector<std::string> more = {}) const {
    return std::make_unique<BanyandProcess>(options_of(host, std::move(more)));
  }
};

// The options of communicators whose calls the daemon carries out.
run::Communicator::Options options_by(const std::shared_ptr<ServiceLink>& link, std::chrono::milliseconds patience,
                                      const std::string& tenant = {});

// The seed of a test: BANYAN_TEST_SEED, or another each time. Prints it.
uint64_t seed_of_test();
// The number in a variable of the environment, or the usual one.
uint32_t number_from(const char* variable, uint32_t usual);

// Ends a process that is nobody's child.
class EndOf {
 public:
  explicit EndOf(pid_t process) : process_(process) {}
  ~EndOf() { kill(process_, SIGKILL); }
  EndOf(const EndOf&) = delete;
  EndOf& operator=(const EndOf&) = delete;
  pid_t process() const { return process_; }

 private:
  const pid_t process_;
};

// A process that is nobody's child: that it has ended may be all that is known of it.
bool has_ended(pid_t process);
// One that lives and was started with this argument, other than `but`.
std::optional<pid_t> process_with(const std::string& argument, pid_t but);

}  // namespace banyan::service
