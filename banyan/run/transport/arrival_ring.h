// ArrivalRing: the received part of a stream whose pieces may arrive out of order, in bounded memory.
//
// Every byte of a stream has a position, counted from 0. The ring has room for those from the first that was not
// consumed on, kBytes of them; a sender that knows what was consumed never sends beyond. Memory is taken when the first
// piece arrives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>

namespace banyan::run {

class ArrivalRing {
 public:
  static constexpr size_t kBytes = size_t{1} << 20;

  // Copies a piece to its place. False, and nothing is kept: there is no room for it, or some of it came before.
  bool put(uint64_t position, std::span<const std::byte> piece);

  // The next bytes in order, or some of them; valid until consume() or read().
  std::span<const std::byte> peek() const;
  void consume(size_t count);
  size_t read(std::span<std::byte> into);

  uint64_t consumed() const { return consumed_; }
  uint64_t arrived() const { return arrived_; }  // all positions below this have arrived
  bool is_empty() const { return consumed_ == arrived_; }

 private:
  bool is_new(uint64_t begin, uint64_t end) const;
  void advance();

  std::unique_ptr<std::byte[]> bytes_;
  uint64_t consumed_ = 0, arrived_ = 0;
  std::map<uint64_t, uint64_t> early_;  // begin and end of what came before something that precedes it
};

}  // namespace banyan::run
