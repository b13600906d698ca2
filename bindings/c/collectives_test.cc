// Every collective, type and reduction through the C interface, against answers computed here, serially.

#include "banyan/testing/test.h"
#include "bindings/c/test_calls.h"
#include "bindings/c/test_ranks.h"

namespace banyan::c {
namespace {

using run::OperationKind;

constexpr int kTypes = BANYAN_FLOAT64 + 1, kOps = BANYAN_BXOR + 1;

bool is_float(int type) { return type >= BANYAN_FLOAT16; }
bool is_bitwise(int op) { return op >= BANYAN_BAND; }

template <typename T>
void put(std::byte* at, int64_t value) {
  const T converted = static_cast<T>(value);
  std::memcpy(at, &converted, sizeof converted);
}
template <typename T>
double get(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<double>(value);
}

// Numbers that float16 and bfloat16 hold exactly: whole, or with a few bits behind the point.
void put_half(std::byte* at, int64_t value) {
  int exponent = 0;
  const double mantissa = std::frexp(static_cast<double>(value), &exponent);  // in [0.5, 1)
  put<uint16_t>(at, value == 0 ? 0 : (exponent + 14) << 10 | static_cast<int>((mantissa * 2 - 1) * 1024));
}
double get_half(const std::byte* at) {
  const int bits = static_cast<int>(get<uint16_t>(at)), exponent = bits >> 10 & 31;
  if ((bits & 0x7fff) == 0) return 0;
  return std::ldexp(1 + (bits & 1023) / 1024.0, exponent - 15) * (bits >> 15 != 0 ? -1 : 1);
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

// By their numbers: their bytes, and how a whole number is written and an element read.
struct Type {
  size_t bytes;
  void (*encode)(std::byte* at, int64_t value);
  double (*decode)(const std::byte* at);
};
constexpr Type kTypesOf[] = {
    {1, put<int8_t>, get<int8_t>},
    {2, put<int16_t>, get<int16_t>},
    {4, put<int32_t>, get<int32_t>},
    {8, put<int64_t>, get<int64_t>},
    {1, put<uint8_t>, get<uint8_t>},
    {2, put<uint16_t>, get<uint16_t>},
    {4, put<uint32_t>, get<uint32_t>},
    {8, put<uint64_t>, get<uint64_t>},
    {2, put_half, get_half},
    {2, [](std::byte* at, int64_t value) { put<uint16_t>(at, to_bfloat(static_cast<float>(value))); },
     [](const std::byte* at) { return static_cast<double>(of_bfloat(static_cast<uint16_t>(get<uint16_t>(at)))); }},
    {4, put<float>, get<float>},
    {8, put<double>, get<double>}};
static_assert(std::size(kTypesOf) == kTypes);

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
    kTypesOf[type].encode(element, result);
    return kTypesOf[type].decode(element);
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
        for (const OperationKind kind :
             {OperationKind::all_reduce, OperationKind::reduce, OperationKind::reduce_scatter})
          call(kind, type, op, count);
      }
      for (const OperationKind kind : {OperationKind::broadcast, OperationKind::all_gather, OperationKind::all_to_all,
                                       OperationKind::gather, OperationKind::scatter})
        call(kind, type, 0, count);
      if (in_place) continue;
      for (const OperationKind kind :
           {OperationKind::all_gather_v, OperationKind::reduce_scatter_v, OperationKind::all_to_all_v})
        call(kind, type, BANYAN_SUM, count);
    }
    expect_ok(banyan_barrier(comm_, nullptr));
  }

  void call(OperationKind kind, int type, int op, size_t count) {
    const testing::CallShape shape{.kind = kind,
                                   .ranks = static_cast<uint32_t>(size_),
                                   .count = count,
                                   .root = static_cast<uint32_t>(count) % static_cast<uint32_t>(size_),
                                   .parts = testing::uneven_parts(static_cast<uint32_t>(size_), count)};
    const auto rank = static_cast<uint32_t>(rank_);
    const Type& of = kTypesOf[type];
    const size_t sent = shape.sent(rank), received = shape.received(rank);
    if (in_place_) {
      const size_t send_at = shape.send_place(rank), recv_at = shape.recv_place(rank);
      first_.emplace(std::max(sent + send_at, received + recv_at) * of.bytes, shared_);
      send_ = first_->data() + send_at * of.bytes;
      recv_ = first_->data() + recv_at * of.bytes;
    } else {
      first_.emplace(sent * of.bytes, shared_);
      second_.emplace(received * of.bytes, shared_);
      send_ = first_->data();
      recv_ = second_->data();
    }
    std::memset(recv_, 0x55, received * of.bytes);
    for (size_t i = 0; i < sent; ++i) of.encode(send_ + i * of.bytes, sample(op, rank_, i));
    expect_ok(
        make_call(shape, {.send = send_, .recv = recv_, .type = static_cast<banyan_type_t>(type), .op = op}, comm_));
    for (const testing::CallShape::Piece& piece : shape.pieces(rank)) {
      for (size_t i = 0; i < piece.count; ++i) {
        const double due = piece.from ? static_cast<double>(sample(op, static_cast<int>(*piece.from), piece.there + i))
                                      : reduced(type, op, size_, piece.there + i);
        const double got = of.decode(recv_ + (piece.here + i) * of.bytes);
        if (std::abs(got - due) <= tolerance(type, op) || !report_.empty()) continue;
        report_ = std::string(to_string(kind)) + " of type " + std::to_string(type) + ", op " + std::to_string(op) +
                  ", element " + std::to_string(piece.here + i) + ": got " + std::to_string(got) + ", expected " +
                  std::to_string(due);
      }
    }
  }

  std::string report() const { return report_; }

 private:
  void expect_ok(banyan_result_t result) {
    if (result != BANYAN_SUCCESS && report_.empty()) report_ = banyan_last_error(comm_);
  }

  banyan_comm_t comm_;
  int rank_, size_;
  bool shared_, in_place_ = false;
  std::optional<CallMemory> first_, second_;
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
  const auto body = [&](banyan_comm_t comm, int rank) {
    Rank tester(comm, rank, GetParam(), false);
    for (const size_t count : {8191u, 16384u, 16385u, 100'003u, 600'001u}) {
      tester.call(OperationKind::all_reduce, BANYAN_INT32, BANYAN_SUM, count);
    }
    return tester.report();
  };
  EXPECT_THAT(run_ranks(GetParam(), body), Each(""));
}

