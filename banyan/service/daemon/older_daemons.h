// OlderDaemons: the daemons of this host that were here before and still have sessions, as the newest one knows them.
//
// Each upgrade adds one, and an older one ends with its last session, in any order. The newest daemon knows them all:
// whoever takes its place gets them from it, with the sockets whose ends are theirs (succession.h).
//
// On the reactor's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/system/reactor.h"
#include "banyan/service/daemon/host_directory.h"
#include "banyan/service/daemon/mesh.h"
#include "banyan/service/daemon/open_sessions.h"

namespace banyan::service {

// A daemon that another one has taken the place of, by what that one was told then.
struct ElderDaemon {
  OlderDaemon daemon;
  std::set<OpenSessions::Key> sessions;
  run::FileDescriptor socket;  // to it; at its end it is hung up
};

class OlderDaemons {
 public:
  // Each has threads and memory of its own.
  static constexpr size_t kMost = 4;

  // `ended` is told of each that has ended, when it is no more among these.
  OlderDaemons(run::Reactor& reactor, std::function<void(uint64_t incarnation)> ended)
      : reactor_(reactor), ended_(std::move(ended)) {}
  ~OlderDaemons() { clear(); }
  OlderDaemons(const OlderDaemons&) = delete;
  OlderDaemons& operator=(const OlderDaemons&) = delete;

  void add(std::vector<ElderDaemon> daemons);
  // They are a newer daemon's now.
  void clear();

  size_t size() const { return daemons_.size(); }
  // As a card names them: the last one first.
  std::vector<OlderDaemon> cards() const;
  std::vector<DaemonName> names(const std::string& host) const;
  std::set<OpenSessions::Key> sessions() const;
  // For a successor. Throws Error{io}.
  std::vector<ElderDaemon> copies() const;
  // Who serves now, and who is still there besides. Where one does not read it, it finds the card in the directory.
  void tell(const HostCard& newest) const;

 private:
  void note_end(uint64_t incarnation);

  run::Reactor& reactor_;
  const std::function<void(uint64_t incarnation)> ended_;
  std::vector<ElderDaemon> daemons_;  // the last one first
};

}  // namespace banyan::service
