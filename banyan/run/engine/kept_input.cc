#include "banyan/run/engine/kept_input.h"

#include <cstring>

#include "banyan/base/check.h"

namespace banyan::run {
namespace {

bool overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  return !a.empty() && !b.empty() && a.data() < b.data() + b.size() && b.data() < a.data() + a.size();
}

}  // namespace

void KeptInput::begin(std::span<const std::byte> input, std::span<const std::byte> output, const Options& options) {
  CHECK(undo_.empty() && copy_.saved == nullptr);
  whole_ = input_ = input;
  logs_ = false;
  // Apart from each other nothing is overwritten that is still wanted.
  if (!overlap(input, output)) return;
  if (!options.shuffles) {
    logs_ = options.can_rewind;
    return;
  }
  std::byte* const copy = pool_.take(input.size());
  std::memcpy(copy, input.data(), input.size());
  // The output is where the caller lets us write; the input is the same memory.
  copy_ = {.place = const_cast<std::byte*>(input.data()), .saved = copy, .size = input.size()};
  input_ = {copy, input.size()};
}

void KeptInput::log(std::byte* place, size_t size) {
  if (!overlap(whole_, {place, size})) return;
  std::byte* const saved = pool_.take(size);
  std::memcpy(saved, place, size);
  undo_.push_back({.place = place, .saved = saved, .size = size});
}

void KeptInput::restore() {
  if (copy_.saved != nullptr) std::memcpy(copy_.place, copy_.saved, copy_.size);
  // The latest write is undone first: a place that was written twice becomes what it was at first.
  while (!undo_.empty()) {
    const Undo last = undo_.back();
    undo_.pop_back();
    std::memcpy(last.place, last.saved, last.size);
    pool_.give_back(last.saved, last.size);
  }
  forget();
}

void KeptInput::forget() {
  if (copy_.saved != nullptr) pool_.give_back(copy_.saved, copy_.size);
  copy_ = {};
  for (const Undo& undo : undo_) pool_.give_back(undo.saved, undo.size);
  undo_.clear();
}

}  // namespace banyan::run
