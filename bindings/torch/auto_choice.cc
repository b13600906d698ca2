#include "bindings/torch/auto_choice.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "banyan/base/text.h"
#include "banyan/base/words.h"
#include "banyan/predict/codes/codec_cost.h"
#include "bindings/torch/averages.h"

namespace banyan::pytorch {
namespace {

// Steps before the first that is measured: DDP makes its buckets anew after the first, and memory is touched first.
constexpr uint64_t kStepsToSettle = 2;
constexpr int kLatencyCalls = 5;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::string in_milliseconds(double seconds) { return seconds > 0 ? format_decimals(seconds * 1e3, 2) : "-"; }

std::string padded(std::string text, size_t width) {
  text.insert(0, width - std::min(width, text.size()), ' ');
  return text;
}

}  // namespace

AutoChoice::AutoChoice(const Settings& settings, const c10::intrusive_ptr<ProcessGroupBanyan>& group)
    : settings_(settings), group_(group) {
  if (group->is_on_one_host()) {
    settle("no code: the ranks exchange through the memory of one host, where nothing is coded");
  } else if (group->getSize() == 1) {
    settle("no code: there is one rank");
  }
}

void AutoChoice::settle(const std::string& why) {
  const std::lock_guard lock(mutex_);
  phase_ = Phase::over;
  why_ = why;
}

std::optional<AutoChoice::Codes> AutoChoice::begin_step() {
  if (is_over()) return {};
  {
    const std::lock_guard lock(mutex_);
    ++step_;
    if (phase_ == Phase::without || phase_ == Phase::with) meter_.begin_step(now());
  }
  ++steps_in_phase_;
  const auto enter = [&](Phase phase) {
    const std::lock_guard lock(mutex_);
    phase_ = phase;
    steps_in_phase_ = 0;
    meter_.clear();
    if (phase == Phase::without || phase == Phase::with) meter_.begin_step(now());
  };
  switch (phase_) {
    case Phase::settling:
      if (steps_in_phase_ > kStepsToSettle) enter(Phase::without);
      return {};
    case Phase::without: {
      if (meter_.steps() < settings_.steps) return {};
      std::optional<Codes> codes = choose();
      if (codes) enter(Phase::beginning);
      return codes;
    }
    case Phase::beginning:  // the first step with codes began with the choice, which took time
      enter(Phase::with);
      return {};
    case Phase::with: {
      if (meter_.steps() < settings_.steps) return {};
      Codes codes = judge();
      if (!is_over()) enter(Phase::beginning);
      return codes;
    }
    case Phase::over:
      break;
  }
  return {};
}

size_t AutoChoice::begin_bucket(size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::without) return 0;
  return meter_.begin_bucket(static_cast<double>(bytes), now());
}

void AutoChoice::end_bucket(uint64_t step, size_t bucket) {
  const std::lock_guard lock(mutex_);
  if (phase_ == Phase::without && step == step_) meter_.end_bucket(bucket, now());
}

