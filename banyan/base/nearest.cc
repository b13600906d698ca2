#include "banyan/base/nearest.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace banyan {
namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t change = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({change, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

// Whether the name is the candidate cut short: "topo" for "topology". Dashes before it do not count as letters.
bool is_beginning(std::string_view name, std::string_view candidate) {
  constexpr size_t kLeastLetters = 3;
  const size_t dashes = std::min(name.find_first_not_of('-'), name.size());
  return name.size() - dashes >= kLeastLetters && candidate.starts_with(name);
}

}  // namespace

NearestName::NearestName(std::string_view name)
    : name_(name.size() > kMaxLength ? std::string_view() : name),
      best_distance_(std::max<size_t>(2, name_.size() / 3) + 1) {}

void NearestName::offer(std::string_view candidate) {
  if (name_.empty() || candidate.size() > kMaxLength) return;
  size_t distance = edit_distance(name_, candidate);
  if (is_beginning(name_, candidate)) distance = std::min<size_t>(distance, 2);
  // Replacing every character is no resemblance.
  if (distance >= best_distance_ || distance >= std::max(name_.size(), candidate.size())) return;
  best_distance_ = distance;
  best_ = candidate;
}

std::string NearestName::hint() const { return best_.empty() ? "" : " (did you mean '" + best_ + "'?)"; }

}  // namespace banyan
