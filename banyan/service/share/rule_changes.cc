#include "banyan/service/share/rule_changes.h"

#include <algorithm>
#include <set>

namespace banyan::service {
namespace {

using run::OperationKind;

// What rules can be asked about. A v-kind is a kind of its own; what makes communicators is no call of theirs.
constexpr OperationKind kCalled[] = {OperationKind::all_reduce,
                                     OperationKind::reduce,
                                     OperationKind::broadcast,
                                     OperationKind::all_gather,
                                     OperationKind::all_gather_v,
                                     OperationKind::reduce_scatter,
                                     OperationKind::reduce_scatter_v,
                                     OperationKind::all_to_all,
                                     OperationKind::all_to_all_v,
                                     OperationKind::gather,
                                     OperationKind::scatter,
                                     OperationKind::barrier,
                                     OperationKind::send,
                                     OperationKind::recv};

// Where a size class of either table begins: within the ranges between them no rule of either tells sizes apart.
std::vector<uint64_t> range_begins(const Rules& from, const Rules& to) {
  std::set<uint64_t> begins;
  for (const Rules* const rules : {&from, &to}) {
    const std::vector<uint64_t> own = rules->size_classes();
    begins.insert(own.begin(), own.end());
  }
  return {begins.begin(), begins.end()};
}

class Comparison {
 public:
  Comparison(const Rules& from, const Rules& to) : from_(from), to_(to), begins_(range_begins(from, to)) {}

  void add(size_t number, const Subject& subject) {
    const RuleChange whole{.subject = number, .from = from_.grant(subject), .to = to_.grant(subject)};
    if (whole.from != whole.to) found_.push_back(whole);
    if (!from_.looks_at_calls() && !to_.looks_at_calls()) return;
    for (const OperationKind kind : kCalled) add_calls(whole, subject, kind);
  }

  std::vector<RuleChange> found() && { return std::move(found_); }

 private:
  void add_calls(const RuleChange& whole, const Subject& subject, OperationKind kind) {
    bool goes_on = false;  // the range before this one is the last of what was found
    for (size_t i = 0; i < begins_.size(); ++i) {
      const AskedCall call{.kind = kind, .bytes = begins_[i]};
      const uint64_t most = i + 1 < begins_.size() ? begins_[i + 1] - 1 : UINT64_MAX;
      RuleChange change{.subject = whole.subject,
                        .calls = CallRange{.kind = kind, .least = call.bytes, .most = most},
                        .from = from_.grant(subject, call),
                        .to = to_.grant(subject, call)};
      const bool is_as_whole = change.from == whole.from && change.to == whole.to;
      if (change.from == change.to || is_as_whole) {
        goes_on = false;
      } else if (goes_on && found_.back().from == change.from && found_.back().to == change.to) {
        found_.back().calls->most = most;
      } else {
        found_.push_back(std::move(change));
        goes_on = true;
      }
    }
  }

  const Rules& from_;
  const Rules& to_;
  const std::vector<uint64_t> begins_;
  std::vector<RuleChange> found_;
};

}  // namespace

std::vector<RuleChange> changes(const Rules& from, const Rules& to, std::span<const Subject> subjects) {
  Comparison comparison(from, to);
  for (size_t i = 0; i < subjects.size(); ++i) comparison.add(i, subjects[i]);
  return std::move(comparison).found();
}

}  // namespace banyan::service
