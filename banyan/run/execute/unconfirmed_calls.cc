#include "banyan/run/execute/unconfirmed_calls.h"

#include <algorithm>

#include "banyan/base/error.h"

namespace banyan::run {

bool UnconfirmedCalls::has_room_for(size_t bytes) {
  if (calls_.size() >= kMostCalls) return false;
  if (bytes_ + bytes <= room_bytes_ || !keeper_) return true;
  // Room is asked for in steps, so that most calls ask nobody. Without room the call is confirmed before it is over.
  constexpr size_t kAtOnce = 4096;
  const size_t wanted = (bytes_ + bytes + kAtOnce - 1) / kAtOnce * kAtOnce;
  try {
    std::shared_ptr<void> room = keeper_(wanted);
    room_ = std::move(room);
    room_bytes_ = wanted;
    return true;
  } catch (const Error&) {
    return false;
  }
}

void UnconfirmedCalls::keep(Kept call) {
  bytes_ += call.result.size();
  calls_.push_back(std::move(call));
  is_settling_ = false;
  settles_at_ = Clock::now() + kConfirmAfter;
}

std::optional<uint64_t> UnconfirmedCalls::forget_confirmed(const Engine& engine) {
  if (calls_.empty() || !engine.is_done(calls_.front().ticket)) return std::nullopt;
  const uint64_t number = calls_.front().number;
  bytes_ -= calls_.front().result.size();
  calls_.pop_front();
  return number;
}

void UnconfirmedCalls::give_room_back() {
  if (room_bytes_ == 0 || !calls_.empty()) return;
  room_.reset();
  room_bytes_ = 0;
}

UnconfirmedCalls::Kept* UnconfirmedCalls::find(uint64_t number) {
  const auto found =
      std::find_if(calls_.begin(), calls_.end(), [number](const Kept& each) { return each.number == number; });
  return found == calls_.end() ? nullptr : &*found;
}

}  // namespace banyan::run
