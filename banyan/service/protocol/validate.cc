#include "banyan/service/protocol/validate.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"

namespace banyan::service {
namespace {

using element::DataType;
using element::ReduceOp;
using run::OperationKind;
using Reason = Refusal::Reason;

// Clients of other builds know the kinds by these numbers. Those from `group` on are no calls that can be submitted.
static_assert(static_cast<int>(OperationKind::all_reduce) == 0 && static_cast<int>(OperationKind::recv) == 13 &&
              static_cast<int>(OperationKind::group) == 14);

constexpr uint32_t kKnownFlags = static_cast<uint32_t>(SubmissionFlag::has_displacements);

// Memory that is read or written in one piece.
struct Extent {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
};

// Of a buffer; with displacements, its pieces without the gaps between them.
std::vector<Extent> pieces_of(const Extent& buffer, std::span<const size_t> counts,
                              std::span<const size_t> displacements, size_t element_bytes) {
  if (displacements.empty()) return {buffer};
  std::vector<Extent> pieces;
  for (size_t rank = 0; rank < counts.size(); ++rank) {
    if (counts[rank] == 0) continue;
    const std::byte* const begin = buffer.begin + displacements[rank] * element_bytes;
    pieces.push_back({.begin = begin, .end = begin + counts[rank] * element_bytes});
  }
  std::sort(pieces.begin(), pieces.end(), [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  return pieces;
}

// Whether a piece of one and a piece of the other have a byte in common. Both are sorted by where pieces begin.
bool have_overlap(std::span<const Extent> left, std::span<const Extent> right) {
  const std::byte *left_end = nullptr, *right_end = nullptr;  // of those passed
  while (!left.empty() || !right.empty()) {
    const bool is_left = right.empty() || (!left.empty() && left.front().begin < right.front().begin);
    std::span<const Extent>& next = is_left ? left : right;
    const std::byte*& own_end = is_left ? left_end : right_end;
    if (next.front().begin < (is_left ? right_end : left_end)) return true;
    own_end = std::max(own_end, next.front().end);
    next = next.subspan(1);
  }
  return false;
}

std::string words_of(const BufferName& name) {
  return "region " + std::to_string(name.region) + " of generation " + std::to_string(name.generation);
}

class Validation {
 public:
  Validation(const Submission& submission, const SessionRules& rules, const RegionTable& regions)
      : submission_(submission), rules_(rules), regions_(regions) {
    CHECK(rules.rank < rules.size) << rules.rank << " of " << rules.size;
  }

  std::variant<ValidCall, Refusal> result() && {
    // Each relies on what those before it have found.
    constexpr Verdict (Validation::*kLooks[])() = {&Validation::look_at_head,    &Validation::look_at_kind,
                                                   &Validation::look_at_factor,  &Validation::look_at_lists,
                                                   &Validation::look_at_numbers, &Validation::look_at_buffers,
                                                   &Validation::look_at_overlap};
    for (const auto look : kLooks) {
      if (Verdict refusal = (this->*look)()) return *std::move(refusal);
    }
    return std::move(valid_);
  }

 private:
  using Verdict = std::optional<Refusal>;

  static Refusal refusal(Reason reason, std::string words) { return {.reason = reason, .words = std::move(words)}; }
  Refusal refusal_of_call(Reason reason, const std::string& words) const {
    return refusal(reason, std::string(to_string(call().kind)) + ": " + words);
  }
  const run::Call& call() const { return valid_.call; }
  size_t element_bytes() const { return size_of(call().type); }

  Verdict look_at_head();
  Verdict look_at_kind();
  Verdict look_at_factor();
  Verdict look_at_lists();
  Verdict look_at_numbers();
  Verdict look_at_buffers();
  Verdict look_at_overlap();

  std::vector<size_t> copied(const std::byte* numbers) const;
  Verdict look_for(const char* what, const BufferName& name, uint64_t elements, std::shared_ptr<const Region>& region);
  uint64_t own_place(std::span<const size_t> counts, std::span<const size_t> displacements) const;
  bool is_in_place() const;

  const Submission& submission_;
  const SessionRules& rules_;
  const RegionTable& regions_;
  ValidCall valid_;
  uint64_t send_bytes_ = 0, recv_bytes_ = 0;
};

Validation::Verdict Validation::look_at_head() {
  if (submission_.version != kProtocolVersion) {
    return refusal(Reason::version, "version " + std::to_string(submission_.version) + " of the protocol, where " +
                                        std::to_string(kProtocolVersion) + " is spoken");
  }
  if ((submission_.flags & ~kKnownFlags) != 0) {
    return refusal(Reason::version, "flags " + std::to_string(submission_.flags) + ", of which not all are known");
  }
  const bool are_zeros =
      std::all_of(std::begin(submission_.zeros), std::end(submission_.zeros), [](uint8_t byte) { return byte == 0; });
  if (submission_.zero != 0 || !are_zeros) return refusal(Reason::version, "bytes that have to be zero are not");
  if (submission_.sequence != rules_.next_sequence) {
    return refusal(Reason::sequence, "submission " + std::to_string(submission_.sequence) + ", where " +
                                         std::to_string(rules_.next_sequence) + " is the next");
  }
  return std::nullopt;
}

Validation::Verdict Validation::look_at_kind() {
  const auto unknown = [](const char* what, uint8_t number) {
    return refusal(Reason::kind, std::string(what) + " " + std::to_string(number) + " does not exist");
  };
  if (submission_.kind > static_cast<uint8_t>(OperationKind::recv)) return unknown("call", submission_.kind);
  if (submission_.type >= element::kDataTypes) return unknown("type", submission_.type);
  if (submission_.op >= element::kReduceOps) return unknown("op", submission_.op);
  run::Call& call = valid_.call;
  call.kind = static_cast<OperationKind>(submission_.kind);
  if (has_elements(call.kind)) call.type = static_cast<DataType>(submission_.type);
  if (reduces(call.kind)) call.op = static_cast<ReduceOp>(submission_.op);
  if (is_rooted(call.kind) || is_message(call.kind)) call.other = submission_.other;
  if (is_message(call.kind)) call.tag = submission_.tag;
  if (has_elements(call.kind) && !has_counts(call.kind)) call.count = submission_.count;
  call.timeout = std::min(std::chrono::milliseconds(submission_.milliseconds), rules_.longest_timeout);
  return std::nullopt;
}

Validation::Verdict Validation::look_at_factor() {
  constexpr double kMostWhole = 9007199254740992.0;  // 2^53, as element::scale() wants it
  if (call().op != ReduceOp::premul_sum) return std::nullopt;
  const double factor = submission_.factor;
  const std::string words = "a factor of " + std::to_string(factor);
  if (!std::isfinite(factor)) return refusal_of_call(Reason::numbers, words);
  if (!is_floating(call().type) && (std::trunc(factor) != factor || std::abs(factor) > kMostWhole)) {
    return refusal_of_call(Reason::numbers, words + ", where that of " + std::string(to_string(call().type)) +
                                                " is a whole number of at most 2^53");
  }
  valid_.call.factor = factor;
  return std::nullopt;
}

// Each number is read once, and may be any: the client may write it meanwhile.
std::vector<size_t> Validation::copied(const std::byte* numbers) const {
  static_assert(sizeof(size_t) == sizeof(uint64_t));
  auto* const words = reinterpret_cast<uint64_t*>(const_cast<std::byte*>(numbers));
  std::vector<size_t> copy(rules_.size);
  for (size_t i = 0; i < copy.size(); ++i) copy[i] = std::atomic_ref(words[i]).load(std::memory_order_relaxed);
  return copy;
}

Validation::Verdict Validation::look_at_lists() {
  const bool has_displacements = (submission_.flags & kKnownFlags) != 0;
  const bool sends = call().kind == OperationKind::reduce_scatter_v || call().kind == OperationKind::all_to_all_v;
  const bool receives = call().kind == OperationKind::all_gather_v || call().kind == OperationKind::all_to_all_v;
  if (has_displacements && !receives) {  // what a reduce-scatterv sends has no gaps
    return refusal_of_call(Reason::numbers, "takes no displacements, but its flags say that it has some");
  }
  if (!has_counts(call().kind)) return std::nullopt;
  const std::array<bool, 4> exists = {sends, sends && has_displacements, receives, receives && has_displacements};
  const auto lists = static_cast<uint64_t>(std::count(exists.begin(), exists.end(), true));
  const uint64_t list_bytes = uint64_t{rules_.size} * sizeof(uint64_t), bytes = lists * list_bytes;
  const BufferName& name = submission_.counts;
  if (name.offset % sizeof(uint64_t) != 0) {
    return refusal_of_call(Reason::buffer,
                           "the counts begin at " + std::to_string(name.offset) + ", which is no multiple of 8");
  }
  const std::shared_ptr<const Region> region = regions_.find(name, bytes);
  if (!region) {
    return refusal_of_call(Reason::buffer, "the counts, " + std::to_string(bytes) + " bytes from " +
                                               std::to_string(name.offset) + " on, are not in " + words_of(name));
  }
  const std::byte* next = region->data() + name.offset;
  for (size_t i = 0; i < exists.size(); ++i) {
    if (!exists[i]) continue;
    valid_.lists[i] = copied(next);
    next += list_bytes;
  }
  valid_.call.send_counts = valid_.lists[0];
  valid_.call.send_displacements = valid_.lists[1];
  valid_.call.recv_counts = valid_.lists[2];
  valid_.call.recv_displacements = valid_.lists[3];
  return std::nullopt;
}

Validation::Verdict Validation::look_at_numbers() {
  static std::byte stand_in{};  // how many bytes a buffer needs is known only when the numbers are good
  run::Call call = valid_.call;
  call.send = call.recv = &stand_in;
  try {
    run::expect_possible(call, rules_.rank, rules_.size);
  } catch (const Error& error) {
    return refusal(Reason::numbers, error.message());
  }
  // A piece of no elements may be said to lie anywhere. Nobody is to compute that address.
  for (const size_t i : {0, 2}) {
    const std::vector<size_t>& counts = valid_.lists[i];
    std::vector<size_t>& displacements = valid_.lists[i + 1];
    for (size_t rank = 0; rank < displacements.size(); ++rank) {
      if (counts[rank] == 0) displacements[rank] = 0;
    }
  }
  return std::nullopt;
}

Validation::Verdict Validation::look_for(const char* what, const BufferName& name, uint64_t elements,
                                         std::shared_ptr<const Region>& region) {
  if (elements == 0) return std::nullopt;
  if (elements > rules_.most_bytes / element_bytes()) {
    return refusal_of_call(Reason::limit, std::to_string(elements) + " " + std::string(to_string(call().type)) +
                                              " are more than the " + std::to_string(rules_.most_bytes) +
                                              " bytes that " + what + " may have");
  }
  if (name.region == BufferName::kNone) {
    return refusal_of_call(Reason::buffer, std::string("the ") + what + " buffer is missing");
  }
  const uint64_t bytes = elements * element_bytes();
  region = regions_.find(name, bytes);
  if (region) return std::nullopt;
  const auto whole = regions_.find({.region = name.region, .generation = name.generation}, 0);
  const std::string place = std::string(what) + " is in " + words_of(name);
  if (!whole) return refusal_of_call(Reason::buffer, place + ", which is not offered");
  return refusal_of_call(Reason::buffer, place + ", which has " + std::to_string(whole->size()) + " bytes, not " +
                                             std::to_string(bytes) + " from " + std::to_string(name.offset) + " on");
}

Validation::Verdict Validation::look_at_buffers() {
  const uint64_t sent = call().send_elements(rules_.rank, rules_.size);
  const uint64_t received = call().recv_elements(rules_.rank, rules_.size);
  if (Verdict refusal = look_for("send", submission_.send, sent, valid_.send)) return refusal;
  if (Verdict refusal = look_for("recv", submission_.recv, received, valid_.recv)) return refusal;
  if (valid_.send) valid_.call.send = valid_.send->data() + submission_.send.offset;
  if (valid_.recv) valid_.call.recv = valid_.recv->data() + submission_.recv.offset;
  send_bytes_ = sent * element_bytes();
  recv_bytes_ = received * element_bytes();
  valid_.bytes = send_bytes_ + recv_bytes_;
  return std::nullopt;
}

// Bytes before this rank's piece in the buffer that has one for each rank.
uint64_t Validation::own_place(std::span<const size_t> counts, std::span<const size_t> displacements) const {
  if (counts.empty()) return call().count * rules_.rank * element_bytes();
  if (!displacements.empty()) return displacements[rules_.rank] * element_bytes();
  return std::accumulate(counts.begin(), counts.begin() + rules_.rank, uint64_t{0}) * element_bytes();
}

// As IN PLACE in include/banyan/banyan.h says.
bool Validation::is_in_place() const {
  switch (call().kind) {
    case OperationKind::all_reduce:
    case OperationKind::reduce:
    case OperationKind::broadcast:
    case OperationKind::all_to_all:
    case OperationKind::all_to_all_v:
      return call().send == call().recv && send_bytes_ == recv_bytes_;
    case OperationKind::all_gather:
    case OperationKind::all_gather_v:
    case OperationKind::gather:
      return call().send == call().recv + own_place(call().recv_counts, call().recv_displacements);
    case OperationKind::reduce_scatter:
    case OperationKind::reduce_scatter_v:
    case OperationKind::scatter:
      return call().recv == call().send + own_place(call().send_counts, {});
    default:
      return false;
  }
}

Validation::Verdict Validation::look_at_overlap() {
  if (send_bytes_ == 0 || recv_bytes_ == 0) return std::nullopt;
  const Extent send{.begin = call().send, .end = call().send + send_bytes_};
  const Extent recv{.begin = call().recv, .end = call().recv + recv_bytes_};
  if (!have_overlap({&send, 1}, {&recv, 1}) || is_in_place()) return std::nullopt;
  const std::vector<Extent> read = pieces_of(send, call().send_counts, call().send_displacements, element_bytes());
  const std::vector<Extent> written = pieces_of(recv, call().recv_counts, call().recv_displacements, element_bytes());
  if (!have_overlap(read, written)) return std::nullopt;
  const auto words = [](const char* what, const BufferName& name, uint64_t bytes) {
    return std::string(what) + " (" + std::to_string(bytes) + " bytes from " + std::to_string(name.offset) +
           " on of region " + std::to_string(name.region) + ")";
  };
  return refusal_of_call(Reason::overlap, words("send", submission_.send, send_bytes_) + " overlaps " +
                                              words("recv", submission_.recv, recv_bytes_) +
                                              " and is not where it has to be for a call in place");
}

}  // namespace

const char* to_string(Refusal::Reason reason) {
  constexpr std::array<const char*, kRefusalReasons> kNames = {"version", "kind",    "sequence", "numbers",
                                                               "buffer",  "overlap", "limit"};
  return kNames[static_cast<size_t>(reason)];
}

std::variant<ValidCall, Refusal> validate(const Submission& submission, const SessionRules& rules,
                                          const RegionTable& regions) {
  return Validation(submission, rules, regions).result();
}

}  // namespace banyan::service