// One rank alone is refused, which must not disturb the calls of all.
TEST(Collectives, BitsOfFloatsAreRefusedBeforeAnythingHappens) {
  const auto body = [](banyan_comm_t comm, int rank) -> std::string {
    const auto is_refused = [&](banyan_result_t result) {
      return result == BANYAN_INVALID_ARGUMENT &&
             std::string(banyan_last_error(comm)) == "bor is for integers, not float64; give the same bits as uint64";
    };
    std::vector<double> values(2000);
    for (size_t i = 0; i < values.size(); ++i) values[i] = rank + static_cast<double>(i) / 4;
    const std::vector<double> before = values;
    double* const data = values.data();
    const size_t counts[] = {3, 4};
    constexpr banyan_type_t kType = BANYAN_FLOAT64;
    if (rank == 1) {
      banyan_request_t request = nullptr;
      if (!is_refused(banyan_all_reduce(data, data, 1000, kType, BANYAN_BOR, comm, nullptr)) ||
          !is_refused(banyan_all_reduce(data, data, 0, kType, BANYAN_BOR, comm, nullptr)) ||
          !is_refused(banyan_reduce(data, data, 5, kType, BANYAN_BOR, 0, comm, &request)) ||
          !is_refused(banyan_reduce_scatter(data, data + 4, 4, kType, BANYAN_BOR, comm, nullptr)) ||
          !is_refused(banyan_reduce_scatter_v(data, data + 9, counts, kType, BANYAN_BOR, comm, nullptr)))
        return std::string("not refused; said ") + banyan_last_error(comm);
      if (request != nullptr) return "a request of what was refused";
      require(banyan_group_start());
      if (!is_refused(banyan_all_reduce(data, data, 9, kType, BANYAN_BOR, comm, nullptr))) return "not in a group";
      require(banyan_group_end());  // which is empty
    }
    if (values != before) return "data has changed";
    int32_t bits = rank == 0 ? 0b0110 : 0b0011;
    require(banyan_all_reduce(&bits, &bits, 1, BANYAN_INT32, BANYAN_BXOR, comm, nullptr));
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
    require(banyan_all_reduce(values.data(), values.data(), 1000, BANYAN_FLOAT32, op, comm, nullptr));
    if (banyan_op_destroy(op, comm) != BANYAN_SUCCESS) return "destroy";
    if (banyan_op_destroy(op, comm) != BANYAN_INVALID_ARGUMENT) return "destroyed twice";
    for (size_t i = 0; i < values.size(); ++i) {  // 1 (0 + i) + 2 (1 + i) + 3 (2 + i)
      if (values[i] != static_cast<float>(8 + 6 * i)) return std::to_string(values[i]) + " at " + std::to_string(i);
    }
    return "";
  };
  EXPECT_THAT(run_ranks(3, body), Each(""));
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
    require(banyan_all_reduce(values.data(), values.data(), kCount, BANYAN_BFLOAT16, op, comm, nullptr));
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
