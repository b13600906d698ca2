#include "banyan/run/metrics/page.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <utility>

#include "banyan/base/error_names.h"
#include "banyan/element/isa.h"
#include "banyan/run/join/acceptor.h"
#include "banyan/run/metrics/target.h"

namespace banyan::run {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

// "all_reduce", "all_to_all_v": the function of the C interface that makes such calls.
std::string label_of(OperationKind kind) {
  static constexpr const char* kNames[kOperationKinds] = {
      "all_reduce", "reduce",       "broadcast", "all_gather", "all_gather_v", "reduce_scatter", "reduce_scatter_v",
      "all_to_all", "all_to_all_v", "gather",    "scatter",    "barrier",      "send",           "recv",
      "group",      "join",         "split",     "shrink"};
  return kNames[static_cast<size_t>(kind)];
}

double seconds(uint64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e9; }

// The families of a page, each with the labels that all metrics of the process bear.
class Families {
 public:
  explicit Families(Labels common) : common_(std::move(common)) {}

  MetricFamily& add(const std::string& name, MetricType type, const std::string& help) {
    return families_.emplace_back(MetricFamily{.name = name, .help = help, .type = type, .metric = {}});
  }
  void gauge(MetricFamily& family, const Labels& labels, double value) { metric(family, labels).gauge.value = value; }
  void counter(MetricFamily& family, const Labels& labels, double value) {
    metric(family, labels).counter.value = value;
  }
  ClientMetric& metric(MetricFamily& family, const Labels& labels) {
    ClientMetric& metric = family.metric.emplace_back();
    metric.label = common_;
    metric.label.insert(metric.label.end(), labels.begin(), labels.end());
    return metric;
  }
  // Without the empty ones.
  std::vector<MetricFamily> take() && {
    std::vector<MetricFamily> all;
    for (MetricFamily& family : families_) {
      if (!family.metric.empty()) all.push_back(std::move(family));
    }
    return all;
  }

 private:
  const Labels common_;
  std::list<MetricFamily> families_;  // whose places stay
};

ClientMetric::Histogram histogram_of(const CallTotals::OfKind& kind) {
  ClientMetric::Histogram histogram;
  for (size_t i = 0; i < CallTotals::kBuckets; ++i) {
    histogram.sample_count += kind.buckets[i];
    const bool is_last = i + 1 == CallTotals::kBuckets;
    const double bound = is_last ? std::numeric_limits<double>::infinity()
                                 : std::ldexp(1.0, static_cast<int>(i) + CallTotals::kLeastExponent);
    histogram.bucket.push_back({.cumulative_count = histogram.sample_count, .upper_bound = bound});
  }
  histogram.sample_sum = seconds(kind.nanoseconds);
  return histogram;
}

using ByName = std::map<std::string, Statistics>;

void add_calls(Families& families, const ByName& statistics) {
  MetricFamily& calls = families.add("banyan_calls_total", MetricType::Counter, "Calls that this rank has begun.");
  MetricFamily& bytes = families.add("banyan_payload_bytes_total", MetricType::Counter,
                                     "Bytes of these calls: count times the size of an element.");
  MetricFamily& times = families.add("banyan_call_seconds", MetricType::Histogram,
                                     "Seconds that calls took on this rank; small ones by samples.");
  for (const auto& [name, of] : statistics) {
    for (size_t i = 0; i < kOperationKinds; ++i) {
      const CallTotals::OfKind& kind = of.calls.kinds[i];
      if (kind.calls == 0) continue;
      const Labels labels = {{"communicator", name}, {"kind", label_of(static_cast<OperationKind>(i))}};
      families.counter(calls, labels, static_cast<double>(kind.calls));
      families.counter(bytes, labels, static_cast<double>(kind.bytes));
      if (kind.timed() > 0) families.metric(times, labels).histogram = histogram_of(kind);
    }
  }
}

void add_waits(Families& families, const ByName& statistics, std::map<std::string, PeerLabels>& labels) {
  MetricFamily& waits = families.add("banyan_waiting_seconds_total", MetricType::Counter,
                                     "Time in which nothing moved since this rank waited for the peer.");
  for (const auto& [name, of] : statistics) {
    for (const PeerLabels::Value& value : labels[name].next(of.calls.waited)) {
      families.counter(waits, {{"communicator", name}, {"peer", value.peer}}, seconds(value.nanoseconds));
    }
  }
}

void add_network(Families& families, const ByName& statistics) {
  MetricFamily& sent = families.add("banyan_sent_bytes_total", MetricType::Counter,
                                    "Bytes that the transport took for peers, in communicators of several hosts.");
  MetricFamily& reroutes = families.add("banyan_reroutes_total", MetricType::Counter,
                                        "Times that calls went on without a link that was lost.");
  MetricFamily& revisions = families.add("banyan_plan_revisions_total", MetricType::Counter,
                                         "Times that the ranks agreed on other plans, for any reason.");
  for (const auto& [name, of] : statistics) {
    const std::pair<const char*, uint64_t> transports[] = {
        {"tcp", of.sent.tcp}, {"shared_memory", of.sent.shared_memory}, {"ucx", of.sent.ucx}};
    for (const auto& [transport, count] : transports) {
      if (count == 0) continue;
      families.counter(sent, {{"communicator", name}, {"transport", transport}}, static_cast<double>(count));
    }
    families.counter(reroutes, {{"communicator", name}}, static_cast<double>(of.reroutes));
    families.counter(revisions, {{"communicator", name}}, static_cast<double>(of.revisions));
  }
}

void add_failures(Families& families, const ByName& statistics) {
  MetricFamily& lost =
      families.add("banyan_lost_peers_total", MetricType::Counter, "Ranks of the communicator that have died.");
  MetricFamily& failures =
      families.add("banyan_failures_total", MetricType::Counter, "Communicators that have failed, by their error.");
  for (const auto& [name, of] : statistics) {
    families.counter(lost, {{"communicator", name}}, static_cast<double>(of.lost_peers));
    for (const auto& [code, count] : of.failures) {
      families.counter(failures, {{"communicator", name}, {"error", name_of(code)}}, static_cast<double>(count));
    }
  }
}

}  // namespace

