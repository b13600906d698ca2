// Calls of more than 2^31 elements, with real bytes; and of so many that no machine could hold them.
#include <unistd.h>

#include "banyan/base/check.h"
#include "banyan/testing/test.h"
#include "bindings/c/test_calls.h"
#include "bindings/c/test_ranks.h"

namespace banyan::c {
namespace {

using run::OperationKind;

constexpr size_t kCount = (size_t{1} << 31) + 4097;  // bytes, and elements of int8

size_t available_bytes() {
  std::ifstream info("/proc/meminfo");
  std::string name, unit;
  for (size_t kibibytes = 0; info >> name >> kibibytes >> unit;) {
    if (name == "MemAvailable:") return kibibytes << 10;
  }
  return 0;
}

// Of rank and position; any two neighbours of any distance below 251 differ.
int8_t value(int rank, size_t position) {
  return static_cast<int8_t>((position * 7 + position / 251 + 13 * static_cast<size_t>(rank)) % 120 - 60);
}

int8_t sum(size_t position) { return static_cast<int8_t>(value(0, position) + value(1, position)); }

// At both ends, around 2^31 and 2^30, and at places drawn by a fixed seed.
template <typename Expected>
std::string check(const int8_t* data, const char* what, Expected expected) {
  std::mt19937_64 random(31);
  std::vector<size_t> places;
  for (size_t i = 0; i < 4097; ++i) {
    places.insert(places.end(), {i, kCount - 1 - i, (size_t{1} << 30) - 2048 + i, (size_t{1} << 31) - 4096 + i});
  }
  for (int i = 0; i < 1'000'000; ++i) places.push_back(random() % kCount);
  for (const size_t place : places) {
    if (data[place] == expected(place)) continue;
    return std::string(what) + ": element " + std::to_string(place) + " is " + std::to_string(data[place]) +
           " instead of " + std::to_string(expected(place));
  }
  return "";
}

class Large : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Buffers, Large, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "shared" : "ordinary"; });

TEST_P(Large, MoreThanTwoGibiElementsAreReducedAndBroadcast) {
  constexpr size_t kNeeded = 4 * kCount + (size_t{2} << 30);  // two ranks with two buffers each, and some scratch
  if (available_bytes() < kNeeded) {
    GTEST_SKIP() << "needs " << (kNeeded >> 20) << " MiB of memory, of which " << (available_bytes() >> 20)
                 << " are free";
  }
  const auto body = [](banyan_comm_t comm, int rank) -> std::string {
    const CallMemory in_memory(kCount, GetParam()), out_memory(kCount, GetParam());
    auto* const in = reinterpret_cast<int8_t*>(in_memory.data());
    auto* const out = reinterpret_cast<int8_t*>(out_memory.data());
    for (size_t i = 0; i < kCount; ++i) in[i] = value(rank, i);
    require(banyan_all_reduce(in, out, kCount, BANYAN_INT8, BANYAN_SUM, comm, nullptr));
    std::string wrong = check(out, "allreduce", sum);
    require(banyan_broadcast(in, out, kCount, BANYAN_INT8, 1, comm, nullptr));
    wrong += check(out, "broadcast", [](size_t i) { return value(1, i); });
    return wrong;
  };
  EXPECT_THAT(run_ranks(2, body), Each(""));
}

// Sums and products that would overflow are the dangerous ones.
TEST(Absurd, CountsBeyondAllMemoryAreRefusedAndSpoilNothing) {
  const auto body = [](banyan_comm_t comm, int rank) -> std::string {
    std::vector<double> values(64);
    for (size_t i = 0; i < values.size(); ++i) values[i] = (rank + 1) * static_cast<double>(i + 1);
    double* const data = values.data();
    std::string wrong;
    const auto expect_refusal = [&](const std::string& name, size_t count, banyan_result_t result) {
      const bool has_text = !std::string(banyan_last_error(comm)).empty();
      if (result == BANYAN_INVALID_ARGUMENT && has_text) return;
      wrong +=
          name + " of " + std::to_string(count) + ": " + banyan_result_text(result) + (has_text ? "; " : ", no text; ");
    };
    for (const size_t count : {SIZE_MAX, SIZE_MAX / 2 + 1, SIZE_MAX / 8 + 2, SIZE_MAX / 16 + 2}) {
      std::vector<testing::CallShape> shapes;
      for (const OperationKind kind :
           {OperationKind::all_reduce, OperationKind::broadcast, OperationKind::all_gather, OperationKind::all_to_all,
            OperationKind::all_gather_v, OperationKind::reduce_scatter_v, OperationKind::all_to_all_v}) {
        shapes.push_back({.kind = kind, .ranks = 2, .count = count, .parts = {count, count}});
      }
      shapes.push_back({.kind = OperationKind::all_gather_v, .ranks = 2, .parts = {0, count}});
      for (const testing::CallShape& shape : shapes) {
        const CallArguments of{.send = data, .recv = data, .type = BANYAN_FLOAT64};
        const std::string parts = shape.parts.front() == 0 ? " of one part" : "";
        expect_refusal(std::string(to_string(shape.kind)) + parts, count, make_call(shape, of, comm));
      }
      expect_refusal("send", count, banyan_send(data, count, BANYAN_FLOAT64, 1 - rank, comm, nullptr));
      const size_t ones[] = {1, 1}, displacements[] = {0, count};
      expect_refusal("displacements", count,
                     banyan_all_gather_v(data, data, ones, displacements, BANYAN_FLOAT64, comm, nullptr));
    }
    if (!wrong.empty()) return wrong;
    require(banyan_all_reduce(values.data(), values.data(), values.size(), BANYAN_FLOAT64, BANYAN_SUM, comm, nullptr));
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] != 3.0 * static_cast<double>(i + 1)) return std::to_string(values[i]) + " at " + std::to_string(i);
    }
    return "";
  };
  EXPECT_THAT(run_ranks(2, body), Each(""));
}

TEST(Absurd, MemoryThatNoMachineHasIsRefusedWithTheLimit) {
  for (const size_t bytes : {SIZE_MAX, SIZE_MAX - 4096, SIZE_MAX / 2 + 1, size_t{1} << 50}) {
    void* memory = &memory;
    EXPECT_EQ(banyan_mem_alloc(&memory, bytes), BANYAN_SYSTEM_ERROR) << bytes;
    EXPECT_EQ(memory, nullptr);
    EXPECT_THAT(banyan_last_error(nullptr), HasSubstr("memory"));
  }
}

}  // namespace
}  // namespace banyan::c
