// HostAnswers: answers operators for this host as a whole: for this daemon, and for the older one whose place it has
// taken and which carries its sessions to the end (succession.h). That one is asked over the mesh, and both answers
// become one: to everybody else a host is one.
//
// An older daemon that does not answer holds up nobody for long. After kViewTime or kCommandTime the answer goes
// without it, an event says so, and it is not asked again until it has answered: questions would pile up. Until then a
// view has its counters as they were seen last, and none of its communicators; a command is refused with words that say
// who has not obeyed. The counters of older daemons stay in the views after their end, so that none falls. Therefore
// other hosts do not ask an older daemon by themselves: this daemon has to see each view of it.
//
// On the reactor's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "banyan/run/system/timers.h"
#include "banyan/service/cluster/gather.h"
#include "banyan/service/cluster/lifetime.h"
#include "banyan/service/cluster/mesh.h"
#include "banyan/service/cluster/mesh_messages.h"
#include "banyan/service/operate/host_operations.h"
#include "banyan/service/view/host_view.h"

namespace banyan::service {

class HostAnswers {
 public:
  static constexpr std::chrono::milliseconds kViewTime{500}, kCommandTime{7000};
  using Answer = Gather::Answer;
  using Reply = HostOperations::Reply;

  struct Parts {
    run::Timers& timers;
    std::function<void(const std::string& command, const std::string& body, const Reply& reply)> own;  // of this daemon
    std::function<std::optional<DaemonName>()> older;                                                  // while it lives
    // Throws Error when there is no way to it.
    std::function<void(const DaemonName& daemon, const OperatorQuestion& question)> ask;
    std::function<void(const std::string& words)> record;  // an event, before this daemon says its view
  };
  explicit HostAnswers(Parts parts) : parts_(std::move(parts)), gather_(parts_.timers) {}

  // As HostOperations::answer.
  void answer(const std::string& command, const std::string& body, const Reply& reply);
  // The same without the older daemon: to a newer daemon of this host, which asks for what this one knows alone.
  void answer_alone(const std::string& command, const std::string& body, const Reply& reply);
  // From the older daemon.
  void receive(const OperatorAnswer& answer);
  // It has ended.
  void forget_older();

 private:
  struct Asked;  // one question to both daemons

  void ask_own(const std::shared_ptr<Asked>& asked);
  void receive_older(const std::shared_ptr<Asked>& asked, Gather::Result result);
  void reply_if_complete(const Asked& asked);
  Answer joined(const Asked& asked);
  Answer joined_view(const Asked& asked);
  static std::optional<HostView> view_of_older(const Asked& asked);
  Answer joined_command(const Asked& asked) const;

  const Parts parts_;
  Gather gather_;
  std::optional<uint64_t> overdue_;  // a question that the older daemon has not answered in time
  std::optional<HostView> remains_;  // counters of its last view
  std::optional<HostView> ended_;    // the same of all that have ended
  const Lifetime lifetime_;
};

}  // namespace banyan::service
