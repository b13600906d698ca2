#include "banyan/job/kineto/window.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "banyan/base/error.h"
#include "banyan/job/kineto/draft.h"

namespace banyan::job::kineto {
namespace {

constexpr std::string_view kStep = "ProfilerStep#";
constexpr int64_t kLongest = int64_t{1'000'000'000} * 3600 * 24 * 12;

}  // namespace

void keep_step(Trace& trace, uint64_t step) {
  const std::string name = std::string(kStep) + std::to_string(step);
  int64_t begin = INT64_MAX, end = INT64_MIN;
  std::string known;
  for (const Event& e : trace.events) {
    if (e.on_gpu()) continue;
    const std::string_view called = trace.name(e);
    if (called == name) {
      begin = std::min(begin, e.start);
      end = std::max(end, e.end());
    } else if (called.starts_with(kStep) && known.size() < 200) {
      known += (known.empty() ? "" : ", ") + std::string(called.substr(kStep.size()));
    }
  }
  if (begin > end) {
    throw Error(ErrorCode::not_found,
                "has no step " + std::to_string(step) +
                    (known.empty() ? "; it has no ProfilerStep annotations, so read it whole" : "; it has " + known),
                trace.source);
  }
  std::unordered_map<int64_t, int64_t> launched;
  for (const Event& e : trace.events) {
    if (e.kind == Event::Kind::runtime && e.correlation > 0) launched.try_emplace(e.correlation, e.start);
  }
  std::erase_if(trace.events, [&](const Event& e) {
    int64_t at = e.start;
    if (e.on_gpu()) {
      const auto call = launched.find(e.correlation);
      if (call != launched.end()) at = call->second;
    }
    return at < begin || at >= end || trace.name(e) == name;
  });
}

void check_window(const Trace& trace) {
  if (trace.events.empty()) {
    throw invalid(
        "has no operators, kernels or calls of the CUDA runtime; record it with torch.profiler and the "
        "activities CPU and CUDA")
        .within(trace.source);
  }
  if (trace.events.size() >= kNoIndex / 2)
    throw Error(ErrorCode::unsupported, "has more than 2^31 events", trace.source);
  const Event *first = nullptr, *last = nullptr;
  for (const Event& e : trace.events) {
    if (e.lost_its_times()) continue;
    if (first == nullptr || e.start < first->start) first = &e;
    if (last == nullptr || e.end() > last->end()) last = &e;
  }
  if (first != nullptr && last->end() - first->start > kLongest) {
    throw invalid("event " + std::to_string(last->number) + " ends more than 12 days after event " +
                  std::to_string(first->number) + " begins; take out what does not belong to the run")
        .within(trace.source);
  }
}

}  // namespace banyan::job::kineto
