#include "banyan/job/kineto/comm.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <utility>

#include "banyan/base/error.h"

namespace banyan::job::kineto {
namespace {

std::string letters_of(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != '_' && c != '-' && c != ' ') out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> starts) {
  return std::any_of(starts.begin(), starts.end(), [&](std::string_view start) { return text.starts_with(start); });
}

uint64_t product(uint64_t a, uint64_t b) {
  uint64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out) || out > Node::kMaxBytes) {
    throw invalid("a size of " + std::to_string(a) + " times " + std::to_string(b) +
                  " bytes is beyond 2^60; the element counts are damaged");
  }
  return out;
}

}  // namespace

void CommCall::fill_from(const CommCall& other) {
  if (!kind_known && other.kind_known) {
    kind = other.kind;
    collective = other.collective;
    kind_known = true;
  }
  if (kind != other.kind || collective != other.collective) return;
  if (!in_elements) in_elements = other.in_elements;
  if (!out_elements) out_elements = other.out_elements;
  if (width == 0) width = other.width;
  if (group.empty()) {
    group = other.group;
    group_is_object = other.group_is_object;
  }
  if (group_size == 0) group_size = other.group_size;
  if (ranks == kNotListed) ranks = other.ranks;
  if (first_rank < 0) first_rank = other.first_rank;
  if (rank_stride == 0) rank_stride = other.rank_stride;
  if (!peer) peer = other.peer;
  if (!global_peer) global_peer = other.global_peer;
}

std::string to_words(const CommCall& call) {
  if (call.kind == CommCall::Kind::collective) return std::string(to_string(call.collective));
  return call.kind == CommCall::Kind::send ? "send" : "receive";
}

CommName read_comm_name(std::string_view name, CommCall& call) {
  for (const std::string_view prefix : {"nccl:", "gloo:", "ucc:", "mpi:", "rccl:", "c10d::", "_c10d_functional::"}) {
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  }
  const std::string letters = letters_of(name);
  std::string_view text = letters;
  // So does "recvAnysource", which does not say from whom.
  if (starts_with_any(text, {"send", "isend"})) {
    call.kind = CommCall::Kind::send;
  } else if (starts_with_any(text, {"recv", "irecv"})) {
    call.kind = CommCall::Kind::receive;
  } else {
    if (text.starts_with("monitored")) text.remove_prefix(std::string_view("monitored").size());
    // The longer "reducescatter" stands before "reduce" there.
    const auto found = std::find_if(kCollectives.begin(), kCollectives.end(),
                                    [&](const CollectiveTraits& traits) { return text.starts_with(traits.compact); });
    if (found == kCollectives.end()) {
      return starts_with_any(text, {"wait", "init", "startcoalesc", "endcoalesc", "coalesc", "groupstart", "groupend"})
                 ? CommName::wrapper
                 : CommName::none;
    }
    call.kind = CommCall::Kind::collective;
    call.collective = found->kind;
  }
  call.kind_known = true;
  return CommName::call;
}

bool read_kernel_name(std::string_view name, CommCall& call) {
  constexpr std::string_view kKernels[] = {"ncclKernel",        "ncclDevKernel", "ncclSymDevKernel",
                                           "ncclSymkDevKernel", "rcclKernel",    "rcclDevKernel"};
  const auto is_in_name = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (!std::ranges::any_of(kKernels, is_in_name) && !name.starts_with("ncclLocalOpAppend")) return false;
  struct Named {
    std::string_view name;
    CollectiveKind kind;
  };
  constexpr std::array kInKernels = {
      Named{"AllReduce", CollectiveKind::all_reduce}, Named{"AllGather", CollectiveKind::all_gather},
      Named{"ReduceScatter", CollectiveKind::reduce_scatter}, Named{"Broadcast", CollectiveKind::broadcast},
      Named{"Reduce", CollectiveKind::reduce}};
  for (const Named& named : kInKernels) {
    if (!is_in_name(named.name)) continue;
    call.collective = named.kind;
    call.kind_known = true;
    break;
  }
  return true;
}

