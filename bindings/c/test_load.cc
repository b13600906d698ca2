#include "bindings/c/test_load.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "banyan/base/check.h"
#include "banyan/run/call/operation.h"

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

size_t sum_of(const std::vector<size_t>& counts, size_t end) {
  return std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(end), size_t{0});
}

}  // namespace

struct Load::Draw {
  OperationKind kind = OperationKind::barrier;
  banyan_type_t type = BANYAN_UINT8;
  banyan_op_t op = BANYAN_SUM;
  int root = 0;
  size_t count = 0;
  size_t offset = 0;         // bytes into the send buffer
  bool is_in_place = false;  // of an allreduce
  std::vector<size_t>
      counts;  // of the kinds that have them; of all-to-allv, what rank a sends to b is at (a + b) % size
  const uint8_t* send = nullptr;
  uint8_t* recv = nullptr;
};

Load::Load(banyan_comm_t comm, const Options& options) : comm_(comm), options_(options), random_(options.seed) {
  CHECK(banyan_comm_user_rank(comm, &rank_) == BANYAN_SUCCESS && banyan_comm_count(comm, &size_) == BANYAN_SUCCESS);
  send_ = allocate(options_.largest + 2 * kSpare);
  recv_ = allocate(options_.largest + 2 * kSpare);
  std::memset(recv_, 0,
              options_.largest + 2 * kSpare);  // the pages are there from the beginning, as far as they are ours
  for (size_t at = 0; at + 8 <= options_.largest + 2 * kSpare; at += 8) {
    const uint64_t value = noise(rank_, at / 8);
    std::memcpy(send_ + at, &value, 8);
  }
}

Load::~Load() {
  release(send_);
  release(recv_);
}

uint8_t* Load::allocate(size_t bytes) const {
  void* memory = nullptr;
  if (options_.is_shared) {
    CHECK(banyan_mem_alloc(&memory, bytes) == BANYAN_SUCCESS) << banyan_last_error(nullptr);
  } else {
    memory = std::malloc(bytes);
    CHECK(memory != nullptr) << bytes;
  }
  return static_cast<uint8_t*>(memory);
}

void Load::release(uint8_t* buffer) const {
  if (options_.is_shared) {
    CHECK(banyan_mem_free(buffer) == BANYAN_SUCCESS) << banyan_last_error(nullptr);
  } else {
    std::free(buffer);
  }
}

