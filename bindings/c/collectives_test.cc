// Every collective, type and reduction through the C interface, against answers computed here, serially.

#include "banyan/testing/test.h"
#include "bindings/c/test_ranks.h"

namespace banyan::c {
namespace {

constexpr int kTypes = BANYAN_FLOAT64 + 1, kOps = BANYAN_BXOR + 1;

size_t bytes_of(int type) {
  constexpr size_t sizes[] = {1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8};
  return sizes[type];
}
bool is_float(int type) { return type >= BANYAN_FLOAT16; }
bool is_bitwise(int op) { return op >= BANYAN_BAND; }

template <typename To, typename From>
void put(std::byte* at, From value) {
  const To converted = static_cast<To>(value);
  std::memcpy(at, &converted, sizeof converted);
}
template <typename T>
T get(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Numbers that float16 and bfloat16 hold exactly: whole, or with a few bits behind the point.
void put_half(std::byte* at, double value) {
  int exponent = 0;
  const double mantissa = std::frexp(value, &exponent);  // in [0.5, 1)
  put<uint16_t>(at, value == 0 ? 0 : (exponent + 14) << 10 | static_cast<int>((mantissa * 2 - 1) * 1024));
}
double get_half(const std::byte* at) {
  const int bits = get<uint16_t>(at), exponent = bits >> 10 & 31;
  if ((bits & 0x7fff) == 0) return 0;
  return std::ldexp(1 + (bits & 1023) / 1024.0, exponent - 15) * (bits >> 15 != 0 ? -1 : 1);
}

void encode(int type, std::byte* at, int64_t value) {
  switch (type) {
    case BANYAN_INT8:
      return put<int8_t>(at, value);
    case BANYAN_INT16:
      return put<int16_t>(at, value);
    case BANYAN_INT32:
      return put<int32_t>(at, value);
    case BANYAN_INT64:
      return put<int64_t>(at, value);
    case BANYAN_UINT8:
      return put<uint8_t>(at, value);
    case BANYAN_UINT16:
      return put<uint16_t>(at, value);
    case BANYAN_UINT32:
      return put<uint32_t>(at, value);
    case BANYAN_UINT64:
      return put<uint64_t>(at, value);
    case BANYAN_FLOAT16:
      return put_half(at, static_cast<double>(value));
    case BANYAN_BFLOAT16: {
      const float number = static_cast<float>(value);
      uint32_t bits;
      std::memcpy(&bits, &number, 4);
      return put<uint16_t>(at, bits >> 16);
    }
    case BANYAN_FLOAT32:
      return put<float>(at, value);
    default:
      return put<double>(at, value);
  }
}

double decode(int type, const std::byte* at) {
  switch (type) {
    case BANYAN_INT8:
      return get<int8_t>(at);
    case BANYAN_INT16:
      return get<int16_t>(at);
    case BANYAN_INT32:
      return get<int32_t>(at);
    case BANYAN_INT64:
      return static_cast<double>(get<int64_t>(at));
    case BANYAN_UINT8:
      return get<uint8_t>(at);
    case BANYAN_UINT16:
      return get<uint16_t>(at);
    case BANYAN_UINT32:
      return get<uint32_t>(at);
    case BANYAN_UINT64:
      return static_cast<double>(get<uint64_t>(at));
    case BANYAN_FLOAT16:
      return get_half(at);
    case BANYAN_BFLOAT16: {
      const uint32_t bits = static_cast<uint32_t>(get<uint16_t>(at)) << 16;
      float number;
      std::memcpy(&number, &bits, 4);
      return number;
    }
    case BANYAN_FLOAT32:
      return get<float>(at);
    default:
      return get<double>(at);
  }
}

// Of 51 bits, which a double holds exactly; a shorter type gets the lower ones, and its sign with them. Seven in eight
// are set for an and, one in eight for an or, so that those of 8 ranks leave some of both.
int64_t sample_of_bits(int op, int rank, uint64_t position) {
  uint64_t state = static_cast<uint64_t>(rank) << 32 ^ position;
  const auto next = [&] {
    state += 0x9e3779b97f4a7c15u;
    const uint64_t mixed = (state ^ state >> 30) * 0xbf58476d1ce4e5b9u;
    return (mixed ^ mixed >> 27) * 0x94d049bb133111ebu >> 13;
  };
  const uint64_t first = next(), second = next(), third = next();
  if (op == BANYAN_BAND) return static_cast<int64_t>(first | second | third);
  if (op == BANYAN_BOR) return static_cast<int64_t>(first & second & third);
  return static_cast<int64_t>(first);
}

// Small enough that sums over 8 ranks are exact in 8 bits, and so are products of most.
int64_t sample(int op, int rank, uint64_t position) {
  if (is_bitwise(op)) return sample_of_bits(op, rank, position);
  const uint64_t noise =
      (static_cast<uint64_t>(rank) * 1009 + position * 31 + position / 61) * 0x9e3779b97f4a7c15u >> 60;
  return op == BANYAN_PROD ? 1 + static_cast<int64_t>(noise % 2) : static_cast<int64_t>(noise % 12);
}

double reduced(int type, int op, int size, uint64_t position) {
  int64_t result = sample(op, 0, position);
  for (int rank = 1; rank < size; ++rank) {
    const int64_t next = sample(op, rank, position);
    if (op == BANYAN_SUM || op == BANYAN_AVG) result += next;
    if (op == BANYAN_PROD) result *= next;
    if (op == BANYAN_MIN) result = std::min(result, next);
    if (op == BANYAN_MAX) result = std::max(result, next);
    if (op == BANYAN_BAND) result &= next;
    if (op == BANYAN_BOR) result |= next;
    if (op == BANYAN_BXOR) result ^= next;
  }
  if (is_bitwise(op)) {
    std::byte element[8];
    encode(type, element, result);
    return decode(type, element);
  }
  if (op == BANYAN_PROD && type == BANYAN_INT8) return static_cast<int8_t>(result);
  if (op == BANYAN_PROD && type == BANYAN_UINT8) return static_cast<uint8_t>(result);
  if (op != BANYAN_AVG) return static_cast<double>(result);
  return is_float(type) ? static_cast<double>(result) / size : static_cast<double>(result / size);
}

// How far a rounded mean may lie from the exact one.
double tolerance(int type, int op) {
  if (op != BANYAN_AVG) return 0;
  return type == BANYAN_BFLOAT16 ? 0.04 : type == BANYAN_FLOAT16 ? 0.006 : type == BANYAN_FLOAT32 ? 1e-6 : 0;
}

class Rank {
 public:
  Rank(banyan_comm_t comm, int rank, int size, bool shared) : comm_(comm), rank_(rank), size_(size), shared_(shared) {}

  void all_of(size_t count, bool in_place) {
    in_place_ = in_place;
    for (int type = 0; type < kTypes; ++type) {
      for (int op = 0; op < kOps; ++op) {
        if (is_bitwise(op) && is_float(type)) continue;
        all_reduce(type, op, count);
        reduce(type, op, count, static_cast<int>(count) % size_);
        reduce_scatter(type, op, count);
      }
      broadcast(type, count, static_cast<int>(count + 1) % size_);
      all_gather(type, count);
      all_to_all(type, count);
      gather(type, count, static_cast<int>(count) % size_);
      scatter(type, count, static_cast<int>(count) % size_);
      if (!in_place) vectors(type, count);
    }
    expect_ok(banyan_barrier(comm_, nullptr));
  }

  std::string report() const { return report_; }

 private:
  struct Buffer {
    Buffer(size_t bytes, bool is_shared) : shared(is_shared) {
      if (shared) {
        void* memory = nullptr;
        if (banyan_mem_alloc(&memory, bytes) != BANYAN_SUCCESS) std::abort();
        data = static_cast<std::byte*>(memory);
      } else {
        data = new std::byte[bytes + 1];
      }
      std::memset(data, 0x55, bytes);
    }
    ~Buffer() {
      if (shared) {
        banyan_mem_free(data);
      } else {
        delete[] data;
      }
    }
    std::byte* data;
    bool shared;
  };

  // Buffers such that in place, the send buffer lies `place` elements into the receive buffer, or the other way round.
  void prepare(int type, int op, size_t sent, size_t received, size_t send_place, size_t recv_place) {
    type_ = type;
    op_ = op;
    const size_t bytes = bytes_of(type);
    if (in_place_) {
      first_.emplace(std::max(sent + send_place, received + recv_place) * bytes, shared_);
      send_ = first_->data + send_place * bytes;
      recv_ = first_->data + recv_place * bytes;
    } else {
      first_.emplace(sent * bytes, shared_);
      second_.emplace(received * bytes, shared_);
      send_ = first_->data;
      recv_ = second_->data;
    }
    for (size_t i = 0; i < sent; ++i) encode(type, send_ + i * bytes, sample(op, rank_, i));
  }

  void all_reduce(int type, int op, size_t count) {
    prepare(type, op, count, count, 0, 0);
    expect_ok(banyan_all_reduce(send_, recv_, count, t(), op, comm_, nullptr));
    for (size_t i = 0; i < count; ++i) expect("allreduce", i, reduced(type, op, size_, i));
  }
  void reduce(int type, int op, size_t count, int root) {
    prepare(type, op, count, count, 0, 0);
    expect_ok(banyan_reduce(send_, recv_, count, t(), op, root, comm_, nullptr));
    for (size_t i = 0; i < count && rank_ == root; ++i) expect("reduce", i, reduced(type, op, size_, i));
  }
  void reduce_scatter(int type, int op, size_t count) {
    const size_t at = count * static_cast<size_t>(rank_);
    prepare(type, op, count * static_cast<size_t>(size_), count, 0, at);
    expect_ok(banyan_reduce_scatter(send_, recv_, count, t(), op, comm_, nullptr));
    for (size_t i = 0; i < count; ++i) expect("reduce-scatter", i, reduced(type, op, size_, at + i));
  }
  void broadcast(int type, size_t count, int root) {
    prepare(type, 0, count, count, 0, 0);
    expect_ok(banyan_broadcast(send_, recv_, count, t(), root, comm_, nullptr));
    for (size_t i = 0; i < count; ++i) expect("broadcast", i, static_cast<double>(sample(0, root, i)));
  }
  void all_gather(int type, size_t count) {
    prepare(type, 0, count, count * static_cast<size_t>(size_), count * static_cast<size_t>(rank_), 0);
    expect_ok(banyan_all_gather(send_, recv_, count, t(), comm_, nullptr));
    for (size_t i = 0; i < count * static_cast<size_t>(size_); ++i) {
      expect("allgather", i, static_cast<double>(sample(0, static_cast<int>(i / count), i % count)));
    }
  }
  void all_to_all(int type, size_t count) {
    const size_t all = count * static_cast<size_t>(size_), at = count * static_cast<size_t>(rank_);
    prepare(type, 0, all, all, 0, 0);
    expect_ok(banyan_all_to_all(send_, recv_, count, t(), comm_, nullptr));
    for (size_t i = 0; i < all; ++i) {
      expect("all-to-all", i, static_cast<double>(sample(0, static_cast<int>(i / count), at + i % count)));
    }
  }
  void gather(int type, size_t count, int root) {
    prepare(type, 0, count, count * static_cast<size_t>(size_), count * static_cast<size_t>(rank_), 0);
    expect_ok(banyan_gather(send_, recv_, count, t(), root, comm_, nullptr));
    for (size_t i = 0; i < count * static_cast<size_t>(size_) && rank_ == root; ++i) {
      expect("gather", i, static_cast<double>(sample(0, static_cast<int>(i / count), i % count)));
    }
  }
  void scatter(int type, size_t count, int root) {
    const size_t at = count * static_cast<size_t>(rank_);
    prepare(type, 0, count * static_cast<size_t>(size_), count, 0, at);
    expect_ok(banyan_scatter(send_, recv_, count, t(), root, comm_, nullptr));
    for (size_t i = 0; i < count; ++i) expect("scatter", i, static_cast<double>(sample(0, root, at + i)));
  }
  // The three with counts per rank: rank p's part is p + 1 times as long as rank 0's.
  void vectors(int type, size_t count) {
    std::vector<size_t> counts;
    for (int rank = 0; rank < size_; ++rank) counts.push_back(count * static_cast<size_t>(rank % 3));
    const size_t total = std::accumulate(counts.begin(), counts.end(), size_t{0});
    const size_t before = std::accumulate(counts.begin(), counts.begin() + rank_, size_t{0});
    const size_t own = counts[static_cast<size_t>(rank_)];
    prepare(type, 0, own, total, 0, 0);
    expect_ok(banyan_all_gather_v(send_, recv_, counts.data(), nullptr, t(), comm_, nullptr));
    size_t at = 0;
    for (int rank = 0; rank < size_; ++rank) {
      for (size_t i = 0; i < counts[static_cast<size_t>(rank)]; ++i) {
        expect("allgatherv", at++, static_cast<double>(sample(0, rank, i)));
      }
    }
    prepare(type, 0, total, own, 0, 0);
    expect_ok(banyan_reduce_scatter_v(send_, recv_, counts.data(), t(), BANYAN_SUM, comm_, nullptr));
    for (size_t i = 0; i < own; ++i) expect("reduce-scatterv", i, reduced(type, BANYAN_SUM, size_, before + i));
    // Rank a sends (a + b) mod 3 parts to rank b.
    for (int peer = 0; peer < size_; ++peer)
      counts[static_cast<size_t>(peer)] = count * static_cast<size_t>((rank_ + peer) % 3);
    const size_t sent = std::accumulate(counts.begin(), counts.end(), size_t{0});
    prepare(type, 0, sent, sent, 0, 0);
    expect_ok(banyan_all_to_all_v(send_, counts.data(), nullptr, recv_, counts.data(), nullptr, t(), comm_, nullptr));
    at = 0;
    for (int peer = 0; peer < size_; ++peer) {
      size_t there = 0;
      for (int other = 0; other < rank_; ++other) there += count * static_cast<size_t>((peer + other) % 3);
      for (size_t i = 0; i < counts[static_cast<size_t>(peer)]; ++i) {
        expect("all-to-allv", at++, static_cast<double>(sample(0, peer, there + i)));
      }
    }
  }

  banyan_type_t t() const { return static_cast<banyan_type_t>(type_); }
  void expect_ok(banyan_result_t result) {
    if (result != BANYAN_SUCCESS && report_.empty()) report_ = banyan_last_error(comm_);
  }
  void expect(const char* what, size_t i, double expected) {
    const double got = decode(type_, recv_ + i * bytes_of(type_));
    if (std::abs(got - expected) <= tolerance(type_, op_) || !report_.empty()) return;
    report_ = std::string(what) + " of type " + std::to_string(type_) + ", op " + std::to_string(op_) + ", element " +
              std::to_string(i) + ": got " + std::to_string(got) + ", expected " + std::to_string(expected);
  }

  banyan_comm_t comm_;
  int rank_, size_;
  bool shared_, in_place_ = false;
  int type_ = 0, op_ = 0;
  std::optional<Buffer> first_, second_;
  std::byte *send_ = nullptr, *recv_ = nullptr;
  std::string report_;
};

class EverySize : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Collectives, EverySize, ::testing::Values(1, 2, 3, 4, 7, 8));

TEST_P(EverySize, EveryCollectiveTypeAndReductionIsRight) {
  const int size = GetParam();
  const auto body = [&](banyan_comm_t comm, int rank) {
    for (const bool shared : {false, true}) {
      Rank tester(comm, rank, size, shared);
      for (const size_t count : {0, 1, 13, 997}) {
        tester.all_of(count, false);
        if (count > 0) tester.all_of(count, true);
      }
      if (!tester.report().empty()) return (shared ? "shared: " : "ordinary: ") + tester.report();
    }
    return std::string();
  };
  EXPECT_THAT(run_ranks(size, body), Each(""));
}

// Around the sizes at which one way gives way to another, for one type.
TEST_P(EverySize, LargeBuffersAreRight) {
  const int size = GetParam();
  const auto body = [&](banyan_comm_t comm, int) -> std::string {
    for (const size_t count : {8191u, 16384u, 16385u, 100'003u, 600'001u}) {
      std::vector<int32_t> values(count), sums(count);
      int rank = 0;
      banyan_comm_user_rank(comm, &rank);
      for (size_t i = 0; i < count; ++i) values[i] = static_cast<int32_t>(i * 7 + static_cast<size_t>(rank) * 13);
      if (banyan_all_reduce(values.data(), sums.data(), count, BANYAN_INT32, BANYAN_SUM, comm, nullptr) !=
          BANYAN_SUCCESS)
        return banyan_last_error(comm);
      for (size_t i = 0; i < count; ++i) {
        const auto expected =
            static_cast<int32_t>(static_cast<size_t>(size) * i * 7 + 13 * static_cast<size_t>(size * (size - 1) / 2));
        if (sums[i] != expected) return "element " + std::to_string(i) + " of " + std::to_string(count);
      }
    }
    return "";
  };
  EXPECT_THAT(run_ranks(size, body), Each(""));
}

// One rank alone is refused, which must not disturb the calls of all.
TEST(Collectives, BitsOfFloatsAreRefusedBeforeAnythingHappens) {
  const auto body = [](banyan_comm_t comm, int rank) -> std::string {
    const auto is_refused = [&](banyan_result_t result, const std::string& text) {
      return result == BANYAN_INVALID_ARGUMENT && banyan_last_error(comm) == text;
    };
    std::vector<double> values(2000);
    for (size_t i = 0; i < values.size(); ++i) values[i] = rank + static_cast<double>(i) / 4;
    const std::vector<double> before = values;
    double* const data = values.data();
    const size_t counts[] = {3, 4};
    const std::string rest = " is for integers, not ";
    const std::pair<banyan_op_t, std::string> ops[] = {
        {BANYAN_BAND, "band"}, {BANYAN_BOR, "bor"}, {BANYAN_BXOR, "bxor"}};
    const std::pair<banyan_type_t, std::string> types[] = {{BANYAN_FLOAT16, "float16; give the same bits as uint16"},
                                                           {BANYAN_BFLOAT16, "bfloat16; give the same bits as uint16"},
                                                           {BANYAN_FLOAT32, "float32; give the same bits as uint32"},
                                                           {BANYAN_FLOAT64, "float64; give the same bits as uint64"}};
    for (const auto& [op, op_name] : ops) {
      for (const auto& [type, type_name] : types) {
        if (rank != 1) continue;
        const std::string text = op_name + rest + type_name;
        banyan_request_t request = nullptr;
        if (!is_refused(banyan_all_reduce(data, data, 1000, type, op, comm, nullptr), text) ||
            !is_refused(banyan_all_reduce(data, data, 0, type, op, comm, nullptr), text) ||
            !is_refused(banyan_reduce(data, data, 5, type, op, 0, comm, &request), text) ||
            !is_refused(banyan_reduce_scatter(data, data + 4, 4, type, op, comm, nullptr), text) ||
            !is_refused(banyan_reduce_scatter_v(data, data + 9, counts, type, op, comm, nullptr), text))
          return "not refused: " + text + "; said " + banyan_last_error(comm);
        if (request != nullptr) return "a request of what was refused";
        if (banyan_group_start() != BANYAN_SUCCESS) return "group";
        if (!is_refused(banyan_all_reduce(data, data, 9, type, op, comm, nullptr), text))
          return "not refused in a group: " + text;
        if (banyan_group_end() != BANYAN_SUCCESS) return "the group was not empty";
      }
    }
    if (values != before) return "data has changed";
    int32_t bits = rank == 0 ? 0b0110 : 0b0011;
    if (banyan_all_reduce(&bits, &bits, 1, BANYAN_INT32, BANYAN_BXOR, comm, nullptr) != BANYAN_SUCCESS)
      return banyan_last_error(comm);
    return std::to_string(bits);
  };
  EXPECT_THAT(run_ranks(2, body), Each("5"));
}

TEST(Collectives, OpsThatDoNotExistAreRefused) {
  const auto body = [](banyan_comm_t comm, int) -> std::string {
    int32_t value = 7;
    for (const banyan_op_t op : {-1, BANYAN_BXOR + 1, 999, 1000, 1 << 30}) {
      const banyan_result_t result = banyan_all_reduce(&value, &value, 1, BANYAN_INT32, op, comm, nullptr);
      if (result != BANYAN_INVALID_ARGUMENT ||
          banyan_last_error(comm) != "op " + std::to_string(op) + " does not exist in this communicator")
        return std::to_string(op) + ": " + banyan_last_error(comm);
    }
    return "";
  };
  EXPECT_THAT(run_ranks(1, body), Each(""));
}

TEST(Collectives, APremultipliedSumScalesWhatEachRankContributes) {
  const auto body = [](banyan_comm_t comm, int rank) -> std::string {
    banyan_op_t op = 0;
    if (banyan_op_create_premul_sum(&op, rank + 1, comm) != BANYAN_SUCCESS) return "create";
    std::vector<float> values(1000);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(rank + static_cast<int>(i));
    if (banyan_all_reduce(values.data(), values.data(), 1000, BANYAN_FLOAT32, op, comm, nullptr) != BANYAN_SUCCESS)
      return banyan_last_error(comm);
    if (banyan_op_destroy(op, comm) != BANYAN_SUCCESS) return "destroy";
    if (banyan_op_destroy(op, comm) != BANYAN_INVALID_ARGUMENT) return "destroyed twice";
    for (size_t i = 0; i < values.size(); ++i) {  // 1 (0 + i) + 2 (1 + i) + 3 (2 + i)
      if (values[i] != static_cast<float>(8 + 6 * i)) return std::to_string(values[i]) + " at " + std::to_string(i);
    }
    return "";
  };
  EXPECT_THAT(run_ranks(3, body), Each(""));
}

float of_bfloat(uint16_t half) {
  const uint32_t bits = uint32_t{half} << 16;
  float number;
  std::memcpy(&number, &bits, sizeof number);
  return number;
}

// Rounds to the nearest, ties to even.
uint16_t to_bfloat(float number) {
  uint32_t bits;
  std::memcpy(&bits, &number, sizeof bits);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

TEST(Collectives, TheProductsOfAPremultipliedSumAreRoundedToTheirType) {
  constexpr float kFactor = 1.25f;
  constexpr size_t kCount = 500;
  const auto sample = [](int rank, size_t i) {
    return to_bfloat(1.0f + static_cast<float>((i * 37 + static_cast<size_t>(rank) * 11) % 128) / 128);
  };
  const auto body = [&](banyan_comm_t comm, int rank) -> std::string {
    banyan_op_t op = 0;
    if (banyan_op_create_premul_sum(&op, kFactor, comm) != BANYAN_SUCCESS) return "create";
    std::vector<uint16_t> values(kCount);
    for (size_t i = 0; i < kCount; ++i) values[i] = sample(rank, i);
    if (banyan_all_reduce(values.data(), values.data(), kCount, BANYAN_BFLOAT16, op, comm, nullptr) != BANYAN_SUCCESS)
      return banyan_last_error(comm);
    size_t differ = 0;  // from a sum that is rounded at the end only
    for (size_t i = 0; i < kCount; ++i) {
      const float a = kFactor * of_bfloat(sample(0, i)), b = kFactor * of_bfloat(sample(1, i));
      const uint16_t due = to_bfloat(of_bfloat(to_bfloat(a)) + of_bfloat(to_bfloat(b)));
      if (values[i] != due) return std::to_string(values[i]) + " at " + std::to_string(i);
      differ += due != to_bfloat(a + b) ? 1 : 0;
    }
    return differ > 0 ? "" : "these values do not tell one from the other";
  };
  EXPECT_THAT(run_ranks(2, body), Each(""));
}

}  // namespace
}  // namespace banyan::c
