// What validate() has to accept, found in another way: with numbers that do not overflow, and by comparing every piece
// that a call touches with every other. For few ranks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/service/protocol/test_memory.h"
#include "banyan/service/protocol/validate.h"

namespace banyan::service {

using Wide = __int128;

// Bytes by their addresses.
struct Touch {
  Wide begin = 0, end = 0;
  bool operator==(const Touch&) const = default;
  bool meets(const Touch& other) const { return begin < other.end && other.begin < end; }
};

// The pieces that lists tell of, one for each rank, in a buffer at this address.
inline std::vector<Touch> listed(Wide buffer, std::span<const size_t> counts, std::span<const size_t> displacements,
                                 Wide unit) {
  std::vector<Touch> pieces;
  Wide next = buffer;
  for (size_t i = 0; i < counts.size(); ++i) {
    const Wide begin = displacements.empty() ? next : buffer + Wide(displacements[i]) * unit;
    next = begin + Wide(counts[i]) * unit;
    pieces.push_back({.begin = begin, .end = next});
  }
  return pieces;
}

// What a call reads and writes at one rank.
struct Touches {
  std::vector<Touch> reads = {}, writes = {};
  bool is_in_place = false;         // the smaller buffer begins where IN PLACE wants it
  Wide send_end = 0, recv_end = 0;  // of the buffers, which reach to the last piece
};

// As include/banyan/banyan.h tells of each function; with pieces of nothing, and without the ends. The lists are as
// long as the kind wants them.
inline Touches touches_with_empty_pieces(const run::Call& call, uint32_t rank, uint32_t size) {
  using Kind = run::OperationKind;
  const Wide unit = Wide(size_of(call.type)), count = Wide(call.count) * unit, own = count * rank;
  const Wide send = Wide(reinterpret_cast<uintptr_t>(call.send)), recv = Wide(reinterpret_cast<uintptr_t>(call.recv));
  const std::vector<Touch> sent = listed(send, call.send_counts, call.send_displacements, unit);
  const std::vector<Touch> received = listed(recv, call.recv_counts, call.recv_displacements, unit);
  // Of a buffer that only the root has, nothing elsewhere.
  const auto if_root = [&](Wide bytes) { return call.other == rank ? bytes : 0; };
  const auto whole = [](Wide begin, Wide bytes) { return std::vector<Touch>{{.begin = begin, .end = begin + bytes}}; };
  switch (call.kind) {
    case Kind::all_reduce:
      return {.reads = whole(send, count), .writes = whole(recv, count), .is_in_place = send == recv};
    case Kind::reduce:
      return {.reads = whole(send, count), .writes = whole(recv, if_root(count)), .is_in_place = send == recv};
    case Kind::broadcast:
      return {.reads = whole(send, if_root(count)), .writes = whole(recv, count), .is_in_place = send == recv};
    case Kind::all_to_all:
      return {.reads = whole(send, count * size), .writes = whole(recv, count * size), .is_in_place = send == recv};
    case Kind::all_to_all_v:
      return {.reads = sent, .writes = received, .is_in_place = send == recv};
    case Kind::all_gather:
      return {.reads = whole(send, count), .writes = whole(recv, count * size), .is_in_place = send == recv + own};
    case Kind::gather:
      return {
          .reads = whole(send, count), .writes = whole(recv, if_root(count * size)), .is_in_place = send == recv + own};
    case Kind::all_gather_v:
      return {.reads = whole(send, received[rank].end - received[rank].begin),
              .writes = received,
              .is_in_place = send == received[rank].begin};
    case Kind::reduce_scatter:
      return {.reads = whole(send, count * size), .writes = whole(recv, count), .is_in_place = recv == send + own};
    case Kind::scatter:
      return {
          .reads = whole(send, if_root(count * size)), .writes = whole(recv, count), .is_in_place = recv == send + own};
    case Kind::reduce_scatter_v:
      return {.reads = sent,
              .writes = whole(recv, sent[rank].end - sent[rank].begin),
              .is_in_place = recv == sent[rank].begin};
    case Kind::send:
      return {.reads = whole(send, count)};
    case Kind::recv:
      return {.writes = whole(recv, count)};
    default:
      return {};
  }
}

inline Touches touches_of(const run::Call& call, uint32_t rank, uint32_t size) {
  Touches touches = touches_with_empty_pieces(call, rank, size);
  const auto keep_bytes = [](std::vector<Touch>& pieces, const void* buffer) {
    std::erase_if(pieces, [](const Touch& touch) { return touch.begin == touch.end; });
    Wide end = Wide(reinterpret_cast<uintptr_t>(buffer));
    for (const Touch& touch : pieces) end = std::max(end, touch.end);
    return end;
  };
  touches.send_end = keep_bytes(touches.reads, call.send);
  touches.recv_end = keep_bytes(touches.writes, call.recv);
  if (call.kind == run::OperationKind::all_to_all_v && touches.send_end != touches.recv_end)
    touches.is_in_place = false;
  return touches;
}

class CallModel {
 public:
  CallModel(const Submission& submission, const SessionRules& rules, std::span<const OfferedMemory> regions)
      : submission_(submission), rules_(rules), regions_(regions) {
    is_good_ = has_good_head() && has_good_numbers() && lies_in_regions();
  }
  CallModel(const CallModel&) = delete;  // the call looks into lists_
  CallModel& operator=(const CallModel&) = delete;

