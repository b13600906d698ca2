// HostGroup: one rank among the ranks of its host, and the calls that block until an operation is over.
//
// Waiting looks at shared memory only: it spins, yields, then sleeps until a peer rings. Between looks it asks the
// Watch whether there is still something to wait for. One thread.
#pragma once

#include "banyan/run/host/exchange.h"
#include "banyan/run/system/back_off.h"
#include "banyan/run/system/watch.h"

namespace banyan::run {

class HostGroup {
 public:
  // Members of an oversubscribed group have to share cores: each gives its core up at once when it waits.
  HostGroup(Segment segment, Exchange::Options options, bool is_oversubscribed);

  uint32_t rank() const { return rank_; }
  uint32_t ranks() const { return segment_.ranks(); }
  const Segment& segment() const { return segment_; }
  Exchange& exchange() { return exchange_; }
  const Exchange& exchange() const { return exchange_; }
  uint32_t waiting_for() const { return exchange_.waiting_for(); }

  // Carries out the operation. Throws what the Watch and the Exchange throw, and the error of the rank that broke the
  // group; the group is of no use after that.
  void run(const HostTask& task, Watch& watch) {
    exchange_.start(task);
    finish(watch);
  }
  // The same for an operation that was started with exchange().start().
  void finish(Watch& watch) {
    if (!advance()) wait(watch);
  }
  // Exchange::advance(), and throws the error of the rank that broke the group while its buffers were read.
  bool advance() {
    if (!exchange_.advance()) return false;
    if (exchange_.has_read_peers()) expect_whole();
    return true;
  }
  // Sleeps until a peer publishes something, or for a while, unless `try_again` moves something: it looks once more
  // when peers already know that this rank is about to sleep.
  template <typename TryAgain>
  void nap(TryAgain try_again) const {
    const uint32_t seen = segment_.rings(rank_);
    const Nap nap(*this);
    if (!try_again() && !segment_.is_broken()) segment_.sleep(rank_, seen);
  }
  bool is_oversubscribed() const { return is_oversubscribed_; }
  // Ends the operations of all ranks of the group with this error, unless it has ended already.
  void break_with(const Error& error) const;

  // Throws the error with which a rank has broken the group, if one has.
  void expect_whole() const;

 private:
  void wait(Watch& watch);
  struct Nap {
    explicit Nap(const HostGroup& group) : group_(group) { group.segment_.fall_asleep(group.rank_); }
    ~Nap() { group_.segment_.wake_up(group_.rank_); }
    const HostGroup& group_;
  };

  const Segment segment_;
  const uint32_t rank_;
  const bool is_oversubscribed_;
  BackOff back_off_;
  Exchange exchange_;
};

}  // namespace banyan::run
