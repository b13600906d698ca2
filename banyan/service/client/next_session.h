// NextSession: the session to which a communicator may go over: it is opened for one change, and is either taken when
// calls go over, or ended when nothing comes of that change. SessionMover's thread does what takes long.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/run/execute/plan_switch.h"
#include "banyan/service/client/session_mover.h"

namespace banyan::service {

class NextSession {
 public:
  using Carrier = SessionMover::Carrier;

  // `mover` outlives it.
  explicit NextSession(SessionMover& mover) : mover_(mover) {}

  // Goes on with opening it for the change of this generation, and its calls of these shapes. Once, when it is there or
  // cannot be: why not, or an empty text. Nothing before.
  std::optional<std::string> prepare(const SessionMover::Opening& opening, const std::vector<run::CallShape>& shapes);
  // This rank does not take part in the change of this generation.
  void refuse(uint32_t generation);
  // No change is being prepared: what comes late is ended.
  void end_late();
  // The change of this generation is the one under way; 0: none is. Ends what was opened for another one, and returns
  // the generation of a change of which nothing has come since this was asked last.
  std::optional<uint32_t> settle(uint32_t under_way);
  // Calls go over to it. Null where it is not there.
  std::shared_ptr<Carrier> take() { return std::move(ready_); }
  bool is_there() const { return ready_ != nullptr; }

 private:
  void end(std::optional<SessionMover::Opened> opened);

  SessionMover& mover_;
  std::shared_ptr<Carrier> ready_;
  std::optional<uint32_t> generation_;  // of the change that it was opened for, or refused
};

}  // namespace banyan::service
