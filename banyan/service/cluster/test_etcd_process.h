// An etcd of its own for a test.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "banyan/run/join/free_port.h"
#include "banyan/run/system/child.h"
#include "banyan/run/system/file_descriptor.h"

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
    const run::FileDescriptor log(open((folder_ + "/log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    etcd_ = run::Child({.words = words, .output = log.get(), .errors = log.get()});
  }
  void stop(int signal = SIGTERM) {
    if (!etcd_.is_there()) return;
    etcd_.send(SIGCONT);
    etcd_.send(signal);
    etcd_.reap();
  }
  void forget_all() const { std::filesystem::remove_all(folder_ + "/data"); }

  std::string place() const { return "127.0.0.1:" + std::to_string(port_); }
  pid_t id() const { return etcd_.id(); }

 private:
  const std::string folder_;
  const uint16_t port_;
  run::Child etcd_;
};

}  // namespace banyan::service
