// Collectives whose elements go in a code: what they lose is kept, and all ranks end with the same bits.

#include "banyan/base/file.h"
#include "banyan/codec/wire_type.h"
#include "banyan/testing/test.h"
#include "bindings/c/test_ranks.h"

namespace banyan::c {
namespace {

constexpr const char* kCodes[] = {"bfloat16", "float16",         "fp8",  "fp8:stochastic",  "mxfp8",
                                  "int8",     "int8:stochastic", "int4", "int4:stochastic", "mxfp4",
                                  "sign"};

banyan_type_t type_named(const char* codec) {
  banyan_type_t type{};
  EXPECT_EQ(banyan_coded_type(codec, &type), BANYAN_SUCCESS) << banyan_last_error(nullptr);
  return type;
}

// Large and small values side by side, and blocks of nothing; another in each step.
float sample(int rank, size_t at, int step) {
  if (at / 256 % 3 == 1) return 0;
  const uint64_t mixed = (at * 2654435761U + static_cast<uint64_t>(rank) * 40503U + static_cast<uint64_t>(step)) % 2003;
  return (static_cast<float>(mixed) - 1001) * (at % 97 == 0 ? 8.0F : 0.015625F);
}

// Empty when all ranks have the same bits.
std::string difference(const std::vector<float>& values, banyan_comm_t comm) {
  std::vector<float> of_first = values;
  if (banyan_broadcast(of_first.data(), of_first.data(), values.size(), BANYAN_FLOAT32, 0, comm, nullptr) != 0)
    return banyan_last_error(comm);
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::memcmp(&values[i], &of_first[i], sizeof(float)) != 0)
      return "at " + std::to_string(i) + " is " + std::to_string(values[i]) + ", at rank 0 " +
             std::to_string(of_first[i]);
  }
  return "";
}

std::string sums_in_steps(banyan_comm_t comm, int rank, int size, const char* codec, banyan_op_kind_t kind,
                          size_t count) {
  banyan_residual_t residual = nullptr;
  banyan_op_t op = 0;
  if (banyan_residual_create(&residual, count) != BANYAN_SUCCESS) return banyan_last_error(nullptr);
  if (banyan_op_create_feedback(&op, kind, residual, comm) != BANYAN_SUCCESS) return banyan_last_error(comm);
  std::vector<float> values(count);
  std::vector<double> mass(count);
  for (int step = 0; step < 3; ++step) {
    float* kept = nullptr;
    if (banyan_residual_values(residual, &kept, nullptr) != BANYAN_SUCCESS) return banyan_last_error(nullptr);
    for (size_t i = 0; i < count; ++i) {
      values[i] = sample(rank, i, step);
      mass[i] = double{values[i]} + double{kept[i]};
    }
    if (banyan_all_reduce(values.data(), values.data(), count, type_named(codec), op, comm, nullptr) != BANYAN_SUCCESS)
      return banyan_last_error(comm);
    if (const std::string differs = difference(values, comm); !differs.empty()) return differs;
    if (banyan_residual_values(residual, &kept, nullptr) != BANYAN_SUCCESS) return banyan_last_error(nullptr);
    for (size_t i = 0; i < count; ++i) mass[i] -= double{kept[i]};
    if (banyan_all_reduce(mass.data(), mass.data(), count, BANYAN_FLOAT64, BANYAN_SUM, comm, nullptr) != BANYAN_SUCCESS)
      return banyan_last_error(comm);
    for (size_t i = 0; i < count; ++i) {
      const double result = double{values[i]} * (kind == BANYAN_AVG ? size : 1);
      const double largest = 8008.0 * size;
      if (std::abs(result - mass[i]) > std::ldexp(largest, -21))
        return std::string(codec) + ", step " + std::to_string(step) + ": " + std::to_string(result) + " at " +
               std::to_string(i) + ", not " + std::to_string(mass[i]);
    }
  }
  if (banyan_op_destroy(op, comm) != BANYAN_SUCCESS) return "destroy";
  return banyan_residual_destroy(residual) == BANYAN_SUCCESS ? "" : banyan_last_error(nullptr);
}

class Codes : public ::testing::TestWithParam<int> {};

TEST_P(Codes, LoseNothingThatIsNotKept) {
  const int size = GetParam();
  const auto body = [&](banyan_comm_t comm, int rank) -> std::string {
    for (const char* codec : kCodes) {
      for (const size_t count : {0, 1, 31, 32, 33, 255, 256, 257, 10007}) {
        const banyan_op_kind_t kind = count % 2 == 0 ? BANYAN_AVG : BANYAN_SUM;
        const std::string wrong = sums_in_steps(comm, rank, size, codec, kind, count);
        if (!wrong.empty()) return std::to_string(count) + " values: " + wrong;
      }
    }
    return "";
  };
  EXPECT_THAT(run_ranks(size, body), Each(""));
}

