// Looks: answers those who look in from outside while a job runs (banyan doctor --live), without stopping anything.
//
// They come by a TCP connection that has shaken hands for the purpose "look", or by the *door* of the process, an
// abstract socket of this host that lets in only this user and root. A visitor says nothing more, is sent the answers
// of all ranks of the world (ask_all), and is hung up on.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "banyan/run/agent/hooks.h"
#include "banyan/run/system/alarm.h"
#include "banyan/run/system/byte_stream.h"
#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/system/reactor.h"

namespace banyan::run {

// The time that ranks have to answer.
constexpr std::chrono::milliseconds kLookTime{700};

// Names of doors, as /proc/net/unix shows them with an '@' in front: this, the process id, '-' and a number, since a
// process may be in several worlds; below 2^63, and drawn by chance.
constexpr const char* kDoorPrefix = "banyan-";
std::string door_prefix(int64_t pid);

// On the reactor's thread.
class Looks {
 public:
  using AskAll = std::function<void(std::function<void(std::vector<PeerReport> by_rank)> done)>;
  // A member of the world.
  struct Process {
    std::string name;   // "process 4711 on node7"
    std::string place;  // "10.1.2.3:40123", where it can be asked, too
  };
  struct Job {
    uint32_t rank = 0;               // this process
    std::vector<Process> processes;  // by rank
    std::string met;                 // where they did: "tcp://node7:29501"
  };
  // Without a door where there can be none: it is one way of several.
  Looks(Reactor& reactor, Job job, AskAll ask_all);
  ~Looks();
  Looks(const Looks&) = delete;
  Looks& operator=(const Looks&) = delete;

  void admit(std::unique_ptr<ByteStream> stream);
  // Hangs up on all, and lets nobody in any more.
  void close() noexcept;

 private:
  struct Visitor {
    std::unique_ptr<ByteStream> stream;
    std::string answer{};
    size_t sent = 0;
    Alarm timer{};
  };
  using Visitors = std::list<Visitor>;

  void open_door();
  void answer_door();
  void answer(const std::vector<PeerReport>& reports);
  std::string document_of(const std::vector<PeerReport>& reports) const;
  void send(Visitors::iterator visitor);

  Reactor& reactor_;
  const Job job_;
  const AskAll ask_all_;
  FileDescriptor door_;
  Visitors visitors_;
  bool is_asking_ = false;
};

}  // namespace banyan::run
