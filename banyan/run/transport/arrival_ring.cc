#include "banyan/run/transport/arrival_ring.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "banyan/base/check.h"

namespace banyan::run {

bool ArrivalRing::put(uint64_t position, std::span<const std::byte> piece) {
  // Written so that positions near 2^64, which a stranger may send, do not wrap.
  if (position < arrived_ || position - consumed_ > kBytes || piece.size() > kBytes - (position - consumed_))
    return false;
  if (!is_new(position, position + piece.size())) return false;
  if (piece.empty()) return true;
  if (!bytes_) bytes_ = std::make_unique_for_overwrite<std::byte[]>(kBytes);
  const size_t begin = position % kBytes, first = std::min(piece.size(), kBytes - begin);
  std::memcpy(bytes_.get() + begin, piece.data(), first);
  if (first < piece.size()) std::memcpy(bytes_.get(), piece.data() + first, piece.size() - first);
  if (position == arrived_) {
    arrived_ += piece.size();
    advance();
  } else {
    early_.emplace(position, position + piece.size());
  }
  return true;
}

bool ArrivalRing::is_new(uint64_t begin, uint64_t end) const {
  const auto next = early_.lower_bound(begin);
  if (next != early_.end() && next->first < end) return false;
  return next == early_.begin() || std::prev(next)->second <= begin;
}

void ArrivalRing::advance() {
  while (!early_.empty() && early_.begin()->first == arrived_) {
    arrived_ = early_.begin()->second;
    early_.erase(early_.begin());
  }
}

std::span<const std::byte> ArrivalRing::peek() const {
  const size_t begin = consumed_ % kBytes;
  return {bytes_.get() + begin, std::min<uint64_t>(arrived_ - consumed_, kBytes - begin)};
}

void ArrivalRing::consume(size_t count) {
  DCHECK(count <= arrived_ - consumed_) << count << " of " << arrived_ - consumed_ << " bytes";
  consumed_ += count;
}

size_t ArrivalRing::read(std::span<std::byte> into) {
  size_t count = 0;
  for (int part = 0; part < 2 && count < into.size(); ++part) {  // around the end
    const std::span<const std::byte> seen = peek();
    const size_t taken = std::min(seen.size(), into.size() - count);
    if (taken == 0) break;
    std::memcpy(into.data() + count, seen.data(), taken);
    consume(taken);
    count += taken;
  }
  return count;
}

}  // namespace banyan::run