uint32_t element_width(std::string_view type) {
  if (type.starts_with("Tensor(") && type.ends_with(")")) type = type.substr(7, type.size() - 8);
  if (type.starts_with("c10::")) type.remove_prefix(5);
  if (type.starts_with("torch.")) type.remove_prefix(6);
  std::string text = letters_of(type);
  if (text.starts_with("complex") || text.starts_with("c10::complex")) {
    return text.find("double") != std::string::npos || text.find("128") != std::string::npos ? 16
           : text.find("half") != std::string::npos || text.find("32") != std::string::npos  ? 4
                                                                                             : 8;
  }
  constexpr std::array<std::pair<std::string_view, uint32_t>, 33> kWidths = {
      {{"float", 4},    {"float32", 4},      {"fp32", 4},       {"double", 8}, {"float64", 8}, {"half", 2},
       {"float16", 2},  {"fp16", 2},         {"bfloat16", 2},   {"bf16", 2},   {"byte", 1},    {"char", 1},
       {"uint8", 1},    {"int8", 1},         {"bool", 1},       {"short", 2},  {"int16", 2},   {"uint16", 2},
       {"int", 4},      {"int32", 4},        {"uint32", 4},     {"long", 8},   {"longint", 8}, {"int64", 8},
       {"uint64", 8},   {"unsignedchar", 1}, {"qint8", 1},      {"quint8", 1}, {"qint32", 4},  {"shortint", 2},
       {"longlong", 8}, {"signedchar", 1},   {"unsignedint", 4}}};
  for (const auto& [name, width] : kWidths) {
    if (text == name) return width;
  }
  if (text.starts_with("float8") || text.starts_with("fp8")) return 1;
  return 0;
}

std::vector<uint32_t> read_rank_list(std::string_view text, uint32_t size) {
  std::vector<uint32_t> ranks;
  size_t shortened_at = SIZE_MAX;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c >= '0' && c <= '9') {
      uint32_t rank = 0;
      const auto [end, problem] = std::from_chars(text.data() + at, text.data() + text.size(), rank);
      if (problem != std::errc() || rank >= Job::kMaxRanks || ranks.size() >= Job::kMaxRanks) return {};
      at = static_cast<size_t>(end - text.data());
      ranks.push_back(rank);
    } else if (text.substr(at).starts_with("...")) {
      if (shortened_at != SIZE_MAX) return {};
      shortened_at = ranks.size();
      at += 3;
    } else if (c == '[' || c == ']' || c == ',' || c == ' ' || c == '(' || c == ')') {
      ++at;
    } else {
      return {};
    }
  }
  if (shortened_at == SIZE_MAX) return ranks;
  if (shortened_at < 2 || shortened_at + 1 != ranks.size() || size <= ranks.size() || size > Job::kMaxRanks) return {};
  const int64_t step = int64_t{ranks[1]} - ranks[0];
  std::vector<uint32_t> all;
  for (uint32_t i = 0; i < size; ++i) {
    const int64_t rank = ranks[0] + step * i;
    const bool shown = i < shortened_at || i + 1 == size;
    const uint32_t written = i < shortened_at ? ranks[i] : ranks.back();
    if (rank < 0 || rank >= Job::kMaxRanks || (shown && rank != written)) return {};
    all.push_back(static_cast<uint32_t>(rank));
  }
  return all;
}

std::optional<uint64_t> comm_bytes(const CommCall& call, uint32_t members, bool& fits) {
  fits = true;
  if (call.kind == CommCall::Kind::collective && call.collective == CollectiveKind::barrier) return 0;
  if (call.width == 0 || (!call.in_elements && !call.out_elements)) return std::nullopt;
  const uint64_t in = call.in_elements.value_or(0), out = call.out_elements.value_or(0);
  // The total is told by the side that has all of it, and by the other times the members.
  const auto total = [&](std::optional<uint64_t> whole, std::optional<uint64_t> shard) {
    const uint64_t from_shards = shard ? product(*shard, members) : 0;
    fits = !whole || !shard || *whole == from_shards;
    return product(std::max(whole.value_or(0), from_shards), call.width);
  };
  if (call.kind == CommCall::Kind::send) return product(call.in_elements ? in : out, call.width);
  if (call.kind == CommCall::Kind::receive) return product(call.out_elements && out > 0 ? out : in, call.width);
  switch (call.collective) {
    case CollectiveKind::all_gather:
      // A single element count on both sides is that of the shard: an older way to write it.
      if (call.in_elements && call.out_elements && in == out) return product(product(in, members), call.width);
      return total(call.out_elements, call.in_elements);
    case CollectiveKind::reduce_scatter:
      if (call.in_elements && call.out_elements && in == out) return product(product(in, members), call.width);
      return total(call.in_elements, call.out_elements);
    case CollectiveKind::gather:
      return product(product(in > 0 ? in : out / std::max(members, 1u), members), call.width);
    case CollectiveKind::scatter:
      return product(product(out > 0 ? out : in / std::max(members, 1u), members), call.width);
    case CollectiveKind::all_to_all:
      return product(call.in_elements ? in : out, call.width);
    case CollectiveKind::all_reduce:
    case CollectiveKind::broadcast:
    case CollectiveKind::reduce:
      return product(std::max(in, out), call.width);
    case CollectiveKind::barrier:
      break;
  }
  return 0;
}

}  // namespace banyan::job::kineto
