#include "bindings/c/test_load.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "banyan/base/check.h"

namespace banyan::c {
namespace {

constexpr size_t kSpare = 64;  // for an offset that is drawn, and for reading a whole word at the end

using run::OperationKind;

// A group is a ring of messages.
constexpr std::array kKinds = {OperationKind::all_reduce,
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
                               OperationKind::group};

// The eight bytes at 8 * word of what a rank sends.
uint64_t noise(int rank, size_t word) {
  uint64_t value = (static_cast<uint64_t>(rank) << 48) + word + 1;
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
  value = (value ^ value >> 27) * 0x94d049bb133111ebu;
  return value ^ value >> 31;
}

template <typename T>
T element(int rank, size_t byte_offset, size_t index) {
  const size_t at = byte_offset + index * sizeof(T);
  const uint64_t words[] = {noise(rank, at / 8), noise(rank, at / 8 + 1)};
  T value;
  std::memcpy(&value, reinterpret_cast<const std::byte*>(words) + at % 8, sizeof(T));
  return value;
}

template <typename T>
T combined(banyan_op_t op, T a, T b) {
  switch (op) {
    case BANYAN_SUM:
      return static_cast<T>(a + b);
    case BANYAN_PROD:
      return static_cast<T>(uint64_t{a} * b);
    case BANYAN_MIN:
      return std::min(a, b);
    default:
      return std::max(a, b);
  }
}

}  // namespace

Load::Load(banyan_comm_t comm, const Options& options)
    : comm_(comm),
      options_(options),
      random_(options.seed),
      send_(options.largest + 2 * kSpare, options.is_shared),
      recv_(options.largest + 2 * kSpare, options.is_shared) {
  CHECK(banyan_comm_user_rank(comm, &rank_) == BANYAN_SUCCESS && banyan_comm_count(comm, &size_) == BANYAN_SUCCESS);
  // The pages are there from the beginning, as far as they are ours.
  std::memset(recv_.data(), 0, options_.largest + 2 * kSpare);
  for (size_t at = 0; at + 8 <= options_.largest + 2 * kSpare; at += 8) {
    const uint64_t value = noise(rank_, at / 8);
    std::memcpy(send_.data() + at, &value, 8);
  }
}

std::string Load::touch() {
  for (int root = 0; root < size_; ++root) {
    for (const CallMemory* const from : {&send_, &recv_}) {
      const banyan_result_t result = banyan_broadcast(from->data(), recv_.data(), options_.largest + 2 * kSpare,
                                                      BANYAN_UINT8, root, comm_, nullptr);
      if (result != BANYAN_SUCCESS) return std::string("touching: ") + banyan_last_error(comm_);
    }
  }
  return "";
}

std::string Load::calls(uint64_t count, size_t most) {
  for (uint64_t i = 0; i < count; ++i) {
    if (std::string wrong = call(most); !wrong.empty()) return wrong;
  }
  return "";
}

std::string Load::call(size_t most) {
  CHECK(most <= options_.largest);
  ++made_;
  switch (random_() % 4) {
    case 0:
      return call_as<uint8_t>(BANYAN_UINT8, most);
    case 1:
      return call_as<uint16_t>(BANYAN_UINT16, most);
    case 2:
      return call_as<uint32_t>(BANYAN_UINT32, most);
    default:
      return call_as<uint64_t>(BANYAN_UINT64, most);
  }
}

template <typename T>
std::string Load::call_as(banyan_type_t type, size_t most) {
  const auto size = static_cast<uint32_t>(size_), rank = static_cast<uint32_t>(rank_);
  testing::CallShape shape{.kind = kKinds[below(kKinds.size())], .ranks = size};
  const auto op = static_cast<banyan_op_t>(below(4));
  shape.root = static_cast<uint32_t>(below(size));
  // As many small ones as large ones.
  const size_t limit = most / sizeof(T) >> below(12);
  shape.count = below(limit / size + 1);
  const bool is_reduction = shape.kind == OperationKind::all_reduce || shape.kind == OperationKind::reduce;
  if (is_reduction || shape.kind == OperationKind::broadcast) shape.count *= size;
  const size_t offset = below(2) == 0 ? 0 : below(kSpare);  // bytes into the send buffer
  const bool is_in_place = shape.kind == OperationKind::all_reduce && below(4) == 0;
  for (size_t i = 0; i < size; ++i) shape.parts.push_back(below(limit / size + 1));
  const bool is_by_request = below(4) == 0;
  const std::byte* const send = send_.data() + offset;
  std::byte* const recv = recv_.data() + (below(2) == 0 ? 0 : below(kSpare));
  const auto describe = [&](const std::string& what) {
    std::string counts;
    for (const uint64_t part : shape.parts) counts += " " + std::to_string(part);
    return "call " + std::to_string(made_) + " of seed " + std::to_string(options_.seed) + " at rank " +
           std::to_string(rank_) + ", " + std::string(to_string(shape.kind)) + " op " + std::to_string(op) + " of " +
           std::to_string(shape.count) + " elements of " + std::to_string(sizeof(T)) + " bytes, counts" + counts +
           ", root " + std::to_string(shape.root) + (is_in_place ? ", in place" : "") +
           (is_by_request ? ", by request: " : ": ") + what;
  };
  const size_t end = shape.received(rank);
  // What was there before must not pass for what should have come.
  if (end > 0) {
    const size_t stale = std::min<size_t>(end * sizeof(T), 4096);
    std::memset(recv, 0xA5, stale);
    std::memset(recv + end * sizeof(T) - stale, 0xA5, stale);
  }
  if (is_in_place && shape.count > 0) std::memcpy(recv, send, shape.count * sizeof(T));
  banyan_request_t request = nullptr;
  const CallArguments arguments{.send = is_in_place ? recv : send,
                                .recv = recv,
                                .type = type,
                                .op = op,
                                .request = is_by_request ? &request : nullptr};
  banyan_result_t result = make_call(shape, arguments, comm_);
  if (result == BANYAN_SUCCESS && is_by_request) result = banyan_wait(&request);
  if (result != BANYAN_SUCCESS) return describe(banyan_last_error(comm_));
  const size_t stride = end <= 256 ? 1 : end / 13;
  size_t i = 0;  // the next element that is looked at; the last one is among them
  for (const testing::CallShape::Piece& piece : shape.pieces(rank)) {
    for (; i < piece.here + piece.count; i = i + stride < end || i + 1 == end ? i + stride : end - 1) {
      T got;
      std::memcpy(&got, recv + i * sizeof(T), sizeof(T));
      const T due = expected<T>(piece, piece.there + i - piece.here, {.op = op, .offset = offset});
      if (got == due) continue;
      return describe("element " + std::to_string(i) + " is " + std::to_string(got) + " instead of " +
                      std::to_string(due));
    }
  }
  return "";
}

template <typename T>
T Load::expected(const testing::CallShape::Piece& piece, size_t at, const Sent& sent) const {
  if (piece.from) return element<T>(static_cast<int>(*piece.from), sent.offset, at);
  T value = element<T>(0, sent.offset, at);
  for (int rank = 1; rank < size_; ++rank) value = combined(sent.op, value, element<T>(rank, sent.offset, at));
  return value;
}

}  // namespace banyan::c
