// Ranks that call different things, in one communicator or crosswise in two: all are told what differs, and nobody
// hangs.
#include <stdio.h>
#include <sys/wait.h>

#include "banyan/base/check.h"
#include "banyan/testing/test.h"
#include "bindings/c/test_calls.h"
#include "bindings/c/test_ranks.h"

namespace banyan::c {
namespace {

// ---- One communicator ----

// Large enough for every call here.
std::array<std::byte, 1 << 16> send_buffer, recv_buffer;

// What one rank calls.
struct Wish {
  testing::CallShape shape;
  banyan_type_t type = BANYAN_INT32;
  banyan_op_t op = BANYAN_SUM;

  banyan_result_t make(banyan_comm_t comm) const {
    return make_call(shape, {.send = send_buffer.data(), .recv = recv_buffer.data(), .type = type, .op = op}, comm);
  }
};
struct Disagreement {
  const char* name;
  Wish odd, others;                // of one rank, and of the others
  std::vector<const char*> words;  // of the message
};

// Who has done its part before it could know learns of it by the next call for all.
std::string words_of_mismatch(banyan_comm_t comm, banyan_result_t result) {
  if (result == BANYAN_SUCCESS) result = banyan_barrier(comm, nullptr);
  if (result == BANYAN_SUCCESS) return "not noticed";
  banyan_result_t error = BANYAN_SUCCESS;
  banyan_comm_get_async_error(comm, &error);
  if (error != result || banyan_barrier(comm, nullptr) != result) return "went on";
  return std::string(result == BANYAN_MISMATCH ? "" : "another error: ") + banyan_last_error(comm);
}

std::vector<Disagreement> disagreements() {
  using run::OperationKind;
  const testing::CallShape sum{.count = 8};
  const auto from = [](uint32_t root) { return Wish{{.kind = OperationKind::broadcast, .count = 8, .root = root}}; };
  const auto to = [](uint32_t root) { return Wish{{.kind = OperationKind::reduce, .count = 2000, .root = root}}; };
  const auto each = [](OperationKind kind, uint64_t count) { return Wish{{.kind = kind, .count = count}}; };
  const auto parts = [](OperationKind kind, std::vector<uint64_t> of) { return Wish{{.kind = kind, .parts = of}}; };
  return {{"kind", from(0), {sum}, {"broadcast #1", "allreduce #1"}},
          {"barrier",
           {{.kind = OperationKind::barrier}},
           each(OperationKind::all_gather, 8),
           {"barrier #1", "allgather #1"}},
          {"type", {sum, BANYAN_UINT32}, {sum}, {"8 uint32 sum", "8 int32 sum", "the types differ"}},
          {"op",
           {sum, BANYAN_INT32, BANYAN_MAX},
           {sum, BANYAN_INT32, BANYAN_MIN},
           {"8 int32 max", "8 int32 min", "differ"}},
          {"root", from(1), from(0), {"from rank 1", "from rank 0", "the roots differ"}},
          {"root of a reduction", to(2), to(0), {"to rank 2", "to rank 0", "the roots differ"}},
          {"count",
           each(OperationKind::all_to_all, 300),
           each(OperationKind::all_to_all, 301),
           {"300 int32", "301 int32", "the counts differ"}},
          {"no count", {{.count = 0}}, {{.count = 1}}, {"0 int32", "1 int32", "the counts differ"}},
          {"counts of allgatherv",
           parts(OperationKind::all_gather_v, {5, 7, 6}),
           parts(OperationKind::all_gather_v, {5, 6, 7}),
           {"allgatherv #1 of 18 int32", "the counts of the ranks differ"}},
          {"counts of reduce_scatterv",
           parts(OperationKind::reduce_scatter_v, {5, 7, 6}),
           parts(OperationKind::reduce_scatter_v, {5, 6, 7}),
           {"reduce-scatterv #1 of 18 int32 sum", "the counts of the ranks differ"}}};
}

// Long before the timeout, even where the ranks wait for each other and no byte moves.
TEST(Mismatch, OfEveryFieldIsNamed) {
  banyan_config_t config = BANYAN_CONFIG_INIT;
  config.timeout = 100;
  for (const Disagreement& disagreement : disagreements()) {
    for (const int odd : {0, 1, 2}) {
      const auto begin = std::chrono::steady_clock::now();
      const auto reports = run_ranks(
          3,
          [&](banyan_comm_t comm, int rank) -> std::string {
            return words_of_mismatch(comm, (rank == odd ? disagreement.odd : disagreement.others).make(comm));
          },
          &config);
      for (const char* const words : disagreement.words) {
        EXPECT_THAT(reports, Each(HasSubstr(words))) << disagreement.name << ", rank " << odd;
      }
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(50)) << disagreement.name;
    }
  }
}

// What rank 0 sends is not as long as rank 1 expects it: shorter, longer, or not expected at all.
TEST(Mismatch, OfTheCountsOfAnAllToAllVIsNamed) {
  struct Case {
    size_t sent, expected;
  };
  for (const Case& counts : {Case{4, 5}, Case{4, 3004}, Case{4, 0}, Case{3000, 0}, Case{0, 4}}) {
    const auto reports = run_ranks(2, [&counts](banyan_comm_t comm, int rank) -> std::string {
      const std::vector<size_t> to{4, rank == 0 ? counts.sent : 4}, from{rank == 1 ? counts.expected : 4, 4};
      const banyan_result_t result = banyan_all_to_all_v(send_buffer.data(), to.data(), nullptr, recv_buffer.data(),
                                                         from.data(), nullptr, BANYAN_INT32, comm, nullptr);
      return words_of_mismatch(comm, result);
    });
    // In elements over connections, in bytes through shared memory.
    const auto is_told = ::testing::ContainsRegex("rank 0 sends [0-9]+ .*rank 1.* expects [0-9]+");
    EXPECT_THAT(reports, Each(is_told)) << counts.sent << " and " << counts.expected;
  }
}

// In a message that the sender is done with at once, and in one that waits for its receive.
TEST(Mismatch, OfTheTypesOfAMessageIsNamedOnBothRanks) {
  for (const size_t count : {size_t{1}, send_buffer.size() / 4}) {
    const auto reports = run_ranks(2, [&](banyan_comm_t comm, int rank) -> std::string {
      banyan_result_t error = rank == 0 ? banyan_send(send_buffer.data(), count, BANYAN_FLOAT32, 1, comm, nullptr)
                                        : banyan_recv(recv_buffer.data(), count, BANYAN_INT32, 0, comm, nullptr);
      if (rank == 1 && error == BANYAN_SUCCESS) return "not noticed";
      while (error == BANYAN_SUCCESS) banyan_comm_get_async_error(comm, &error);
      return error == BANYAN_MISMATCH ? banyan_last_error(comm) : std::string("another: ") + banyan_last_error(comm);
    });
    const std::string number = std::to_string(count);
    EXPECT_THAT(reports, Each(HasSubstr("rank 0 sends " + number + " float32 where this rank, 1, receives " + number +
                                        " int32 (tag 0): the types differ")));
  }
}

// A rank is said as it was given, wherever one comes in.
TEST(Ranks, ThatDoNotExistAreRefusedByTheirNumbers) {
  const auto body = [](banyan_comm_t comm, int rank) -> std::string {
    void* const to = recv_buffer.data();
    const void* const from = send_buffer.data();
    for (const int given : {-1, -7, 2}) {
      const std::vector<std::function<banyan_result_t()>> calls{
          [&] { return banyan_broadcast(from, to, 1, BANYAN_INT32, given, comm, nullptr); },
          [&] { return banyan_reduce(from, to, 1, BANYAN_INT32, BANYAN_SUM, given, comm, nullptr); },
          [&] { return banyan_gather(from, to, 1, BANYAN_INT32, given, comm, nullptr); },
          [&] { return banyan_scatter(from, to, 1, BANYAN_INT32, given, comm, nullptr); },
          [&] { return banyan_send(from, 1, BANYAN_INT32, given, comm, nullptr); },
          [&] { return banyan_recv(to, 1, BANYAN_INT32, given, comm, nullptr); },
          [&] { return banyan_send_tagged(from, 1, BANYAN_INT32, given, 5, comm, nullptr); },
          [&] {
            if (given == BANYAN_ANY_RANK) return banyan_send(from, 1, BANYAN_INT32, given, comm, nullptr);
            return banyan_recv_tagged(to, 1, BANYAN_INT32, given, 5, nullptr, comm, nullptr);
          }};
      for (const auto& call : calls) {
        const banyan_result_t result = call();
        const std::string error = banyan_last_error(comm), words = "rank " + std::to_string(given) + " does not exist";
        if (result != BANYAN_INVALID_ARGUMENT || error.find(words) == std::string::npos) return error;
      }
    }
    banyan_comm_t part = nullptr, smaller = nullptr;
    require(banyan_comm_split(comm, 0, 0, &part, nullptr));
    const int excluded = -3;
    const banyan_result_t result = banyan_comm_shrink(part, &excluded, 1, &smaller, nullptr);
    const std::string error = banyan_last_error(nullptr), sum = sum_of_ranks(part);
    banyan_comm_destroy(part);
    if (result != BANYAN_INVALID_ARGUMENT || error.find("rank -3 cannot") == std::string::npos) return error;
    if (sum != "3") return "a shrink that was refused has ended the communicator: " + sum;
    return sum_of_ranks(comm) == "3" ? "" : std::string("rank ") + std::to_string(rank) + " cannot go on";
  };
  EXPECT_THAT(run_ranks(2, body), Each(""));
}

// ---- Two communicators ----

std::string output_of(const std::string& command) {
  FILE* const pipe = popen(command.c_str(), "r");
  CHECK(pipe != nullptr) << command;
  std::string text;
  char buffer[4096];
  size_t count;
  while ((count = fread(buffer, 1, sizeof buffer, pipe)) > 0) text.append(buffer, count);
  const int status = pclose(pipe);
  return "exit code " + std::to_string(WEXITSTATUS(status)) + "\n" + text;
}

// Even ranks call the first, odd ones the second.
std::string call_crosswise(banyan_comm_t first, int rank) {
  banyan_config_t config = BANYAN_CONFIG_INIT;
  config.name = "second";
  config.timeout = 1;
  banyan_comm_t second = nullptr;
  require(banyan_comm_split(first, 0, 0, &second, &config));
  const banyan_comm_t own = rank % 2 == 0 ? first : second, other = rank % 2 == 0 ? second : first;
  std::vector<int32_t> values(5000, rank);
  const banyan_result_t result =
      banyan_all_reduce(values.data(), values.data(), values.size(), BANYAN_INT32, BANYAN_SUM, own, nullptr);
  std::string report = std::string(banyan_result_text(result)) + ": " + banyan_last_error(own);
  // Who gives up first stays until it has heard that the others have, too.
  banyan_result_t told = BANYAN_SUCCESS;
  while (told == BANYAN_SUCCESS) banyan_comm_get_async_error(other, &told);
  report += std::string("; then told of ") + banyan_result_text(told);
  banyan_comm_destroy(second);
  return report;
}

class Crossing : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Crossing, ::testing::Values(2, 4), ::testing::PrintToStringParamName());

TEST_P(Crossing, EndsByTimeoutsAndTheDoctorNamesTheCircle) {
  const MeetingPlace records;
  banyan_config_t config = BANYAN_CONFIG_INIT;
  config.name = "first";
  config.timeout = 1;
  const auto reports = run_ranks(
      GetParam(),
      [&](banyan_comm_t first, int rank) {
        setenv("BANYAN_RECORDER_DIR", records.folder().c_str(), 1);
        return call_crosswise(first, rank);
      },
      &config);
  for (const std::string& report : reports) {
    EXPECT_THAT(report, AllOf(::testing::StartsWith("timed out: "), HasSubstr(" not called allreduce #"),
                              ::testing::EndsWith("; then told of timed out")));
  }
  const std::string diagnosis = output_of(std::string(BANYAN_BINARY) + " doctor " + records.folder());
  EXPECT_THAT(diagnosis,
              AllOf(HasSubstr("exit code 1\n"), HasSubstr("crossing"), HasSubstr("of first"), HasSubstr("of second"),
                    HasSubstr("each waits for the other: they called the two communicators in opposite orders")));
}

}  // namespace
}  // namespace banyan::c
