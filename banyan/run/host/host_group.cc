#include "banyan/run/host/host_group.h"

#include <utility>

namespace banyan::run {

HostGroup::HostGroup(Segment segment, Exchange::Options options, bool is_oversubscribed)
    : segment_(std::move(segment)),
      rank_(options.rank),
      is_oversubscribed_(is_oversubscribed),
      back_off_(is_oversubscribed_),
      exchange_(segment_, std::move(options)) {}

// The watch is asked after more looks than a peer on another core needs, and then seldom. How long a look takes depends
// on the processor's pause: by their manuals some 20 ns (AMD) or 60 ns (Intel), so 256 looks take 5 us at least. If it
// was asked within the time of a small call, each call would pay for the question. It is told when a wait that it knows
// of ends, so that all of its time is counted.
void HostGroup::wait(Watch& watch) {
  constexpr uint32_t kLooksBetweenQuestions = 256;
  back_off_.begin();
  uint64_t steps = exchange_.steps();
  uint32_t looks = 0;
  bool is_known = false;
  while (!advance()) {
    if (exchange_.steps() != steps) {
      steps = exchange_.steps();
      back_off_.end();
      if (std::exchange(is_known, false)) watch.woke();
      looks = 0;
      continue;
    }
    const bool is_awake = back_off_.pause();
    if (is_awake && ++looks % kLooksBetweenQuestions != 0) continue;
    expect_whole();
    watch.waiting_for(exchange_.waiting_for());
    is_known = true;
    if (is_awake) continue;
    nap([&] { return advance() || exchange_.steps() != steps; });
    watch.woke();
    back_off_.slept();
  }
  if (is_known) watch.woke();
  back_off_.end();
}

void HostGroup::expect_whole() const {
  if (segment_.is_broken()) {
    throw Error(static_cast<ErrorCode>(segment_.broken_code()), segment_.broken_text());
  }
}

void HostGroup::break_with(const Error& error) const {
  segment_.break_with(static_cast<int>(error.code()), error.what());
}

}  // namespace banyan::run
