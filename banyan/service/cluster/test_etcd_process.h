// An etcd of its own for a test.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "banyan/base/check.h"
#include "banyan/run/join/free_port.h"

namespace banyan::service {

inline bool is_there(const std::string& program) {
  return std::system(("command -v " + program + " > /dev/null 2>&1").c_str()) == 0;
}

// A cluster of one, which may elect itself in no time, and whose leases may be a second long. It ends with the thread
// that has started it.
class EtcdProcess {
 public:
  // `folder`: for its data and its log.
  explicit EtcdProcess(std::string folder) : folder_(std::move(folder)), port_(run::free_port(1)) {}
  ~EtcdProcess() { stop(); }
  EtcdProcess(const EtcdProcess&) = delete;
  EtcdProcess& operator=(const EtcdProcess&) = delete;

  // Returns before it answers. `scheme`: "http" or "https".
  void start(const std::string& scheme = "http", const std::vector<std::string>& more = {}) {
    const std::string client = scheme + "://" + place(), peer = "http://127.0.0.1:" + std::to_string(port_ + 1);
    std::vector<std::string> words = {"etcd", "--data-dir=" + folder_ + "/data", "--heartbeat-interval=10",
                                      "--election-timeout=100"};
    for (const char* option : {"--listen-client-urls=", "--advertise-client-urls="}) words.push_back(option + client);
    for (const char* option : {"--listen-peer-urls=", "--initial-advertise-peer-urls=", "--initial-cluster=default="}) {
      words.push_back(option + peer);
    }
    words.insert(words.end(), more.begin(), more.end());
    id_ = fork();
    CHECK(id_ >= 0) << errno;
    if (id_ == 0) become(words);
  }
  void stop(int signal = SIGTERM) {
    if (id_ <= 0) return;
    kill(id_, SIGCONT);
    kill(id_, signal);
    waitpid(std::exchange(id_, 0), nullptr, 0);
  }
  void forget_all() const { std::filesystem::remove_all(folder_ + "/data"); }

  std::string place() const { return "127.0.0.1:" + std::to_string(port_); }
  pid_t id() const { return id_; }

 private:
  [[noreturn]] void become(const std::vector<std::string>& words) const {
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int file = open((folder_ + "/log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }

  const std::string folder_;
  const uint16_t port_;
  pid_t id_ = 0;
};

}  // namespace banyan::service
