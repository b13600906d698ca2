// Collectives whose elements go in a code: what they lose is kept, and all ranks end with the same bits.

#include "banyan/base/file.h"
#include "banyan/codec/wire_type.h"
#include "banyan/testing/test.h"
#include "bindings/c/test_calls.h"
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
  require(banyan_broadcast(of_first.data(), of_first.data(), values.size(), BANYAN_FLOAT32, 0, comm, nullptr));
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::memcmp(&values[i], &of_first[i], sizeof(float)) != 0)
      return "at " + std::to_string(i) + " is " + std::to_string(values[i]) + ", at rank 0 " +
             std::to_string(of_first[i]);
  }
  return "";
}

// A sum or an average that keeps in a residual what its code loses.
struct Feedback {
  Feedback(banyan_op_kind_t kind, size_t count, banyan_comm_t of) : comm(of) {
    require(banyan_residual_create(&residual, count));
    require(banyan_op_create_feedback(&op, kind, residual, comm));
  }
  // Between two calls.
  std::span<float> kept() const {
    float* values = nullptr;
    size_t count = 0;
    require(banyan_residual_values(residual, &values, &count));
    return {values, count};
  }
  void end() const {
    require(banyan_op_destroy(op, comm));
    require(banyan_residual_destroy(residual));
  }

  const banyan_comm_t comm;
  banyan_residual_t residual = nullptr;
  banyan_op_t op = 0;
};

// The sums of three steps hold all that was sent and kept, but for what is kept then.
std::string sums_in_steps(banyan_comm_t comm, int rank, const char* codec, size_t count) {
  int size = 0;
  banyan_comm_count(comm, &size);
  const banyan_op_kind_t kind = count % 2 == 0 ? BANYAN_AVG : BANYAN_SUM;
  const Feedback sum(kind, count, comm);
  std::vector<float> values(count);
  std::vector<double> mass(count);
  for (int step = 0; step < 3; ++step) {
    for (size_t i = 0; i < count; ++i) {
      values[i] = sample(rank, i, step);
      mass[i] = double{values[i]} + double{sum.kept()[i]};
    }
    require(banyan_all_reduce(values.data(), values.data(), count, type_named(codec), sum.op, comm, nullptr));
    if (const std::string differs = difference(values, comm); !differs.empty()) return differs;
    for (size_t i = 0; i < count; ++i) mass[i] -= double{sum.kept()[i]};
    require(banyan_all_reduce(mass.data(), mass.data(), count, BANYAN_FLOAT64, BANYAN_SUM, comm, nullptr));
    for (size_t i = 0; i < count; ++i) {
      const double result = double{values[i]} * (kind == BANYAN_AVG ? size : 1);
      const double largest = 8008.0 * size;
      if (std::abs(result - mass[i]) > std::ldexp(largest, -21))
        return std::string(codec) + ", step " + std::to_string(step) + ": " + std::to_string(result) + " at " +
               std::to_string(i) + ", not " + std::to_string(mass[i]);
    }
  }
  sum.end();
  return "";
}

class Codes : public ::testing::TestWithParam<int> {};

TEST_P(Codes, LoseNothingThatIsNotKept) {
  const auto body = [&](banyan_comm_t comm, int rank) -> std::string {
    for (const char* codec : kCodes) {
      for (const size_t count : {0, 1, 31, 32, 33, 255, 256, 257, 10007}) {
        const std::string wrong = sums_in_steps(comm, rank, codec, count);
        if (!wrong.empty()) return std::to_string(count) + " values: " + wrong;
      }
    }
    return "";
  };
  EXPECT_THAT(run_ranks(GetParam(), body), Each(""));
}

INSTANTIATE_TEST_SUITE_P(Ranks, Codes, ::testing::Range(1, 10));

TEST(Codes, AreForAllCollectives) {
  using run::OperationKind;
  constexpr int kSize = 3;
  // Half a step of 1/127 of the largest value of a block, for each rank that encodes; and sums are as large as theirs.
  constexpr double kOfOne = 40, kOfSums = kOfOne * kSize * (kSize + 1) / 2;
  const auto body = [&](banyan_comm_t comm, int rank) -> std::string {
    const auto own = static_cast<uint32_t>(rank);
    for (const OperationKind kind : {OperationKind::all_gather, OperationKind::broadcast, OperationKind::reduce_scatter,
                                     OperationKind::reduce, OperationKind::all_to_all}) {
      const testing::CallShape shape{.kind = kind, .ranks = kSize, .count = 3000, .root = 1};
      std::vector<float> sent(shape.sent(own)), received(shape.received(own));
      for (size_t i = 0; i < sent.size(); ++i) sent[i] = sample(rank, i, 0);
      require(make_call(shape, {.send = sent.data(), .recv = received.data(), .type = BANYAN_FLOAT32_AS_INT8}, comm));
      const bool is_alike = kind == OperationKind::all_gather || kind == OperationKind::broadcast;
      std::string wrong = is_alike ? difference(received, comm) : "";
      for (const testing::CallShape::Piece& piece : shape.pieces(own)) {
        for (size_t i = 0; i < piece.count; ++i) {
          double due = 0;
          for (int from = 0; from < kSize; ++from) {
            if (!piece.from || static_cast<int>(*piece.from) == from) due += sample(from, piece.there + i, 0);
          }
          if (std::abs(received[piece.here + i] - due) > (piece.from ? kOfOne : kOfSums)) wrong += "not near;";
        }
      }
      if (!wrong.empty()) return std::string(to_string(kind)) + ": " + wrong;
    }
    return "";
  };
  EXPECT_THAT(run_ranks(kSize, body), Each(""));
}