std::optional<AutoChoice::Codes> AutoChoice::choose() {
  without_ = agreed_medians();
  const uint64_t box_ranks = agreed_box_ranks();
  measure_codes(box_ranks);
  without_.latency = agreed_latency();
  if (box_ranks > 0 && !laws_.empty()) measure_boxes(box_ranks);
  choice_ = choose_codes(without_, laws_, settings_.rule);
  trials_.emplace(choice_, settings_.rule, settings_.trials);
  if (const std::optional<size_t> first = trials_->next()) return codes_of(choice_.candidates[*first]);
  const auto best = std::min_element(choice_.candidates.begin() + 1, choice_.candidates.end(),
                                     [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  settle(best == choice_.candidates.end()
             ? "no code: none loses little enough"
             : "no code: " + best->name + " would save " + in_milliseconds(without_.period - best->seconds) + " ms");
  return {};
}

// The next to be tried, or the best, when it is over.
AutoChoice::Codes AutoChoice::judge() {
  trials_->note(agreed_medians().period);
  if (const std::optional<size_t> next = trials_->next()) return codes_of(choice_.candidates[*next]);
  const size_t best = trials_->best();
  std::string tried;
  size_t codes = 0;
  for (size_t i = 1; i < choice_.candidates.size(); ++i) {
    if (trials_->measured(i)) tried += (codes++ == 0 ? "" : ", ") + choice_.candidates[i].name;
  }
  const std::string least = format_percent(settings_.rule.least_gain);
  settle(best > 0
             ? choice_.candidates[best].name + ": " +
                   format_decimals(*trials_->measured(0) / *trials_->measured(best), 2) + " times as quick as without"
         : codes == 1 ? "no code: " + tried + " was tried and did not gain " + least
                      : "no code: " + tried + " were tried, and none gained " + least);
  return codes_of(choice_.candidates[best]);
}

AutoChoice::Codes AutoChoice::codes_of(const predict::StepCandidate& candidate) const {
  Codes codes{.of_buckets = {}, .box_ranks = candidate.is_between_boxes ? without_.boxes->ranks : 0};
  for (const uint32_t code : candidate.codes) {
    codes.of_buckets.push_back(code == 0 ? std::nullopt : std::optional(codecs_[code - 1]));
  }
  return codes;
}

const std::shared_ptr<Boxes>& AutoChoice::boxes_of(uint64_t box_ranks) {
  if (boxes_ == nullptr || boxes_->box_ranks() != box_ranks) boxes_ = std::make_shared<Boxes>(group_, box_ranks);
  return boxes_;
}

// 0 where there are none.
uint64_t AutoChoice::agreed_box_ranks() {
  if (settings_.box_ranks) return *settings_.box_ranks;
  const std::vector<int> here = group_->ranks_here();
  const auto count = static_cast<int>(here.size());
  const bool are_a_box =
      count > 1 && count < group_->getSize() && here.back() - here.front() + 1 == count && here.front() % count == 0;
  const double own = are_a_box ? count : 0;
  const std::vector<double> found = largest_of_all({own, -own});
  return found[0] == -found[1] ? static_cast<uint64_t>(own) : 0;
}

void AutoChoice::measure_boxes(uint64_t box_ranks) {
  double largest = 0;
  for (const predict::MeasuredStep::Bucket& bucket : without_.buckets) largest = std::max(largest, bucket.bytes);
  Boxes& boxes = *boxes_of(box_ranks);
  const Boxes::Times small = boxes.measure(box_ranks),
                     large = boxes.measure(static_cast<size_t>(largest / sizeof(float)));
  const std::vector<double> agreed = largest_of_all({small.inside, small.across, large.inside, large.across});
  const auto level = [](double of_nothing, double of_all, double bytes) {
    return predict::MeasuredStep::Level{.latency = of_nothing, .per_byte = std::max(0.0, of_all - of_nothing) / bytes};
  };
  without_.boxes = {.ranks = static_cast<uint32_t>(box_ranks),
                    .inside = level(agreed[0] / 2, agreed[2] / 2, largest),  // of two calls each
                    .across = level(agreed[1], agreed[3], largest / static_cast<double>(box_ranks))};
}

void AutoChoice::measure_codes(uint64_t box_ranks) {
  const auto ranks = static_cast<uint32_t>(group_->getSize());
  const uint32_t boxes = box_ranks > 0 ? ranks / static_cast<uint32_t>(box_ranks) : ranks;
  std::vector<double> work;
  for (const codec::Codec& codec : predict::codecs_by_loss()) {
    const double loss = predict::relative_loss(codec);
    if (loss > settings_.rule.most_loss) continue;
    const predict::CodecCost cost{.codec = codec, .speed = predict::measured_speed(codec)};
    codecs_.push_back(codec);
    laws_.push_back({.name = to_string(codec), .share = cost.share(), .loss = loss});
    work.push_back(allreduce_work(cost.speed, ranks));
    work.push_back(allreduce_work(cost.speed, boxes));
  }
  if (laws_.empty()) return;
  work = largest_of_all(work);
  for (size_t i = 0; i < laws_.size(); ++i) {
    laws_[i].work = work[2 * i];
    laws_[i].work_between_boxes = work[2 * i + 1];
  }
}

// The slowest step of all ranks; of each bucket the latest beginning, and the time of the rank that came last, which
// alone did not wait for others.
predict::MeasuredStep AutoChoice::agreed_medians() {
  predict::MeasuredStep own;
  {
    const std::lock_guard lock(mutex_);
    own = meter_.medians();
  }
  std::vector<double> values = {own.period};
  for (const predict::MeasuredStep::Bucket& bucket : own.buckets) {
    values.insert(values.end(), {bucket.begin, -bucket.seconds});
  }
  values = largest_of_all(values);
  own.period = values[0];
  for (size_t i = 0; i < own.buckets.size(); ++i) {
    own.buckets[i].begin = values[2 * i + 1];
    own.buckets[i].seconds = -values[2 * i + 2];
  }
  return own;
}

double AutoChoice::agreed_latency() {
  double least = 0;
  for (int call = 0; call < kLatencyCalls; ++call) {
    const double begin = now();
    largest_of_all({0});
    const double seconds = now() - begin;
    least = call == 0 ? seconds : std::min(least, seconds);
  }
  return largest_of_all({least})[0];
}

std::vector<double> AutoChoice::largest_of_all(const std::vector<double>& own) {
  at::Tensor values = at::tensor(own, at::kDouble);
  all_reduce(*group_, values, c10d::ReduceOp::MAX)->wait();
  const double* const found = values.data_ptr<double>();
  return {found, found + values.numel()};
}

std::string AutoChoice::report() const {
  std::string text;
  if (!choice_.candidates.empty()) {
    double bytes = 0;
    for (const predict::MeasuredStep::Bucket& bucket : without_.buckets) bytes += bucket.bytes;
    text += "a step, medians of " + std::to_string(settings_.steps) + "; " + format_decimals(bytes / 1e6, 2) +
            " MB of gradients in " + plural(without_.buckets.size(), "bucket") + ", " +
            std::to_string(group_->getSize()) + " ranks" +
            (without_.boxes ? " in boxes of " + std::to_string(without_.boxes->ranks) : "") + "\n";
    size_t width = 4;
    for (const predict::StepCandidate& candidate : choice_.candidates) width = std::max(width, candidate.name.size());
    text += padded("code", width) + "  loss of a value  predicted, ms  measured, ms\n";
    for (size_t i = 0; i < choice_.candidates.size(); ++i) {
      const predict::StepCandidate& candidate = choice_.candidates[i];
      const double measured = trials_->measured(i).value_or(0);
      text += padded(candidate.name, width) + padded(i == 0 ? "-" : format_percent(candidate.loss), 17) +
              padded(in_milliseconds(candidate.seconds), 15) + padded(in_milliseconds(measured), 14) + "\n";
    }
  }
  if (is_over()) return text + why_ + "\n";
  return text + (choice_.candidates.empty() ? "steps without a code are being measured\n"
                                            : choice_.candidates[*trials_->next()].name + " is being tried\n");
}

}  // namespace banyan::pytorch
