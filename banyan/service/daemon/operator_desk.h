// OperatorDesk: answers operators, and Prometheus. Any daemon answers for the whole cluster: it asks the others over the
// mesh and puts their answers together.
//
//   GET  /v1/cluster   ClusterView (view/host_view.h)
//   GET  /v1/host      HostView of this host
//   GET  /metrics      of this host, for Prometheus
//   GET  /             the dashboard
//   GET  /v1/rules     {"version": 7, "text": "..."}: of this host
//   POST /v1/rules     {"text": "...", "check": true}: the rules of all hosts, until their daemons read their files again;
//                      check: only says what would change for the communicators that are open, by host:
//                      {"version": 8, "changes": [{"communicator": id, "name", "tenant", "from": {...}, "to": {...}}]},
//                      where a grant is {"rule", "deny"?, "weight", "class", "cap"?, "log"}
//   POST /v1/set       {"tenant": "1000/t", "weight"?: 4, "class"?: "high", "cap"?: "1GB/s" or null}: beyond the rules,
//                      until the daemons end; {"tenant": "1000/t", "reset": true} takes it back. {"sessions": 3}
//   POST /v1/replan    {"communicator": id, name or pattern, "avoid"?: [link...], "restore"?: [link...],
//                      "bandwidth"?: {link: "1GB/s"}, "plan"?: "a schedule file's text"}: from some call on, without
//                      stopping any. {"communicators": [id...]}: that were asked
//   POST /v1/drain     {"drain": true}: no communicators are opened any more; false: again
//
// What changes something is for the operator's own socket; a TCP port answers GET only. POSTs go to all hosts, or to
// those in "hosts": [names]. Answers: {"hosts": [{"host": name, ...}], "unreachable": [{"host", "why"}]}, where a host
// that refuses has {"host", "error": "words"}.
#pragma once