// What is not finite makes its block NaN on all ranks, and must not come back in the next step.
TEST(Codes, TellOfWhatIsNotFiniteAndForgetIt) {
  const auto body = [](banyan_comm_t comm, int rank) -> std::string {
    for (const char* codec : kCodes) {
      const Feedback sum(BANYAN_SUM, 1000, comm);
      for (const bool is_spoilt : {true, false}) {
        std::vector<float> values(1000);
        for (size_t i = 0; i < values.size(); ++i) values[i] = sample(rank, i, 1);
        if (is_spoilt && rank == 1) values[300] = NAN, values[700] = INFINITY;
        require(banyan_all_reduce(values.data(), values.data(), 1000, type_named(codec), sum.op, comm, nullptr));
        if (const std::string differs = difference(values, comm); !differs.empty() && !is_spoilt) return differs;
        if (is_spoilt && (std::isfinite(values[300]) || std::isfinite(values[700])))
          return std::string(codec) + " hides what is not finite";
        if (!std::all_of(values.begin(), values.begin() + 256, [](float each) { return std::isfinite(each); }))
          return std::string(codec) + " spoils other blocks";
        if (!is_spoilt && !std::all_of(values.begin(), values.end(), [](float each) { return std::isfinite(each); }))
          return std::string(codec) + " keeps what is not finite";
      }
      sum.end();
    }
    return "";
  };
  EXPECT_THAT(run_ranks(2, body), Each(""));
}

// Where one rank made the sum NaN nothing was added: all ranks keep what they kept, those with finite values, too.
TEST(Codes, KeepTheResidualOfAllRanksWhereTheResultIsNotFinite) {
  const auto body = [](banyan_comm_t comm, int rank) -> std::string {
    for (const bool is_blocking : {true, false}) {
      const Feedback sum(BANYAN_SUM, 1000, comm);
      std::vector<float> values(1000);
      for (size_t i = 0; i < values.size(); ++i) sum.kept()[i] = sample(rank, i, 5) + 1;
      const std::vector<float> before(sum.kept().begin(), sum.kept().end());
      for (size_t i = 0; i < values.size(); ++i) values[i] = sample(rank, i, 1);
      if (rank == 1) values[300] = NAN;
      banyan_request_t request = nullptr;
      require(banyan_all_reduce(values.data(), values.data(), values.size(), BANYAN_FLOAT32_AS_INT8, sum.op, comm,
                                is_blocking ? nullptr : &request));
      require(banyan_wait(&request));
      if (!std::isnan(values[300])) return "hidden";
      for (size_t i = 0; i < values.size(); ++i) {
        if (!std::isfinite(values[i]) && std::memcmp(&sum.kept()[i], &before[i], sizeof(float)) != 0)
          return std::to_string(i) + " keeps " + std::to_string(sum.kept()[i]) + ", not " + std::to_string(before[i]);
      }
      sum.end();
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
    require(banyan_op_create_feedback(&op, BANYAN_SUM, residual, comm));
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
    const Feedback feedback(BANYAN_SUM, values.size(), comm);
    const auto sum = [&](std::vector<float>& of, banyan_request_t* request) {
      return banyan_all_reduce(of.data(), of.data(), of.size(), BANYAN_FLOAT32_AS_INT8, feedback.op, comm, request);
    };
    banyan_request_t request = nullptr;
    float* kept = nullptr;
    // Rank 1 comes later: until then the call of rank 0 is under way.
    if (rank == 1) wait_until(refused, 1);
    require(sum(values, &request));
    if (rank == 0) {
      if (sum(others, nullptr) != BANYAN_INVALID_USAGE) return "a second call";
      if (banyan_residual_values(feedback.residual, &kept, nullptr) != BANYAN_INVALID_USAGE) return "values";
      if (banyan_residual_destroy(feedback.residual) != BANYAN_INVALID_USAGE) return "destroyed";
      ++refused;
    }
    require(banyan_wait(&request));
    require(sum(others, nullptr));
    feedback.end();
    return "";
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
