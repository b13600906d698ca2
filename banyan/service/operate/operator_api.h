// OperatorApi: answers operators, and Prometheus. Any daemon answers for the whole cluster: it asks the others over
// the mesh and puts their answers together.
//
//   GET  /v1/cluster   ClusterView (view/host_view.h)
//   GET  /v1/host      HostView of this host, with what the older daemon of it still carries (host_answers.h)
//   GET  /metrics      of this host, for Prometheus
//   GET  /             the dashboard
//   GET  /v1/alive     {}: its thread comes round; waits for no call, no plan and no other host
//   GET  /v1/rules     {"version": 7, "text": "..."}: of this host, at the operator's own socket
//   POST /v1/rules     {"text": "...", "check"?: true, "older"?: true}: of all hosts, until their daemons read their
//                      files again; older: their version may be less than that of those in force; check: only says
//                      what would change for the communicators that are open, by host: {"version": 8, "warnings":
//                      ["..."], "changes": [{"communicator": id, "name", "tenant", "from": {...}, "to": {...}}]},
//                      with "calls": {"kind", "least", "most"?} (bytes) where calls of a kind get something else,
//                      where a grant is {"rule", "deny"?, "weight", "class", "cap"?, "plan"?, "log", "quota"?}
//   POST /v1/set       {"tenant": "1000/t", "weight"?: 4, "class"?: "high", "cap"?: "1GB/s" or "none"}: beyond the
//                      rules, until the daemons end; {"tenant": "1000/t", "reset": true} takes it back. {"sessions": 3}
//   POST /v1/replan    {"communicator": id, name or pattern, "avoid"?: [link...], "restore"?: [link...],
//                      "bandwidth"?: {link: "1GB/s"}, "plan"?: "a schedule file's text"}: from some call on, without
//                      stopping any. {"communicators": [id...]}: that were asked
//   POST /v1/drain     {"drain": true}: no communicators are opened any more; false: again
//   POST /v1/upgrade   {}: what is now at the path of the daemon's program takes its place (succession.h).
//                      {"process": 4711, "sessions": 3}: sessions that stay with the daemon of before
//
// Requests that change something are for the operator's own socket; a TCP port answers GET only. POSTs go to all hosts,
// or to those in "hosts": [names]; each decides whether it obeys this one (obedience.h). Answers: {"hosts": [{"host":
// name, ...}], "unreachable": [{"host", "why"}]}, where a host that refuses has {"host", "error": "words"}.
//
// On the reactor's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "banyan/run/system/reactor.h"
#include "banyan/service/cluster/card_cache.h"
#include "banyan/service/cluster/gather.h"
#include "banyan/service/cluster/lifetime.h"
#include "banyan/service/cluster/mesh.h"
#include "banyan/service/cluster/mesh_messages.h"
#include "banyan/service/http/server.h"
#include "banyan/service/operate/host_answers.h"
#include "banyan/service/operate/host_operations.h"
#include "banyan/service/operate/obedience.h"
#include "banyan/service/view/metrics.h"

namespace banyan::service {

class OperatorApi {
 public:
  // For the answers of other hosts.
  static constexpr std::chrono::milliseconds kViewTime{2000}, kCommandTime{10'000};

  struct Parts {
    run::Reactor& reactor;
    CardCache& cards;
    Mesh& mesh;
    HostAnswers& host;
    const Obedience& obedience;
    std::string own;  // this host, as daemons call it
  };
  explicit OperatorApi(Parts parts) : parts_(std::move(parts)), gather_(parts_.reactor) {}

  // The handler for the HTTP server. `may_change`: for callers who may do more than look.
  HttpServer::Handler handler(bool may_change);
  // The views of all hosts, and those that gave none. Once, at once or later.
  using Seen = std::function<void(std::vector<HostView> views, std::vector<UnreachableHost> unreachable)>;
  void look(const Seen& seen);
  // A command of the service itself to all hosts; who refuses it stands in the log.
  void order(const std::string& command, const std::string& body);
  // From another daemon; a newer one of this host asks for what this one knows alone.
  void receive(const DaemonName& asking, const OperatorQuestion& question);
  // From the daemon of another host.
  void receive(const std::string& host, const OperatorAnswer& answer);

 private:
  // The answers of hosts, and those that gave none, by their names for people.
  struct Asked {
    std::vector<std::pair<std::string, Gather::Answer>> answers;
    std::vector<UnreachableHost> unreachable;
  };

  void serve(const HttpRequest& request, bool may_change, HttpServer::Reply reply);
  void show(const std::string& path, bool may_change, HttpServer::Reply reply);
  HttpResponse metrics_from(const Gather::Answer& view);
  void change(const std::string& path, const std::string& body, HttpServer::Reply reply);
  using Done = std::function<void(const Asked& asked)>;
  using Names = std::map<std::string, std::string>;  // of hosts, for people, by what daemons call them
  Names all_hosts() const;
  Names hosts_called(const std::vector<std::string>& names) const;
  void ask(const Names& hosts, const OperatorQuestion& question, std::chrono::milliseconds at_most, Done done);
  void ask_host(const std::string& host, const OperatorQuestion& question);
  void send_answer(const DaemonName& asking, uint64_t number, const Gather::Answer& answer);

  Parts parts_;
  MetricsMemory metrics_;
  Gather gather_;
  const Lifetime lifetime_;
};

}  // namespace banyan::service
