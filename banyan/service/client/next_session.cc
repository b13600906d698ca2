#include "banyan/service/client/next_session.h"

#include <utility>

namespace banyan::service {

std::optional<std::string> NextSession::prepare(const SessionMover::Opening& opening,
                                                const std::vector<run::CallShape>& shapes) {
  std::optional<SessionMover::Opened> opened = mover_.take();
  if (generation_ != opening.generation) mover_.open(opening, shapes);
  generation_ = opening.generation;
  if (!opened) return std::nullopt;
  if (opened->generation != opening.generation) {
    end(std::move(opened));
    return std::nullopt;
  }
  ready_ = std::move(opened->carrier);
  return std::move(opened->refusal);
}

void NextSession::refuse(uint32_t generation) {
  mover_.give_up();
  end(mover_.take());
  generation_ = generation;
}

void NextSession::end_late() { end(mover_.take()); }

std::optional<uint32_t> NextSession::settle(uint32_t under_way) {
  if (ready_ && ready_->generation != under_way) mover_.end(std::move(ready_));
  if (ready_ || !generation_ || *generation_ == under_way) return std::nullopt;
  return std::exchange(generation_, std::nullopt);
}

void NextSession::end(std::optional<SessionMover::Opened> opened) {
  if (opened && opened->carrier) mover_.end(std::move(opened->carrier));
}

}  // namespace banyan::service