INSTANTIATE_TEST_SUITE_P(Ranks, Codes, ::testing::Range(1, 10));

TEST(Codes, AreForAllCollectives) {
  constexpr size_t kCount = 3000;
  constexpr int kSize = 3;
  const auto body = [](banyan_comm_t comm, int rank) -> std::string {
    const banyan_type_t type = BANYAN_FLOAT32_AS_INT8;
    std::vector<float> own(kCount * kSize), all(kCount * kSize);
    for (size_t i = 0; i < own.size(); ++i) own[i] = sample(rank, i, 0);
    // An error of half a step of 1/127 of the largest value of a block, for each rank that encodes.
    const auto is_near = [](double value, double due, double terms) { return std::abs(value - due) <= 40 * terms; };
    const auto check = [&](banyan_result_t result, const char* name) {
      return result == BANYAN_SUCCESS ? std::string() : std::string(name) + ": " + banyan_last_error(comm);
    };

    std::string wrong = check(banyan_all_gather(own.data(), all.data(), kCount, type, comm, nullptr), "all_gather");
    if (!wrong.empty()) return wrong;
    if (wrong = difference(all, comm); !wrong.empty()) return "all_gather: " + wrong;
    for (size_t i = 0; i < all.size(); ++i) {
      if (!is_near(all[i], sample(static_cast<int>(i / kCount), i % kCount, 0), 1)) return "all_gather";
    }

    all = own;
    wrong = check(banyan_broadcast(all.data(), all.data(), kCount, type, 1, comm, nullptr), "broadcast");
    if (!wrong.empty()) return wrong;
    if (wrong = difference({all.begin(), all.begin() + kCount}, comm); !wrong.empty()) return "broadcast: " + wrong;
    for (size_t i = 0; i < kCount; ++i) {
      if (!is_near(all[i], sample(1, i, 0), 1)) return "broadcast";
    }

    std::vector<float> part(kCount);
    wrong = check(banyan_reduce_scatter(own.data(), part.data(), kCount, type, BANYAN_AVG, comm, nullptr),
                  "reduce_scatter");
    if (!wrong.empty()) return wrong;
    for (size_t i = 0; i < kCount; ++i) {
      double due = 0;
      for (int r = 0; r < kSize; ++r) due += sample(r, static_cast<size_t>(rank) * kCount + i, 0);
      if (!is_near(part[i], due / kSize, kSize)) return "reduce_scatter";
    }

    wrong = check(banyan_reduce(own.data(), all.data(), kCount, type, BANYAN_SUM, 2, comm, nullptr), "reduce");
    if (!wrong.empty()) return wrong;
    wrong = check(banyan_all_to_all(own.data(), all.data(), kCount, type, comm, nullptr), "all_to_all");
    if (!wrong.empty()) return wrong;
    for (size_t i = 0; i < all.size(); ++i) {
      const size_t at = static_cast<size_t>(rank) * kCount + i % kCount;
      if (!is_near(all[i], sample(static_cast<int>(i / kCount), at, 0), 1)) return "all_to_all";
    }
    return "";
  };
  EXPECT_THAT(run_ranks(kSize, body), Each(""));
}

// What is not finite makes its block NaN on all ranks, and must not come back in the next step.
TEST(Codes, TellOfWhatIsNotFiniteAndForgetIt) {
  const auto body = [](banyan_comm_t comm, int rank) -> std::string {
    for (const char* codec : kCodes) {
      constexpr size_t kCount = 1000;
      banyan_residual_t residual = nullptr;
      banyan_op_t op = 0;
      if (banyan_residual_create(&residual, kCount) != BANYAN_SUCCESS) return banyan_last_error(nullptr);
      if (banyan_op_create_feedback(&op, BANYAN_SUM, residual, comm) != BANYAN_SUCCESS) return banyan_last_error(comm);
      for (const bool is_spoilt : {true, false}) {
        std::vector<float> values(kCount);
        for (size_t i = 0; i < kCount; ++i) values[i] = sample(rank, i, 1);
        if (is_spoilt && rank == 1) values[300] = NAN, values[700] = INFINITY;
        if (banyan_all_reduce(values.data(), values.data(), kCount, type_named(codec), op, comm, nullptr) != 0)
          return banyan_last_error(comm);
        if (const std::string differs = difference(values, comm); !differs.empty() && !is_spoilt) return differs;
        if (is_spoilt && (std::isfinite(values[300]) || std::isfinite(values[700])))
          return std::string(codec) + " hides what is not finite";
        if (!std::all_of(values.begin(), values.begin() + 256, [](float each) { return std::isfinite(each); }))
          return std::string(codec) + " spoils other blocks";
        if (!is_spoilt && !std::all_of(values.begin(), values.end(), [](float each) { return std::isfinite(each); }))
          return std::string(codec) + " keeps what is not finite";
      }
      if (banyan_op_destroy(op, comm) != BANYAN_SUCCESS) return "destroy";
      banyan_residual_destroy(residual);
    }
    return "";
  };
  EXPECT_THAT(run_ranks(2, body), Each(""));
}

