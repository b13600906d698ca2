// Sums of sparse tables: on one host, by TCP, between hosts and by the service, as the environment says.

#include "banyan/testing/test.h"
#include "bindings/c/test_ranks.h"

namespace banyan::c {
namespace {

constexpr banyan_sparse_way_t kWays[] = {BANYAN_SPARSE_AUTO, BANYAN_SPARSE_DENSE, BANYAN_SPARSE_GATHER,
                                         BANYAN_SPARSE_SHARDS};

// Whole numbers: sums are exact. Some rows are there several times; a rank without any, and one with all, now and then.
struct Part {
  std::vector<int64_t> rows;
  std::vector<float> values;
};
Part part_of(int rank, size_t rows, size_t width, int step) {
  Part part;
  const size_t kind = (static_cast<size_t>(rank + step) + rows) % 4;
  const size_t count = kind == 0 ? 0 : kind == 1 ? rows : 1 + rows / 3;
  for (size_t i = 0; i < count; ++i) {
    const size_t row = kind == 1 ? rows - 1 - i : (i * i * 7 + static_cast<size_t>(rank)) % rows;
    part.rows.push_back(static_cast<int64_t>(row));
    for (size_t j = 0; j < width; ++j)
      part.values.push_back(static_cast<float>((row * 31 + i * 17 + j * 5 + static_cast<size_t>(rank) * 3) % 4001) -
                            2000);
  }
  return part;
}

using Sums = std::map<int64_t, std::vector<double>>;
void add(const Part& part, size_t width, Sums& sums) {
  for (size_t i = 0; i < part.rows.size(); ++i) {
    std::vector<double>& sum = sums[part.rows[i]];
    sum.resize(width);
    for (size_t j = 0; j < width; ++j) sum[j] += part.values[i * width + j];
  }
}

std::string outcome(banyan_result_t result, banyan_comm_t comm) {
  return result == BANYAN_SUCCESS ? "" : banyan_last_error(comm);
}

struct Table {
  size_t rows, width;
  banyan_type_t type;
  banyan_sparse_way_t way;
};
std::string name_of(const Table& table) {
  return std::to_string(table.rows) + " rows of " + std::to_string(table.width) + ", type " +
         std::to_string(table.type) + ", way " + std::to_string(table.way);
}

// The sums over all ranks; with a code, sums and what is kept against what was given and kept before.
std::string add_up(banyan_comm_t comm, int rank, int size, const Table& of) {
  banyan_sparse_t table = nullptr;
  std::string wrong = outcome(banyan_sparse_create(&table, of.rows, of.width, of.type, of.way, comm), comm);
  if (!wrong.empty()) return wrong;
  float* kept = nullptr;
  size_t kept_count = 0;
  banyan_sparse_residual(table, &kept, &kept_count);
  std::vector<double> mass(of.rows * of.width);
  for (int step = 0; step < 3 && wrong.empty(); ++step) {
    const Part own = part_of(rank, of.rows, of.width, step);
    Sums sums;
    for (int other = 0; other < size; ++other) add(part_of(other, of.rows, of.width, step), of.width, sums);
    std::fill(mass.begin(), mass.end(), 0);
    for (size_t i = 0; i < kept_count; ++i) mass[i] = kept[i];
    const int64_t* rows = nullptr;
    const float* values = nullptr;
    size_t count = 0;
    wrong = outcome(
        banyan_sparse_all_reduce(own.rows.data(), own.values.data(), own.rows.size(), table, &rows, &values, &count),
        comm);
    if (!wrong.empty()) break;
    for (size_t i = 0; i < kept_count; ++i) mass[i] -= kept[i];
    if (kept_count > 0) {
      wrong = outcome(
          banyan_all_reduce(mass.data(), mass.data(), mass.size(), BANYAN_FLOAT64, BANYAN_SUM, comm, nullptr), comm);
      if (!wrong.empty()) break;
    }
    if (count != sums.size()) return "other rows";
    for (size_t i = 0; i < count; ++i) {
      const auto sum = sums.find(rows[i]);
      if (sum == sums.end() || (i > 0 && rows[i] <= rows[i - 1])) return "row " + std::to_string(rows[i]);
      for (size_t j = 0; j < of.width; ++j) {
        const double due = sum->second[j] + mass[static_cast<size_t>(rows[i]) * of.width + j];
        const double allowed = kept_count == 0 ? 0 : std::ldexp(8000.0 * size, -20);
        if (std::abs(values[i * of.width + j] - due) > allowed)
          return "step " + std::to_string(step) + ", row " + std::to_string(rows[i]) + ": " +
                 std::to_string(values[i * of.width + j]) + ", not " + std::to_string(due);
      }
    }
    // Equal bits: the greatest and the least of them are the same.
    std::vector<int32_t> bits(count * of.width), most(bits.size()), least(bits.size());
    std::copy_n(reinterpret_cast<const int32_t*>(values), bits.size(), bits.data());
    banyan_all_reduce(bits.data(), most.data(), bits.size(), BANYAN_INT32, BANYAN_MAX, comm, nullptr);
    wrong = outcome(banyan_all_reduce(bits.data(), least.data(), bits.size(), BANYAN_INT32, BANYAN_MIN, comm, nullptr),
                    comm);
    if (wrong.empty() && most != least) wrong = "other bits elsewhere";
  }
  banyan_sparse_destroy(table);
  return wrong;
}

class SparseSums : public ::testing::TestWithParam<int> {
 protected:
  // Checks the sums of all tables with these rows, widths and types, in every way.
  static void expect_right(const std::vector<size_t>& rows, const std::vector<size_t>& widths,
                           const std::vector<banyan_type_t>& types) {
    std::vector<Table> tables;
    for (const banyan_type_t type : types) {
      for (const banyan_sparse_way_t way : kWays) {
        for (const size_t row_count : rows) {
          for (const size_t width : widths) tables.push_back({row_count, width, type, way});
        }
      }
    }
    const auto body = [&](banyan_comm_t comm, int rank) -> std::string {
      for (const Table& table : tables) {
        const std::string wrong = add_up(comm, rank, GetParam(), table);
        if (!wrong.empty()) return name_of(table) + ": " + wrong;
      }
      return "";
    };
    EXPECT_THAT(run_ranks(GetParam(), body), Each(""));
  }
};

TEST_P(SparseSums, AreThoseOfTheDenseTables) { expect_right({1, 2, 3, 7, 64, 1000}, {1, 3, 70}, {BANYAN_FLOAT32}); }

TEST_P(SparseSums, LoseNothingToCodes) {
  expect_right({1, 7, 300}, {5},
               {BANYAN_FLOAT32_AS_BFLOAT16, BANYAN_FLOAT32_AS_INT8, BANYAN_FLOAT32_AS_INT4_STOCHASTIC,
                BANYAN_FLOAT32_AS_MXFP8, BANYAN_FLOAT32_AS_SIGN});
}

INSTANTIATE_TEST_SUITE_P(Of, SparseSums, ::testing::Values(1, 2, 3, 5));

TEST(SparseTables, RefuseWhatCannotBe) {
  const auto body = [](banyan_comm_t comm, int) -> std::string {
    banyan_sparse_t table = nullptr;
    banyan_sparse_way_t no_way{};
    std::memset(&no_way, 9, sizeof no_way);
    if (banyan_sparse_create(&table, 0, 4, BANYAN_FLOAT32, BANYAN_SPARSE_AUTO, comm) != BANYAN_INVALID_ARGUMENT ||
        banyan_sparse_create(&table, size_t{1} << 32, 4, BANYAN_FLOAT32, BANYAN_SPARSE_AUTO, comm) !=
            BANYAN_INVALID_ARGUMENT ||
        banyan_sparse_create(&table, 4, 4, BANYAN_INT32, BANYAN_SPARSE_AUTO, comm) != BANYAN_INVALID_ARGUMENT ||
        banyan_sparse_create(&table, 4, 4, BANYAN_FLOAT32, no_way, comm) != BANYAN_INVALID_ARGUMENT ||
        banyan_sparse_create(&table, 4, 4, BANYAN_FLOAT32, BANYAN_SPARSE_AUTO, nullptr) != BANYAN_INVALID_ARGUMENT)
      return "made";
    if (banyan_sparse_create(&table, 4, 2, BANYAN_FLOAT32, BANYAN_SPARSE_AUTO, comm) != 0) return "not made";
    const int64_t row = 4;
    const float values[] = {1, 2};
    if (banyan_sparse_all_reduce(&row, values, 1, table, nullptr, nullptr, nullptr) != BANYAN_INVALID_ARGUMENT)
      return "row 4";
    const std::string said = banyan_last_error(comm);
    if (banyan_sparse_all_reduce(nullptr, values, 1, table, nullptr, nullptr, nullptr) != BANYAN_INVALID_ARGUMENT)
      return "null";
    banyan_sparse_destroy(table);
    banyan_sparse_destroy(nullptr);
    return said;
  };
  EXPECT_THAT(run_ranks(2, body), Each(HasSubstr("entry 0 of the list is row 4; the table has rows 0 to 3")));
}

TEST(SparseTables, AreToldWhoseArgumentsWereWrongAndGoOn) {
  const auto body = [](banyan_comm_t comm, int rank) -> std::string {
    banyan_sparse_t table = nullptr;
    banyan_sparse_create(&table, 4, 1, BANYAN_FLOAT32, BANYAN_SPARSE_AUTO, comm);
    const float value = 2;
    const int64_t good = 1, outside = -1;
    for (const int64_t* wrong : {static_cast<const int64_t*>(nullptr), &outside}) {
      const banyan_result_t result =
          banyan_sparse_all_reduce(rank == 1 ? wrong : &good, &value, 1, table, nullptr, nullptr, nullptr);
      const std::string said = banyan_last_error(comm);
      if (result != (rank == 1 ? BANYAN_INVALID_ARGUMENT : BANYAN_MISMATCH)) return said;
      if (rank != 1 && said.find("rank 1: has refused") == std::string::npos) return said;
    }
    const int64_t row = 3;
    const int64_t* rows = nullptr;
    const float* sums = nullptr;
    size_t count = 0;
    const banyan_result_t result = banyan_sparse_all_reduce(&row, &value, 1, table, &rows, &sums, &count);
    const bool is_right = result == 0 && count == 1 && rows[0] == 3 && sums[0] == 6;
    banyan_sparse_destroy(table);
    return is_right ? "" : "then wrong";
  };
  EXPECT_THAT(run_ranks(3, body), Each(""));
}

TEST(SparseTables, ThatDifferAreNamed) {
  const auto body = [](banyan_comm_t comm, int rank) -> std::string {
    banyan_sparse_t table = nullptr;
    banyan_sparse_create(&table, 4, rank == 1 ? 3 : 2, BANYAN_FLOAT32, BANYAN_SPARSE_AUTO, comm);
    const int64_t row = 0;
    const float values[] = {1, 2, 3};
    const banyan_result_t result = banyan_sparse_all_reduce(&row, values, 1, table, nullptr, nullptr, nullptr);
    banyan_sparse_destroy(table);
    return result == BANYAN_MISMATCH ? banyan_last_error(comm) : "result " + std::to_string(result);
  };
  EXPECT_THAT(run_ranks(2, body), Each(HasSubstr("calls a sparse allreduce with width")));
}

}  // namespace
}  // namespace banyan::c