  bool is_good() const { return is_good_; }
  // Of a good one.
  const Touches& touches() const { return touches_; }

 private:
  bool is_one_of(std::initializer_list<int> kinds) const {
    return std::find(kinds.begin(), kinds.end(), int{submission_.kind}) != kinds.end();
  }

  bool has_good_head() const {
    const Submission& s = submission_;
    static constexpr uint8_t kZeros[sizeof s.zeros] = {};
    if (s.version != 2 || s.flags > 1 || s.zero != 0 || std::memcmp(s.zeros, kZeros, sizeof kZeros) != 0) return false;
    if (s.sequence != rules_.next_sequence || s.kind > 13 || s.type > 11 || s.op > 8) return false;
    const bool reduces = is_one_of({0, 1, 5, 6}), is_integer = s.type < 8;
    if (reduces && s.op == 5 && !(std::abs(s.factor) <= (is_integer ? 9007199254740992.0 : 1.7976931348623157e308)))
      return false;
    if (reduces && s.op == 5 && is_integer && s.factor != std::floor(s.factor)) return false;
    if (reduces && s.op > 5 && !is_integer) return false;
    const bool is_any = s.kind == 13 && s.other == UINT32_MAX;
    if (is_one_of({1, 2, 9, 10, 12, 13}) && s.other >= rules_.size && !is_any) return false;
    return s.flags == 0 || is_one_of({4, 8});
  }

  const OfferedMemory* find(const BufferName& name) const {
    for (const OfferedMemory& region : regions_) {
      if (region.place.index == name.region && region.place.generation == name.generation) return &region;
    }
    return nullptr;
  }

  bool has_good_numbers() {
    call_.kind = static_cast<run::OperationKind>(submission_.kind);
    call_.type = static_cast<element::DataType>(submission_.type);
    call_.other = submission_.other;
    call_.count = submission_.count;
    std::span<const size_t>* const spans[] = {&call_.send_counts, &call_.send_displacements, &call_.recv_counts,
                                              &call_.recv_displacements};
    const bool has_displacements = submission_.flags == 1;
    const bool wanted[] = {is_one_of({6, 8}), is_one_of({8}) && has_displacements, is_one_of({4, 8}),
                           is_one_of({4, 8}) && has_displacements};
    Wide at = Wide(submission_.counts.offset);
    for (size_t list = 0; list < 4; ++list) {
      if (!wanted[list]) continue;
      const OfferedMemory* const region = find(submission_.counts);
      const Wide end = at + Wide(rules_.size) * 8;
      if (region == nullptr || at % 8 != 0 || end > Wide(region->size)) return false;
      lists_[list].resize(rules_.size);
      std::memcpy(lists_[list].data(), region->data + static_cast<uint64_t>(at), rules_.size * 8);
      *spans[list] = lists_[list];
      at = end;
    }
    for (const std::vector<size_t>& list : lists_) {
      for (const size_t number : list) {
        if (Wide(number) >= Wide(1) << 28 && Wide(number) * 16 * rules_.size > UINT64_MAX) return false;
      }
    }
    return !is_one_of({8}) || lists_[0][rules_.rank] == lists_[2][rules_.rank];
  }

