#include "banyan/run/sparse/residual_undo.h"

#include <algorithm>
#include <cmath>

namespace banyan::run {

ResidualUndo::~ResidualUndo() {
  for (auto change = changes_.rbegin(); change != changes_.rend(); ++change) write(change->rows, change->before);
}

std::vector<float> ResidualUndo::remember(std::span<const uint32_t> rows) {
  if (residual_.empty()) return {};
  Change change = {.rows = {rows.begin(), rows.end()}, .before = {}};
  change.before.reserve(rows.size() * width_);
  for (const uint32_t row : rows) {
    const auto values = residual_.subspan(row * width_, width_);
    change.before.insert(change.before.end(), values.begin(), values.end());
  }
  changes_.push_back(std::move(change));
  return changes_.back().before;
}

void ResidualUndo::write(std::span<const uint32_t> rows, std::span<const float> values) {
  if (residual_.empty()) return;
  const float* from = values.data();
  for (const uint32_t row : rows) {
    std::copy_n(from, width_, residual_.data() + row * width_);
    from += width_;
  }
}

void ResidualUndo::commit(const sparse::RowList& result) {
  std::vector<Change> changes;
  changes.swap(changes_);
  if (residual_.empty()) return;
  if (std::all_of(result.values.begin(), result.values.end(), [](float value) { return std::isfinite(value); })) return;
  for (auto change = changes.rbegin(); change != changes.rend(); ++change) {
    for (size_t i = 0; i < change->rows.size(); ++i) {
      const uint32_t row = change->rows[i];
      const auto at = std::lower_bound(result.rows.begin(), result.rows.end(), row) - result.rows.begin();
      const float* const values = result.values.data() + static_cast<size_t>(at) * width_;
      for (size_t j = 0; j < width_; ++j) {
        if (!std::isfinite(values[j])) residual_[row * width_ + j] = change->before[i * width_ + j];
      }
    }
  }
}

}  // namespace banyan::run
