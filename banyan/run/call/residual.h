// Residual: what the codes of a rank's contributions have lost, to be added to the next ones (error feedback).
//
// Belongs to a buffer of the same size on this rank alone. A call adds what is kept, and writes what it loses beside
// it; its losses take the place of the kept ones only when it is over, so that a call that fails or is repeated spoils
// nothing.
//
// One call at a time, as ResidualUse sees to, and one thread at a time, except to begin a ResidualUse.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>
#include <vector>

namespace banyan::run {

class Residual {
 public:
  // All zero.
  explicit Residual(size_t count) : kept_(count), lost_(count) {}
  Residual(const Residual&) = delete;
  Residual& operator=(const Residual&) = delete;

  size_t size() const { return kept_.size(); }
  // Between calls: to be saved, restored, scaled. Throws Error{invalid_usage} while a call uses it.
  std::span<float> values();

  // ---- For those who carry out a call ----

  std::span<const float> kept() const { return kept_; }
  std::span<float> lost() { return lost_; }
  // For data that is sent without a code: writes the contribution to the sum, `values` and what is kept. Nothing is
  // lost, except what is kept beside a value that is not finite: that counts as lost, so that it is there in the next
  // call.
  void add_to(const std::byte* values, std::byte* contribution);

 private:
  friend class ResidualUse;

  std::vector<float> kept_, lost_;
  std::atomic<bool> is_in_use_{false};
};

struct Call;

// The use of its residual by a call, if it has one: from making on, until it has succeeded or this object ends.
class ResidualUse {
 public:
  // Throws Error{invalid_usage} when another call uses it. The residual outlives this.
  explicit ResidualUse(const Call& call);
  // For sums that are carried out by several calls. The caller sees to results that are not finite.
  explicit ResidualUse(Residual& residual);
  ResidualUse(const ResidualUse&) = delete;
  ResidualUse& operator=(const ResidualUse&) = delete;
  // Without succeed(), the residual stays as it was before the call.
  ~ResidualUse() { end(); }

  // The losses of the call are kept from now on. Nothing was added to a result of an allreduce that is not finite: for
  // it the loss of before is kept again, on each rank, whichever rank sent a value that is not finite. A rank does not
  // see the results of what it sent to other sums; there this holds for its own values alone. O(count).
  void succeed() noexcept;
  // Nothing has changed; nothing after succeed().
  void end() noexcept;

 private:
  Residual* residual_;
  std::span<const std::byte> results_;  // of an allreduce
};

}  // namespace banyan::run