// Where one rank made the sum NaN nothing was added: all ranks keep what they kept, those with finite values, too.
TEST(Codes, KeepTheResidualOfAllRanksWhereTheResultIsNotFinite) {
  const auto body = [](banyan_comm_t comm, int rank) -> std::string {
    for (const bool is_blocking : {true, false}) {
      constexpr size_t kCount = 1000;
      banyan_residual_t residual = nullptr;
      banyan_op_t op = 0;
      if (banyan_residual_create(&residual, kCount) != BANYAN_SUCCESS) return banyan_last_error(nullptr);
      if (banyan_op_create_feedback(&op, BANYAN_SUM, residual, comm) != BANYAN_SUCCESS) return banyan_last_error(comm);
      float* kept = nullptr;
      banyan_residual_values(residual, &kept, nullptr);
      for (size_t i = 0; i < kCount; ++i) kept[i] = sample(rank, i, 5) + 1;
      const std::vector<float> before(kept, kept + kCount);
      std::vector<float> values(kCount);
      for (size_t i = 0; i < kCount; ++i) values[i] = sample(rank, i, 1);
      if (rank == 1) values[300] = NAN;
      banyan_request_t request = nullptr;
      if (banyan_all_reduce(values.data(), values.data(), kCount, BANYAN_FLOAT32_AS_INT8, op, comm,
                            is_blocking ? nullptr : &request) != BANYAN_SUCCESS ||
          banyan_wait(&request) != BANYAN_SUCCESS)
        return banyan_last_error(comm);
      if (!std::isnan(values[300])) return "hidden";
      banyan_residual_values(residual, &kept, nullptr);
      for (size_t i = 0; i < kCount; ++i) {
        if (!std::isfinite(values[i]) && std::memcmp(kept + i, &before[i], sizeof(float)) != 0)
          return std::to_string(i) + " keeps " + std::to_string(kept[i]) + ", not " + std::to_string(before[i]);
      }
      banyan_op_destroy(op, comm);
      if (banyan_residual_destroy(residual) != BANYAN_SUCCESS) return banyan_last_error(nullptr);
    }
    return "";
  };
  EXPECT_THAT(run_ranks(3, body), Each(""));
}

TEST(Codes, AreRefusedWhereTheyMeanNothing) {
  banyan_type_t type{};
  EXPECT_EQ(banyan_coded_type("int9", &type), BANYAN_INVALID_ARGUMENT);
  EXPECT_THAT(banyan_last_error(nullptr), HasSubstr("int8"));
  EXPECT_EQ(banyan_coded_type("int8", &type), BANYAN_SUCCESS);
  EXPECT_EQ(type, BANYAN_FLOAT32_AS_INT8);
  EXPECT_EQ(banyan_type_size(type), sizeof(float));
  const auto body = [](banyan_comm_t comm, int) -> std::string {
    std::vector<float> values(10);
    float* const data = values.data();
    banyan_residual_t residual = nullptr;
    banyan_op_t op = 0;
    banyan_residual_create(&residual, 9);
    if (banyan_op_create_feedback(&op, BANYAN_MAX, residual, comm) != BANYAN_INVALID_ARGUMENT) return "a maximum";
    if (banyan_op_create_feedback(&op, BANYAN_SUM, residual, comm) != BANYAN_SUCCESS) return banyan_last_error(comm);
    const auto refusal = [&](banyan_type_t of, banyan_op_t by) -> std::string {
      if (banyan_all_reduce(data, data, 10, of, by, comm, nullptr) != BANYAN_INVALID_ARGUMENT) return "not refused";
      return banyan_last_error(comm);
    };
    std::string said = refusal(BANYAN_FLOAT32_AS_INT8, BANYAN_MAX);
    if (said != "allreduce: max is not for codes; they are summed or averaged") return said;
    said = refusal(BANYAN_FLOAT32_AS_INT8, op);
    if (said != "allreduce: the residual has 9 elements, the send buffer 10") return said;
    said = refusal(BANYAN_FLOAT32, op);
    if (said != "allreduce: a residual is of a coded type, such as float32 as int8; this one is not") return said;
    if (banyan_send(data, 10, BANYAN_FLOAT32_AS_INT8, 0, comm, nullptr) != BANYAN_INVALID_ARGUMENT) return "a message";
    said = banyan_last_error(comm);
    if (said != "send: it has no codes; int8 was given") return said;
    banyan_op_destroy(op, comm);
    return banyan_residual_destroy(residual) == BANYAN_SUCCESS ? "" : banyan_last_error(nullptr);
  };
  EXPECT_THAT(run_ranks(1, body), Each(""));
}