std::string Load::touch() {
  for (int root = 0; root < size_; ++root) {
    for (const uint8_t* const from : {send_, recv_}) {
      const banyan_result_t result =
          banyan_broadcast(from, recv_, options_.largest + 2 * kSpare, BANYAN_UINT8, root, comm_, nullptr);
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
  const auto size = static_cast<size_t>(size_);
  Draw draw;
  draw.type = type;
  draw.kind = kKinds[below(kKinds.size())];
  draw.op = static_cast<banyan_op_t>(below(4));
  draw.root = static_cast<int>(below(size));
  // As many small ones as large ones.
  const size_t limit = most / sizeof(T) >> below(12);
  draw.count = below(limit / size + 1);
  if (draw.kind == OperationKind::all_reduce || draw.kind == OperationKind::reduce ||
      draw.kind == OperationKind::broadcast)
    draw.count *= size;
  draw.offset = below(2) == 0 ? 0 : below(kSpare);
  draw.is_in_place = draw.kind == OperationKind::all_reduce && below(4) == 0;
  for (size_t i = 0; i < size; ++i) draw.counts.push_back(below(limit / size + 1));
  const bool is_by_request = below(4) == 0;
  draw.send = send_ + draw.offset;
  draw.recv = recv_ + (below(2) == 0 ? 0 : below(kSpare));
  const auto describe = [&](const std::string& what) {
    std::string counts;
    for (const size_t count : draw.counts) counts += " " + std::to_string(count);
    return "call " + std::to_string(made_) + " of seed " + std::to_string(options_.seed) + " at rank " +
           std::to_string(rank_) + ", " + std::string(to_string(draw.kind)) + " op " + std::to_string(draw.op) +
           " of " + std::to_string(draw.count) + " elements of " + std::to_string(sizeof(T)) + " bytes, counts" +
           counts + ", root " + std::to_string(draw.root) + (draw.is_in_place ? ", in place" : "") +
           (is_by_request ? ", by request: " : ": ") + what;
  };
  const size_t end = received<T>(draw);
  // What was there before must not pass for what should have come.
  if (end > 0) {
    const size_t stale = std::min<size_t>(end * sizeof(T), 4096);
    std::memset(draw.recv, 0xA5, stale);
    std::memset(draw.recv + end * sizeof(T) - stale, 0xA5, stale);
  }
  if (draw.is_in_place && draw.count > 0) std::memcpy(draw.recv, draw.send, draw.count * sizeof(T));
  banyan_request_t request = nullptr;
  banyan_result_t result = make<T>(draw, is_by_request ? &request : nullptr);
  if (result == BANYAN_SUCCESS && is_by_request) result = banyan_wait(&request);
  if (result != BANYAN_SUCCESS) return describe(banyan_last_error(comm_));
  const size_t stride = end <= 256 ? 1 : end / 13;
  for (size_t i = 0; i < end; i = i + stride < end || i + 1 == end ? i + stride : end - 1) {
    T got;
    std::memcpy(&got, draw.recv + i * sizeof(T), sizeof(T));
    if (got != expected<T>(draw, i)) {
      return describe("element " + std::to_string(i) + " is " + std::to_string(got) + " instead of " +
                      std::to_string(expected<T>(draw, i)));
    }
  }
  return "";
}

template <typename T>
size_t Load::received(const Draw& draw) const {
  const auto size = static_cast<size_t>(size_), rank = static_cast<size_t>(rank_);
  switch (draw.kind) {
    case OperationKind::reduce:
      return rank_ == draw.root ? draw.count : 0;
    case OperationKind::all_gather:
    case OperationKind::all_to_all:
      return draw.count * size;
    case OperationKind::gather:
      return rank_ == draw.root ? draw.count * size : 0;
    case OperationKind::all_gather_v:
    case OperationKind::all_to_all_v:
      return sum_of(draw.counts, size);
    case OperationKind::reduce_scatter_v:
      return draw.counts[rank];
    case OperationKind::barrier:
      return 0;
    default:
      return draw.count;
  }
}

template <typename T>
banyan_result_t Load::make(const Draw& d, banyan_request_t* request) {
  switch (d.kind) {
    case OperationKind::all_reduce:
      return banyan_all_reduce(d.is_in_place ? d.recv : d.send, d.recv, d.count, d.type, d.op, comm_, request);
    case OperationKind::reduce:
      return banyan_reduce(d.send, d.recv, d.count, d.type, d.op, d.root, comm_, request);
    case OperationKind::broadcast:
      return banyan_broadcast(d.send, d.recv, d.count, d.type, d.root, comm_, request);
    case OperationKind::all_gather:
      return banyan_all_gather(d.send, d.recv, d.count, d.type, comm_, request);
    case OperationKind::all_gather_v:
      return banyan_all_gather_v(d.send, d.recv, d.counts.data(), nullptr, d.type, comm_, request);
    case OperationKind::reduce_scatter:
      return banyan_reduce_scatter(d.send, d.recv, d.count, d.type, d.op, comm_, request);
    case OperationKind::reduce_scatter_v:
      return banyan_reduce_scatter_v(d.send, d.recv, d.counts.data(), d.type, d.op, comm_, request);
    case OperationKind::all_to_all:
      return banyan_all_to_all(d.send, d.recv, d.count, d.type, comm_, request);
    case OperationKind::all_to_all_v: {
      // Only until the call returns: it has read them by then.
      std::vector<size_t> counts;
      for (int peer = 0; peer < size_; ++peer) counts.push_back(d.counts[static_cast<size_t>((rank_ + peer) % size_)]);
      const banyan_result_t result =
          banyan_all_to_all_v(d.send, counts.data(), nullptr, d.recv, counts.data(), nullptr, d.type, comm_, request);
      std::fill(counts.begin(), counts.end(), SIZE_MAX);
      return result;
    }
    case OperationKind::gather:
      return banyan_gather(d.send, d.recv, d.count, d.type, d.root, comm_, request);
    case OperationKind::scatter:
      return banyan_scatter(d.send, d.recv, d.count, d.type, d.root, comm_, request);
    case OperationKind::barrier:
      return banyan_barrier(comm_, request);
    case OperationKind::group: {
      if (size_ == 1) return BANYAN_SUCCESS;
      banyan_group_start();
      banyan_send(d.send, d.count, d.type, (rank_ + 1) % size_, comm_, nullptr);
      banyan_recv(d.recv, d.count, d.type, (rank_ + size_ - 1) % size_, comm_, request);
      return banyan_group_end();
    }
    default:
      break;  // not among kKinds
  }
  return BANYAN_INTERNAL;
}

template <typename T>
T Load::expected(const Draw& draw, size_t i) const {
  const auto size = static_cast<size_t>(size_), rank = static_cast<size_t>(rank_);
  const auto sent = [&](size_t by, size_t index) { return element<T>(static_cast<int>(by), draw.offset, index); };
  const auto reduced = [&](size_t index) {
    T value = sent(0, index);
    for (size_t other = 1; other < size; ++other) value = combined(draw.op, value, sent(other, index));
    return value;
  };
  switch (draw.kind) {
    case OperationKind::all_reduce:
    case OperationKind::reduce:
      return reduced(i);
    case OperationKind::broadcast:
      return sent(static_cast<size_t>(draw.root), i);
    case OperationKind::all_gather:
    case OperationKind::gather:
      return sent(i / draw.count, i % draw.count);
    case OperationKind::all_gather_v: {
      size_t from = 0;
      while (i >= sum_of(draw.counts, from + 1)) ++from;
      return sent(from, i - sum_of(draw.counts, from));
    }
    case OperationKind::reduce_scatter:
      return reduced(rank * draw.count + i);
    case OperationKind::reduce_scatter_v:
      return reduced(sum_of(draw.counts, rank) + i);
    case OperationKind::all_to_all:
      return sent(i / draw.count, rank * draw.count + i % draw.count);
    case OperationKind::all_to_all_v: {
      size_t from = 0;
      while (i >= draw.counts[(rank + from) % size]) i -= draw.counts[(rank + from++) % size];
      size_t before = 0;  // what that rank sends to those before this one
      for (size_t peer = 0; peer < rank; ++peer) before += draw.counts[(from + peer) % size];
      return sent(from, before + i);
    }
    case OperationKind::scatter:
      return sent(static_cast<size_t>(draw.root), rank * draw.count + i);
    case OperationKind::group:
      return sent((rank + size - 1) % size, i);
    default:
      break;  // a barrier receives nothing
  }
  return T{};
}

}  // namespace banyan::c