std::vector<PeerLabels::Value> PeerLabels::next(const std::vector<uint64_t>& waited) {
  last_.resize(std::max(last_.size(), waited.size()));
  std::vector<size_t> candidates;
  for (size_t rank = 0; rank < waited.size(); ++rank) {
    if (waited[rank] > 0 && !shown_.contains(rank)) candidates.push_back(rank);
  }
  std::stable_sort(candidates.begin(), candidates.end(), [&](size_t a, size_t b) { return waited[a] > waited[b]; });
  for (const size_t rank : candidates) {
    if (shown_.size() < kMost) shown_.emplace(rank, last_[rank]);
  }
  std::vector<Value> values;
  uint64_t others = 0;
  for (size_t rank = 0; rank < waited.size(); ++rank) {
    const auto shown = shown_.find(rank);
    others += shown == shown_.end() ? waited[rank] : shown->second;
    if (shown != shown_.end()) values.push_back({std::to_string(rank), waited[rank] - shown->second});
  }
  if (others > 0) values.push_back({"others", others});
  last_ = waited;
  return values;
}

std::vector<MetricFamily> metrics_of(const ByName& statistics, const ShownProcess& process,
                                     std::map<std::string, PeerLabels>& labels) {
  Labels common = {{"rank", std::to_string(process.place.rank)}};
  if (!process.job.empty()) common.push_back({"job_id", process.job});
  Families families(std::move(common));
  families.gauge(families.add("banyan_build_info", MetricType::Gauge, "The library in use; the value is 1."),
                 {{"version", BANYAN_VERSION}, {"isa", std::string(to_string(element::active_isa()))}}, 1);
  families.gauge(families.add("banyan_job_ranks", MetricType::Gauge, "Ranks of the job that was joined last."), {},
                 process.place.size);
  MetricFamily& living =
      families.add("banyan_communicators", MetricType::Gauge, "Communicators that have not been destroyed.");
  for (const auto& [name, of] : statistics) {
    families.gauge(living, {{"communicator", name}}, static_cast<double>(of.living));
  }
  families.counter(families.add("banyan_refused_total", MetricType::Counter, "Callers that were refused, by reason."),
                   {{"reason", "secret"}}, static_cast<double>(process.not_proved));
  add_calls(families, statistics);
  add_waits(families, statistics, labels);
  add_network(families, statistics);
  add_failures(families, statistics);
  return std::move(families).take();
}

std::vector<MetricFamily> MetricsPage::Collect() const {
  const StatisticsBoard& board = StatisticsBoard::of_process();
  const ByName statistics = board.read();
  const std::lock_guard lock(mutex_);
  return metrics_of(statistics,
                    {.place = board.place().value_or(JobPlace()),
                     .job = scheduler_job(),
                     .not_proved = Acceptor::not_proved_in_process()},
                    labels_);
}

std::string MetricsPage::text() const {
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, Collect());
  return out.str();
}

}  // namespace banyan::run