TEST(Codes, HaveResidualsForOneCallAtATime) {
  std::atomic<int>& refused = shared_counter();
  const auto body = [&](banyan_comm_t comm, int rank) -> std::string {
    std::vector<float> values(100000, static_cast<float>(rank)), others = values;
    banyan_residual_t residual = nullptr;
    banyan_op_t op = 0;
    banyan_residual_create(&residual, values.size());
    if (banyan_op_create_feedback(&op, BANYAN_SUM, residual, comm) != BANYAN_SUCCESS) return banyan_last_error(comm);
    const auto sum = [&](std::vector<float>& of, banyan_request_t* request) {
      return banyan_all_reduce(of.data(), of.data(), of.size(), BANYAN_FLOAT32_AS_INT8, op, comm, request);
    };
    banyan_request_t request = nullptr;
    float* kept = nullptr;
    // Rank 1 comes later: until then the call of rank 0 is under way.
    if (rank == 0) {
      if (sum(values, &request) != BANYAN_SUCCESS) return banyan_last_error(comm);
      if (sum(others, nullptr) != BANYAN_INVALID_USAGE) return "a second call";
      if (banyan_residual_values(residual, &kept, nullptr) != BANYAN_INVALID_USAGE) return "values";
      if (banyan_residual_destroy(residual) != BANYAN_INVALID_USAGE) return "destroyed";
      ++refused;
    } else {
      wait_until(refused, 1);
      if (sum(values, &request) != BANYAN_SUCCESS) return banyan_last_error(comm);
    }
    if (banyan_wait(&request) != BANYAN_SUCCESS) return banyan_last_error(comm);
    if (sum(others, nullptr) != BANYAN_SUCCESS) return banyan_last_error(comm);
    banyan_op_destroy(op, comm);
    return banyan_residual_destroy(residual) == BANYAN_SUCCESS ? "" : banyan_last_error(nullptr);
  };
  EXPECT_THAT(run_ranks(2, body), Each(""));
}

// Ranks that have waited for 1 s compare what they called, also through daemons; so rank 2 is late.
TEST(Codes, ThatDifferBetweenRanksAreNamed) {
  const auto body = [](banyan_comm_t comm, int rank) -> std::string {
    std::vector<float> values(10);
    const banyan_type_t type = rank == 0 ? BANYAN_FLOAT32_AS_INT8 : BANYAN_FLOAT32_AS_INT4;
    if (rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    const banyan_result_t result = banyan_all_reduce(values.data(), values.data(), 10, type, BANYAN_SUM, comm, nullptr);
    // The service sends float32 as it is.
    if (std::getenv("BANYAN_TEST_SERVICE") != nullptr) return result == BANYAN_SUCCESS ? "" : banyan_last_error(comm);
    if (result != BANYAN_MISMATCH) return "not noticed";
    const std::string said = banyan_last_error(comm);
    const bool names_both = said.find("10 float32 as int8 sum") != std::string::npos &&
                            said.find("10 float32 as int4 sum") != std::string::npos;
    return names_both && said.find("the types differ") != std::string::npos ? "" : said;
  };
  EXPECT_THAT(run_ranks(3, body), Each(""));
}

// banyan.h is C, and has the numbers once more.
TEST(Codes, HaveTheirNumbersInTheHeader) {
  const std::string header = read_file(BANYAN_HEADER);
  size_t found = 0;
  for (uint8_t number = element::kDataTypes; number < codec::WireType::kCount; ++number) {
    if (!codec::WireType::is_known(number)) continue;
    std::string name = to_string(*codec::WireType::of_number(number).codec());
    for (char& each : name)
      each = each == ':' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(each)));
    const std::string line = "BANYAN_FLOAT32_AS_" + name + " = " + std::to_string(number);
    EXPECT_THAT(header, ::testing::ContainsRegex(line + "[,\n]"));
    ++found;
  }
  EXPECT_EQ(found, 13u);
}

}  // namespace
}  // namespace banyan::c
