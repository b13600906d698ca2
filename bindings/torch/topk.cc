#include "bindings/torch/topk.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "banyan/base/error.h"
#include "banyan/sparse/momentum.h"
#include "banyan/sparse/selection.h"

namespace banyan::pytorch {
namespace {

constexpr std::string_view kTopK = "topk";

// What a call changes of a bucket: a copy, which takes the place of what is kept once the call has succeeded.
class Draft {
 public:
  explicit Draft(BucketResidual* bucket) : residual_(bucket == nullptr ? nullptr : &bucket->residual()) {
    if (residual_ == nullptr) return;
    residual_->begin();
    std::copy(residual_->kept().begin(), residual_->kept().end(), residual_->lost().begin());
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;
  ~Draft() {
    if (residual_ != nullptr) residual_->end(is_kept_);
  }
  std::span<float> values() { return residual_ == nullptr ? std::span<float>() : residual_->lost(); }
  void keep() { is_kept_ = true; }

 private:
  run::Residual* const residual_;
  bool is_kept_ = false;
};

}  // namespace

std::optional<TopKScheme> parse_topk(const std::string& text) {
  if (text.substr(0, kTopK.size()) != kTopK) return std::nullopt;
  const size_t percent = text.find('%');
  TopKScheme scheme;
  double number = 0;
  const char* const begin = text.data() + std::min(text.size(), kTopK.size() + 1);
  const char* const end = text.data() + std::min(text.size(), percent);
  const auto [rest, failure] = std::from_chars(begin, std::max(begin, end), number, std::chars_format::fixed);
  const std::string behind = percent == std::string::npos ? "" : text.substr(percent + 1);
  if (text[std::min(text.size() - 1, kTopK.size())] != ':' || percent == std::string::npos || failure != std::errc() ||
      rest != end || !(number > 0 && number <= 100) || (!behind.empty() && behind.front() != '+')) {
    throw Error(ErrorCode::invalid_input,
                "'" + text + "' is not the largest values of gradients; give topk:1% or topk:1%+int8");
  }
  scheme.share = number / 100;
  if (!behind.empty()) scheme.codec = codec::parse_codec(behind.substr(1));
  return scheme;
}

std::string to_string(const TopKScheme& scheme) {
  char number[32];
  const auto written = std::to_chars(number, number + sizeof number, static_cast<float>(scheme.share * 100));
  std::string text = std::string(kTopK) + ":" + std::string(number, written.ptr) + "%";
  if (scheme.codec) text += "+" + codec::to_string(*scheme.codec);
  return text;
}

void TopK::average(std::span<float> gradients, BucketResidual* residual, BucketResidual* momentum) {
  if (gradients.empty()) return;
  for (BucketResidual* const bucket : {residual, momentum}) {
    if (bucket != nullptr) bucket->await_gradients(gradients);
  }
  Draft kept(residual), moved(momentum);
  if (!add_up(gradients, kept.values(), moved.values())) return;
  kept.keep();
  moved.keep();
}

// Whether all results are finite.
bool TopK::add_up(std::span<float> gradients, std::span<float> residual, std::span<float> momentum) {
  const auto ranks = static_cast<uint32_t>(group_->getSize());
  if (has_momentum()) {
    sparse::add_to_momentum({.gradient = gradients,
                             .momentum = momentum,
                             .factor = scheme_.momentum,
                             .largest_norm = scheme_.largest_norm,
                             .ranks = ranks});
  }
  const double wanted = std::max(1.0, std::round(scheme_.share * static_cast<double>(gradients.size())));
  sparse::select_largest(gradients, residual, static_cast<size_t>(wanted), chosen_);
  if (has_momentum()) sparse::clear_sent(chosen_.rows, momentum);
  rows_.assign(chosen_.rows.begin(), chosen_.rows.end());
  const sparse::RowList sum = group_->sum_rows(
      table_of(gradients.size()),
      {.rows = rows_, .values = chosen_.values, .residual = scheme_.codec ? residual : std::span<float>()});
  std::fill(gradients.begin(), gradients.end(), 0.0F);
  bool are_finite = true;
  for (size_t i = 0; i < sum.rows.size(); ++i) {
    gradients[sum.rows[i]] = sum.values[i] / static_cast<float>(ranks);
    are_finite = are_finite && std::isfinite(sum.values[i]);
  }
  return are_finite;
}

run::SparseAllReduce& TopK::table_of(size_t values) {
  std::unique_ptr<run::SparseAllReduce>& table = tables_[values];
  if (table == nullptr) {
    if (values > UINT32_MAX) {
      throw Error(ErrorCode::unsupported, "a bucket has " + std::to_string(values) +
                                              " values; topk takes less than 2^32: give a smaller bucket_cap_mb");
    }
    table = group_->new_sparse_table({.rows = static_cast<uint32_t>(values), .codec = scheme_.codec, .seed = values});
  }
  return *table;
}

}  // namespace banyan::pytorch
