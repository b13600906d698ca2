// Daemon: banyand, without its command line. Carries out the calls of the processes of this host that have attached to
// it, together with the daemons of the other hosts.
//
//   Daemon daemon({.socket = "/run/banyan/banyand.sock", .world = "file:///shared/banyan"});
//   daemon.run();   // until another thread calls stop()
//
// The thread that calls run() does control (attaching, opening, connections between daemons). Workers, a thread each,
// carry out calls: those of one client are all on one of them (workers.h). Work that may take long for one user (plans,
// closing what it has sent) goes to threads of that user (tenant_threads.h). A mistake of a client costs it its session
// or its connection, and nobody else anything; quotas limit what all programs of a user may have together
// (tenant_quota.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/compose/planner.h"
#include "banyan/run/join/secret.h"
#include "banyan/service/daemon/door.h"
#include "banyan/service/daemon/user_names.h"
#include "banyan/service/http/server.h"
#include "banyan/service/session/tenant_quota.h"
#include "banyan/service/share/class_marks.h"

namespace banyan::service {

class Predecessor;

class Daemon {
 public:
  struct Options {
    // Path of the unix socket at which tenants attach; not used where that socket is handed over.
    std::string socket;
    std::string world = {};  // where the daemons of all hosts meet (host_directory.h); empty: this host is alone
    std::string host = {};   // what it is called there; empty: own_host_id()
    std::string node = {};   // the rank of the planner's fabric that this host is; empty: its host name
    // The address for other daemons; empty: the loopback without a secret, else all addresses of this host.
    std::string address = {};
    // Path of the unix socket at which operators ask (operator_api.h); empty: that which is handed over, or none.
    std::string operators = {};
    // Hosts whose daemons may command this one (obedience.h). None: it obeys its own operators alone.
    std::vector<std::string> obey = {};
    // "127.0.0.1:9420": where everybody may look, by HTTP; empty: by the socket that is handed over, or nowhere.
    std::string http = {};
    HostNames http_hosts = {};  // what this host may be called there, beside its own names
    // The code points of packets to other hosts, by class; messages between daemons have that of the high class. None:
    // packets bear none.
    std::optional<ClassMarks> marks = {};
    std::string rules = {};   // a file (share/rules.h); empty: everything is granted
    run::Secret secret = {};  // of the daemons; tenants never see it
    // The network of the cluster, whose ranks are hosts. Without one, links are shared as TCP does it.
    compose::PlannerOptions planner = {};
    // The part of a link's bandwidth that carries payload; 1448 of 1538 bytes of Ethernet's largest ordinary frames.
    double payload = 0.94;
    uint32_t workers = 1;                     // threads that carry out calls, at most Workers::kMost
    bool is_oversubscribed = false;           // whether they have to share their cores
    bool is_for_all_users = false;            // of this host; else for its own user, and root
    std::optional<TenantLimits> limits = {};  // of each user; without: TenantLimits::of_machine()
    std::string sub_ids = "/etc/subuid";      // whose numbers of users are whose (sub_ids.h)
    // The name of a user, which may take long; nothing: there is none (user_names.h).
    std::function<std::optional<std::string>(uint32_t user)> name_of = UserNames::system_name_of;
    std::chrono::milliseconds hello_time{10'000};  // a client that has not said hello by then is hung up on
    SocketKeeper keeper = {};                      // of the sockets that this daemon opens at paths
    // For an upgrade: the path of the program, and its arguments but for --upgrade-from. Empty: there is none.
    std::string program = {};
    std::vector<std::string> arguments = {};
    // Called as a process is about to take this one's place, and once more, with this process, if that fails.
    std::function<void(int process)> is_followed_by = {};
    // Waits a moment for something without which the daemon cannot begin, such as an address of an interface that comes
    // up; the daemon looks for it again afterwards. Throws to give up. Without: the lack is an error at once.
    std::function<void(const std::string& why)> wait = {};
    // Called with the state in one line, "serving; etcd does not answer: ...", as often as it has changed.
    std::function<void(const std::string& state)> tell = {};
  };
  static constexpr const char* kServing = "serving";  // the state without any trouble, in which it begins
  // Listens at both doors and publishes itself. A socket that is left from a daemon that has ended is replaced; one at
  // which a daemon listens is Error{invalid_usage}. Throws Error{io}, Error{invalid_input}, and what read_files throws.
  explicit Daemon(Options options, HandedSockets sockets = {});
  // Takes the place of an older daemon of this host, with its sockets. Throws the same, and what Predecessor throws;
  // then the older one goes on. `predecessor`: shared with whoever tells it why this has failed.
  Daemon(Options options, std::shared_ptr<Predecessor> predecessor);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Returns after stop(), and after an upgrade (operator_api.h) once the last session that was open then has ended
  // or has gone over to the newer daemon.
  void run();
  // Any thread, and signal handlers' threads.
  void stop();
  // For programs, operators and everybody: "unix:/run/banyan/banyand.sock", ...; empty: none. Before run().
  struct Places {
    std::string tenants, operators, http;
  };
  Places places() const;
  // Reads the rules again. Open sessions get what the new ones grant; a denial of whole communicators is for new
  // sessions only. If the new rules cannot be used, the log says why, and the old ones stay. `done` is called on the
  // thread of run(): with why they stay, or with nothing. Any thread.
  using Reloaded = std::function<void(const std::string& refusal)>;
  void reload_rules(Reloaded done = {});
  // Calls `alive` on the thread of run(), at once and twice in `patience`, while all workers come round in that time
  // (workers.h). Before run().
  void watch_workers(std::chrono::microseconds patience, std::function<void()> alive);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace banyan::service