  // Puts the address of a buffer in its place, once it is known how many bytes it has.
  template <typename Pointer>
  bool place(const BufferName& name, Wide bytes, Pointer& pointer) const {
    if (bytes == 0) return true;
    const OfferedMemory* const region = find(name);
    if (region == nullptr || bytes > Wide(rules_.most_bytes) || Wide(name.offset) + bytes > Wide(region->size))
      return false;
    pointer = region->data + name.offset;
    return true;
  }

  bool lies_in_regions() {
    const Touches at_null = touches_of(call_, rules_.rank, rules_.size);
    if (!place(submission_.send, at_null.send_end, call_.send)) return false;
    if (!place(submission_.recv, at_null.recv_end, call_.recv)) return false;
    touches_ = touches_of(call_, rules_.rank, rules_.size);
    if (touches_.is_in_place) return true;
    for (const Touch& read : touches_.reads) {
      for (const Touch& written : touches_.writes) {
        if (read.meets(written)) return false;
      }
    }
    return true;
  }

  const Submission& submission_;
  const SessionRules& rules_;
  const std::span<const OfferedMemory> regions_;
  run::Call call_;
  std::vector<size_t> lists_[4];
  Touches touches_;
  bool is_good_ = false;
};

// What is wrong with an accepted call, if anything: that it would touch anything outside of the regions, or holds what
// nobody may carry out.
inline std::string fault_of(const ValidCall& valid, const SessionRules& rules, std::span<const OfferedMemory> regions) {
  const run::Call& call = valid.call;
  const Touches touches = touches_of(call, rules.rank, rules.size);
  const auto is_inside = [&](const Touch& touch) {
    return std::any_of(regions.begin(), regions.end(), [&](const OfferedMemory& region) {
      const Wide begin = Wide(reinterpret_cast<uintptr_t>(region.data));
      return touch.begin >= begin && touch.end <= begin + Wide(region.size);
    });
  };
  for (const std::vector<Touch>* list : {&touches.reads, &touches.writes}) {
    if (!std::all_of(list->begin(), list->end(), is_inside)) return "it touches what is in no region";
  }
  const Wide send = Wide(reinterpret_cast<uintptr_t>(call.send)), recv = Wide(reinterpret_cast<uintptr_t>(call.recv));
  const uint64_t unit = size_of(call.type);
  const uint64_t sent = call.send_elements(rules.rank, rules.size),
                 received = call.recv_elements(rules.rank, rules.size);
  // Executors pass on whole buffers, with their gaps.
  if (touches.send_end - send != Wide(sent) * unit || touches.recv_end - recv != Wide(received) * unit) {
    return "its buffers are not as long as they are said to be";
  }
  if (sent > 0 && !is_inside({.begin = send, .end = touches.send_end})) return "its send buffer is in no region";
  if (received > 0 && !is_inside({.begin = recv, .end = touches.recv_end})) return "its recv buffer is in no region";
  if (valid.bytes != (sent + received) * unit) return "it does not weigh what it touches";
  if ((sent > 0) != (valid.send != nullptr) || (received > 0) != (valid.recv != nullptr)) return "regions are not kept";
  if (call.timeout > rules.longest_timeout) return "its timeout is too long";
  try {
    run::expect_possible(call, rules.rank, rules.size);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// How validate() and the model differ about a submission; empty when they do not.
inline std::string disagreement(const Submission& submission, const SessionRules& rules, const RegionTable& table,
                                std::span<const OfferedMemory> regions) {
  const CallModel model(submission, rules, regions);
  const std::variant<ValidCall, Refusal> answer = validate(submission, rules, table);
  if (const Refusal* const refusal = std::get_if<Refusal>(&answer)) {
    if (refusal->words.empty() || refusal->words.find('\n') != std::string::npos) return "it is refused without words";
    if (static_cast<size_t>(refusal->reason) >= kRefusalReasons) return "it is refused for no reason";
    return model.is_good() ? "it is refused (" + refusal->words + ") but good" : "";
  }
  const ValidCall& valid = std::get<ValidCall>(answer);
  if (!model.is_good()) return "it is accepted but bad";
  const Touches touches = touches_of(valid.call, rules.rank, rules.size);
  if (touches.reads != model.touches().reads || touches.writes != model.touches().writes) {
    return "the call is another than was submitted";
  }
  return fault_of(valid, rules, regions);
}

}  // namespace banyan::service
