// Residual: what the codes of a rank's contributions have lost, to be added to the next ones (error feedback).
//
// Belongs to a buffer of the same size on this rank alone. A call adds what is kept, and writes what it loses beside
// it; only when it is over does that take the other's place, so that a call that fails or is repeated spoils nothing.
//
// One thread at a time, but for begin(), and one call at a time, as that sees to.
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
  // After an allreduce, whose results these are: where they are not finite nothing was added, so that what was kept
  // before the call is kept again. Once; throws as values(). O(count).
  void keep_again(std::span<const float> results);

  // ---- For those who carry out a call ----

  // Throws Error{invalid_usage} when another call uses it.
  void begin();
  std::span<const float> kept() const { return kept_; }
  std::span<float> lost() { return lost_; }
  // For those whose bytes go as they are: what contributes to the sum, `values` and what is kept. Nothing is lost.
  void add_to(const std::byte* values, std::byte* contribution);
  // With `has_result`, what was lost is kept from now on; else nothing has changed.
  void end(bool has_result);

 private:
  std::vector<float> kept_, lost_;
  std::atomic<bool> is_in_use_{false};
};

}  // namespace banyan::run
