// Ranks on one host; bindings/c/sparse_test.cc has those on several.
#include "banyan/run/sparse/sparse_all_reduce.h"

#include <stdlib.h>
#include <unistd.h>

#include <future>
#include <limits>

#include "banyan/run/sparse/sparse_queue.h"
#include "banyan/run/system/child.h"
#include "banyan/run/system/processes.h"
#include "banyan/testing/temporary_folder.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

using sparse::RowList;

constexpr SparseWay kWays[] = {SparseWay::dense, SparseWay::gather, SparseWay::shards, SparseWay::automatic};

class SparseRanks : public ::testing::TestWithParam<uint32_t>, protected testing::TemporaryFolder {
 protected:
  SparseRanks() { setenv("BANYAN_RECORDER_DIR", folder_.c_str(), 1); }

  // What each rank says of `body`: nothing, or what is wrong.
  std::vector<std::string> run_ranks(uint32_t size, const std::function<std::string(Communicator&)>& body) {
    return run_processes(size, seconds(100), [&](uint32_t rank) -> std::string {
      RegionPool pool;
      Communicator comm =
          Communicator::join(pool, {.url = "file://" + folder_ + "/meeting", .rank = rank, .size = size, .name = {}},
                             {.timeout = seconds(20), .join_timeout = seconds(60)});
      return body(comm);
    });
  }
};

struct Sample {
  std::vector<int64_t> rows;
  std::vector<float> values;
};

// Some rows several times, the first and the last one often; a rank without any, and one that has all, now and then.
// Whole numbers, whose sums are exact.
Sample sample_of(uint32_t rank, const SparseTable& table, uint64_t step) {
  std::mt19937_64 random(rank * 7919 + table.rows * 104729 + step * 31 + table.width);
  Sample sample;
  const uint64_t kind = (rank + step + table.rows) % 5;
  const uint64_t count = kind == 0 ? 0 : kind == 1 ? 2 * table.rows : random() % (table.rows + 2);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t row = kind == 1 ? i / 2 : i == 0 ? 0 : i == 1 ? table.rows - 1 : random() % table.rows;
    sample.rows.push_back(static_cast<int64_t>(row));
    for (uint32_t j = 0; j < table.width; ++j)
      sample.values.push_back(static_cast<float>(static_cast<int>(random() % 2001) - 1000));
  }
  return sample;
}

RowList sum_of_samples(uint32_t ranks, const SparseTable& table, uint64_t step) {
  std::map<uint32_t, std::vector<double>> sums;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const Sample sample = sample_of(rank, table, step);
    for (size_t i = 0; i < sample.rows.size(); ++i) {
      std::vector<double>& sum = sums[static_cast<uint32_t>(sample.rows[i])];
      sum.resize(table.width);
      for (uint32_t j = 0; j < table.width; ++j) sum[j] += sample.values[i * table.width + j];
    }
  }
  RowList list;
  for (const auto& [row, sum] : sums) {
    list.rows.push_back(row);
    for (const double value : sum) list.values.push_back(static_cast<float>(value));
  }
  return list;
}

std::string name_of(const SparseTable& table) {
  std::ostringstream text;
  text << to_string(table.way) << ", " << table.rows << " rows of " << table.width;
  if (table.codec) text << " as " << codec::to_string(*table.codec);
  return text.str();
}

// Empty when all ranks have the same bits.
std::string difference(Communicator& comm, const RowList& list) {
  const auto words = [](uint64_t count) { return std::span<uint64_t>(&count, 1)[0]; };
  uint64_t size = words(list.rows.size()), of_first = size;
  comm.broadcast<uint64_t>(std::span(&of_first, 1), 0);
  if (of_first != size) return "rank 0 has " + std::to_string(of_first) + " rows, this one " + std::to_string(size);
  RowList first = list;
  comm.broadcast<uint32_t>(first.rows, 0);
  comm.broadcast<float>(first.values, 0);
  if (first.rows != list.rows) return "other rows than rank 0";
  const bool are_equal =
      list.values.empty() || std::memcmp(first.values.data(), list.values.data(), list.values.size() * 4) == 0;
  return are_equal ? "" : "other bits than rank 0";
}

TEST_P(SparseRanks, GetTheDenseSumByEveryWay) {
  const uint32_t ranks = GetParam();
  const auto body = [&](Communicator& comm) -> std::string {
    for (const SparseWay way : kWays) {
      for (uint32_t rows = 1; rows <= 300; rows += rows < 40 ? 1 : 37) {
        for (const uint32_t width : {1U, 3U}) {
          const SparseTable table = {.rows = rows, .width = width, .way = way, .seed = rows};
          SparseAllReduce reduce(comm, table);
          for (uint64_t step = 0; step < 2; ++step) {
            const Sample own = sample_of(comm.rank(), table, step);
            const RowList sum = reduce.run({.rows = own.rows, .values = own.values});
            if (sum != sum_of_samples(ranks, table, step)) return "wrong: " + name_of(table);
          }
        }
      }
    }
    return "";
  };
  EXPECT_THAT(run_ranks(ranks, body), Each(""));
}

// Values of a wide range; one that is 0 in places.
std::vector<float> rough_values(uint32_t rank, size_t count, uint64_t step) {
  std::mt19937_64 random(rank * 31 + step * 7 + count);
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i) {
    const auto whole = static_cast<float>(static_cast<int>(random() % 2003) - 1001);
    values.push_back(i % 7 == 3 ? 0 : whole * (i % 97 == 0 ? 8.0F : 0.015625F));
  }
  return values;
}

std::string keeps_its_mass(Communicator& comm, const SparseTable& table) {
  SparseAllReduce reduce(comm, table);
  const size_t count = size_t{table.rows} * table.width;
  std::vector<float> residual(count);
  for (uint64_t step = 0; step < 3; ++step) {
    const Sample rows = sample_of(comm.rank(), table, step);
    const std::vector<float> values = rough_values(comm.rank(), rows.values.size(), step);
    std::vector<double> mass(residual.begin(), residual.end());
    for (size_t i = 0; i < rows.rows.size(); ++i) {
      for (uint32_t j = 0; j < table.width; ++j)
        mass[static_cast<size_t>(rows.rows[i]) * table.width + j] += values[i * table.width + j];
    }
    const RowList sum = reduce.run({.rows = rows.rows, .values = values, .residual = residual});
    if (const std::string differs = difference(comm, sum); !differs.empty()) return name_of(table) + ": " + differs;
    for (size_t i = 0; i < count; ++i) mass[i] -= residual[i];
    comm.all_reduce<double>(std::span<const double>(mass), mass);
    std::vector<double> result(count);
    for (size_t i = 0; i < sum.rows.size(); ++i) {
      for (uint32_t j = 0; j < table.width; ++j)
        result[sum.rows[i] * table.width + j] = sum.values[i * table.width + j];
    }
    for (size_t i = 0; i < count; ++i) {
      if (std::abs(result[i] - mass[i]) > std::ldexp(16016.0 * comm.size(), -21)) {
        return name_of(table) + ", step " + std::to_string(step) + ": " + std::to_string(result[i]) + " at " +
               std::to_string(i) + ", not " + std::to_string(mass[i]);
      }
    }
  }
  return "";
}

TEST_P(SparseRanks, LoseNothingThatIsNotKept) {
  const auto body = [&](Communicator& comm) -> std::string {
    for (const char* name : {"", "bfloat16", "float16", "fp8", "mxfp8:stochastic", "int8", "int8:stochastic", "int4",
                             "int4:stochastic", "mxfp4", "sign"}) {
      for (const SparseWay way : kWays) {
        for (const uint32_t rows : {1U, 7U, 64U, 1000U}) {
          SparseTable table = {.rows = rows, .width = rows == 7 ? 100U : 5U, .way = way, .seed = 3};
          if (*name != 0) table.codec = codec::parse_codec(name);
          if (const std::string wrong = keeps_its_mass(comm, table); !wrong.empty()) return wrong;
        }
      }
    }
    return "";
  };
  EXPECT_THAT(run_ranks(GetParam(), body), Each(""));
}

INSTANTIATE_TEST_SUITE_P(Of, SparseRanks, ::testing::Values(1, 2, 3, 4, 5, 9));

class SparseAllReduces : public SparseRanks {};
INSTANTIATE_TEST_SUITE_P(Of, SparseAllReduces, ::testing::Values(3));

// What is not finite is so on all ranks, and no rank keeps it; nor does anybody lose what was kept.
TEST_P(SparseAllReduces, KeepsResidualsWhereAResultIsNotFinite) {
  const auto body = [&](Communicator& comm) -> std::string {
    for (const char* name : {"", "int8", "sign"}) {
      for (const SparseWay way : kWays) {
        SparseTable table = {.rows = 600, .width = 2, .way = way};
        if (*name != 0) table.codec = codec::parse_codec(name);
        SparseAllReduce reduce(comm, table);
        std::vector<float> residual(1200, 0.25F);
        std::vector<int64_t> rows;
        std::vector<float> values;
        for (int64_t row = 0; row < 600; row += 2) {
          rows.push_back(row);
          values.insert(values.end(), {1.0F + static_cast<float>(comm.rank()), 0.3F});
        }
        if (comm.rank() == 1) values[2 * 50] = std::numeric_limits<float>::quiet_NaN();
        if (comm.rank() == 2) values[2 * 51 + 1] = std::numeric_limits<float>::infinity();
        const RowList sum = reduce.run({.rows = rows, .values = values, .residual = residual});
        if (const std::string differs = difference(comm, sum); !differs.empty()) return name_of(table) + differs;
        if (std::isfinite(sum.values[2 * 50]) || std::isfinite(sum.values[2 * 51 + 1]))
          return name_of(table) + ": lost";
        for (size_t i = 0; i < sum.values.size(); ++i) {
          const float kept = residual[sum.rows[i / 2] * 2 + i % 2];
          if (!std::isfinite(kept) || (!std::isfinite(sum.values[i]) && kept != 0.25F)) {
            return name_of(table) + ": kept " + std::to_string(kept);
          }
        }
      }
    }
    return "";
  };
  EXPECT_THAT(run_ranks(3, body), Each(""));
}

TEST_P(SparseAllReduces, ChooseTheWayByWhatItSends) {
  const auto body = [&](Communicator& comm) -> std::string {
    SparseTable table = {.rows = 20'000, .width = 16, .link = {.bytes_per_second = 1e7, .latency_seconds = 1e-6}};
    SparseAllReduce reduce(comm, table);
    const auto step = [&](int64_t first, int64_t every) {
      std::vector<int64_t> rows;
      for (int64_t row = first; row < table.rows; row += every) rows.push_back(row);
      const std::vector<float> values(rows.size() * table.width, 1.0F);
      reduce.run({.rows = rows, .values = values});
      return reduce.last_step();
    };
    // No row in common: every sum has all rows. Then all rows in common. Then nearly all rows.
    const SparseStep apart = step(comm.rank(), 300);
    if (apart.way != SparseWay::gather || std::abs(apart.union_share - comm.size() / 300.0) > 1e-3) return "apart";
    const SparseStep first = step(0, 100), common = step(0, 100);
    if (first.way != SparseWay::gather || common.way != SparseWay::shards) return "common";
    if (common.bytes_sent >= first.bytes_sent) return "more bytes";
    if (step(0, 1).way != SparseWay::dense) return "all";
    return step(0, 30'000).rank_share > 1e-4 ? "share" : "";
  };
  EXPECT_THAT(run_ranks(8, body), Each(""));
}

std::future<RowList> start(SparseQueue& queue, SparseAllReduce& table, const SparseGradient& gradient) {
  const auto task = std::make_shared<std::packaged_task<RowList()>>([&table, gradient] { return table.run(gradient); });
  queue.start([task] { (*task)(); });
  return task->get_future();
}

// Two tables, with other calls of all ranks in between, which come at other times on each rank.
TEST_P(SparseAllReduces, GoOnInTheBackground) {
  const auto body = [&](Communicator& comm) -> std::string {
    SparseQueue queue(comm);
    const SparseTable tables[] = {{.rows = 300, .width = 3, .way = SparseWay::shards}, {.rows = 77, .width = 1}};
    SparseAllReduce reduces[] = {{queue.communicator(), tables[0]}, {queue.communicator(), tables[1]}};
    std::vector<Sample> samples;
    std::vector<std::future<RowList>> sums;
    constexpr uint64_t kSums = 20;
    for (uint64_t i = 0; i < kSums; ++i) samples.push_back(sample_of(comm.rank(), tables[i % 2], i));
    for (uint64_t i = 0; i < kSums; ++i) {
      sums.push_back(start(queue, reduces[i % 2], {.rows = samples[i].rows, .values = samples[i].values}));
      if (i % 3 == comm.rank()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::vector<float> one{1};
      comm.all_reduce<float>(std::span<const float>(one), one);
      if (one[0] != static_cast<float>(comm.size())) return "another call";
    }
    for (uint64_t i = 0; i < kSums; ++i) {
      if (sums[i].get() != sum_of_samples(comm.size(), tables[i % 2], i)) return "sum " + std::to_string(i);
    }
    const int64_t missing = 300;
    const std::vector<float> values(3);
    try {
      start(queue, reduces[0], {.rows = std::span(&missing, 1), .values = values}).get();
      return "took row 300";
    } catch (const Error& error) {
      if (error.code() != ErrorCode::invalid_input) return error.what();
    }
    comm.barrier();
    // Rank 1 does not come to the last one.
    std::future<RowList> last;
    if (comm.rank() == 1) {
      queue.abort("enough");
    } else {
      last = start(queue, reduces[0], {.rows = samples[0].rows, .values = samples[0].values});
    }
    try {
      if (last.valid()) last.get();
      return comm.rank() == 1 ? "" : "was not ended";
    } catch (const Error& error) {
      return std::string(error.what()).find("enough") != std::string::npos ? "" : error.what();
    }
  };
  EXPECT_THAT(run_ranks(GetParam(), body), Each(""));
}

// Rank 0 never comes to the sums, until the others have ended their queues.
TEST_P(SparseAllReduces, EndWithTheirQueue) {
  const auto body = [&](Communicator& comm) -> std::string {
    std::future<RowList> sums[2];
    {
      SparseQueue queue(comm);
      SparseAllReduce reduce(queue.communicator(), {.rows = 10, .width = 2});
      if (comm.rank() > 0) {
        for (std::future<RowList>& sum : sums) sum = start(queue, reduce, {});
        queue.drain(std::chrono::milliseconds(20));
        if (sums[0].wait_for(seconds(0)) == std::future_status::ready) return "was over without rank 0";
      }
      comm.barrier();
    }
    for (std::future<RowList>& sum : sums) {
      if (!sum.valid()) continue;
      try {
        sum.get();
        return "was not ended";
      } catch (const Error& error) {
        if (error.code() != ErrorCode::aborted) return error.what();
      }
    }
    return "";
  };
  EXPECT_THAT(run_ranks(GetParam(), body), Each(""));
}

// A sum may be what ends its queue; those behind it end then and there. Nor does a fork of the process harm it.
TEST_P(SparseAllReduces, MayEndTheirQueueAndOutliveAFork) {
  const auto body = [&](Communicator& comm) -> std::string {
    auto queue = std::make_unique<SparseQueue>(comm);
    queue->drain(seconds(10));
    Child child([&] {
      bool is_refused = false;
      try {
        queue->start([] {});
      } catch (const Error& error) {
        is_refused = error.code() == ErrorCode::invalid_usage;
      }
      queue.reset();
      return is_refused ? 0 : 1;
    });
    if (const int status = child.reap(); status != 0) return "the child " + format_status(status);
    std::vector<std::string> said;
    std::promise<void> is_filled, is_over;
    queue->start([&] {
      is_filled.get_future().wait();
      queue.reset();
      said.emplace_back("ended");
      is_over.set_value();
    });
    queue->start([&, &communicator = queue->communicator()] {
      try {
        communicator.barrier();
        said.emplace_back("went on");
      } catch (const Error& error) {
        said.emplace_back(error.code() == ErrorCode::aborted ? "aborted" : error.what());
      }
    });
    is_filled.set_value();
    is_over.get_future().wait();
    return said == std::vector<std::string>{"aborted", "ended"} ? "" : said.front();
  };
  EXPECT_THAT(run_ranks(GetParam(), body), Each(""));
}

// As a rank whose bytes are wrong: it makes the calls that are due, by hand.
std::string answer_to(const std::function<void(Communicator&, const SparseTable&)>& rank1, Communicator& comm,
                      const SparseTable& table) {
  try {
    if (comm.rank() == 1) {
      rank1(comm, table);
      comm.barrier();
      return "went on";
    }
    SparseAllReduce reduce(comm, table);
    reduce.run({.rows = std::vector<int64_t>{1, 2}, .values = std::vector<float>(2 * table.width, 1.0F)});
    return "was not noticed";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST_P(SparseAllReduces, TellWhoCallsSomethingElse) {
  const SparseTable table = {.rows = 100, .width = 4};
  const auto with = [&](SparseTable other) {
    return run_ranks(3, [=](Communicator& comm) {
      return answer_to(
          [=](Communicator& theirs, const SparseTable&) {
            SparseAllReduce reduce(theirs, other);
            reduce.run({.rows = std::vector<int64_t>{1}, .values = std::vector<float>(other.width, 1.0F)});
          },
          comm, table);
    });
  };
  SparseTable other = table;
  other.width = 5;
  std::vector<std::string> said = with(other);
  EXPECT_THAT(said[0], HasSubstr("rank 1: calls a sparse allreduce with width 5, this rank 4"));
  EXPECT_THAT(said[1], HasSubstr("rank 0: calls"));
  EXPECT_THAT(said[2], HasSubstr("rank 1: calls"));
  other = table;
  other.codec = codec::parse_codec("int8");
  EXPECT_THAT(with(other)[2], HasSubstr("rank 1: calls a sparse allreduce of a table with another codec"));
}

TEST_P(SparseAllReduces, RefuseRowsThatAreNotThere) {
  const auto body = [&](Communicator& comm) -> std::string {
    SparseAllReduce reduce(comm, {.rows = 10, .width = 2});
    for (const int64_t row : {int64_t{-1}, int64_t{10}, int64_t{1} << 40}) {
      try {
        reduce.run({.rows = std::span(&row, 1), .values = std::vector<float>(2)});
        return "took row " + std::to_string(row);
      } catch (const Error& error) {
        if (error.code() != ErrorCode::invalid_input) return error.what();
      }
    }
    const std::vector<int64_t> good = {9};
    return reduce.run({.rows = good, .values = std::vector<float>(2, 1.0F)}).rows.size() == 1 ? "" : "then wrong";
  };
  EXPECT_THAT(run_ranks(3, body), Each(""));
}

// Its calls stay paired with those of the others: the next one has the right sum.
TEST_P(SparseAllReduces, TellAllRanksOfWrongRowsOnOne) {
  const auto body = [&](Communicator& comm) -> std::string {
    SparseAllReduce reduce(comm, {.rows = 10, .width = 2});
    const auto call = [&](std::vector<int64_t> rows, float value) {
      return reduce.run({.rows = rows, .values = std::vector<float>(rows.size() * 2, value)});
    };
    for (const uint32_t culprit : {0U, 2U}) {
      const bool is_culprit = comm.rank() == culprit;
      try {
        call({is_culprit ? int64_t{-1} : int64_t{3}}, 5);
        return "nothing was said";
      } catch (const Error& error) {
        const std::string name = "rank " + std::to_string(culprit) + ": has refused";
        if (error.code() != (is_culprit ? ErrorCode::invalid_input : ErrorCode::mismatch)) return error.what();
        if (!is_culprit && std::string(error.what()).find(name) == std::string::npos) return error.what();
      }
      const RowList sum = call({4}, static_cast<float>(comm.rank() + 1));
      if (sum.rows != std::vector<uint32_t>{4} || sum.values != std::vector<float>{6, 6}) return "then wrong";
    }
    return "";
  };
  EXPECT_THAT(run_ranks(3, body), Each(""));
}

// A rank that announces what is impossible, or sends other bytes than it should: it makes the calls that are due by
// hand.
TEST_P(SparseAllReduces, EndWithTheNameOfWhoeverSendsNonsense) {
  enum Kind { kTooManyRows, kHugeMessage, kHugeShare, kNoise, kTruncated, kHugeSum, kNoisySum };
  const auto play = [](Communicator& comm, const SparseTable& table, Kind kind) {
    std::vector<SparseNotice> sent(3, notice_of(table, 0, std::vector<uint32_t>{4})), got(3);
    const size_t most = 48 + 1 + 16;
    for (SparseNotice& notice : sent) {
      notice.bytes_for_you = most;
      if (kind == kTooManyRows) notice.entries = 101;
      if (kind == kHugeMessage) notice.bytes_for_all = uint64_t{1} << 60;
      if (kind == kHugeShare) notice.bytes_for_you = uint64_t{1} << 61;
      if (kind == kTruncated || kind >= kHugeSum) notice.bytes_for_you = 48;
    }
    const auto call = [&](OperationKind what, const auto& from, auto& to, std::vector<size_t> own,
                          std::vector<size_t> theirs) {
      comm.run({.kind = what,
                .type = element::DataType::uint8,
                .send = reinterpret_cast<const std::byte*>(from.data()),
                .recv = reinterpret_cast<std::byte*>(to.data()),
                .count = own.empty() && theirs.empty() ? sizeof(SparseNotice) : 0,
                .send_counts = own,
                .recv_counts = theirs});
    };
    call(OperationKind::all_to_all, sent, got, {}, {});
    std::vector<std::byte> noise(3 * most, std::byte{7}), taken(100'000);
    if (table.way == SparseWay::gather) {
      call(OperationKind::all_gather_v, noise, taken, {},
           {got[0].bytes_for_all, sent[0].bytes_for_all, got[2].bytes_for_all});
      return;
    }
    const size_t each = sent[0].bytes_for_you;
    if (kind >= kHugeSum) {
      const sparse::RowShards shards(table.rows, 3, table.seed);
      noise.clear();
      for (uint32_t shard = 0; shard < 3; ++shard) {
        const auto message =
            sparse::write_row_message({.shard = shard, .width = table.width, .rows = shards.rows_of(shard)}, {});
        noise.insert(noise.end(), message.begin(), message.end());
      }
    }
    call(OperationKind::all_to_all_v, noise, taken, {each, each, each},
         {got[0].bytes_for_you, each, got[2].bytes_for_you});
    std::vector<uint64_t> lengths(3);
    const uint64_t length = kind == kHugeSum ? uint64_t{1} << 50 : 60;
    comm.all_gather<uint64_t>(std::span(&length, 1), lengths);
    call(OperationKind::all_gather_v, noise, taken, {}, {lengths.begin(), lengths.end()});
  };
  for (const auto& [way, kind] :
       {std::pair(SparseWay::gather, kTooManyRows), std::pair(SparseWay::gather, kHugeMessage),
        std::pair(SparseWay::shards, kHugeShare), std::pair(SparseWay::gather, kNoise),
        std::pair(SparseWay::shards, kNoise), std::pair(SparseWay::shards, kTruncated),
        std::pair(SparseWay::shards, kHugeSum), std::pair(SparseWay::shards, kNoisySum)}) {
    const SparseTable table = {.rows = 100, .width = 4, .way = way};
    const std::vector<std::string> said = run_ranks(3, [&](Communicator& comm) {
      return answer_to([&](Communicator& theirs, const SparseTable& due) { play(theirs, due, kind); }, comm, table);
    });
    // Who reads it says so, unless another was quicker, whose words go round.
    for (const uint32_t rank : {0U, 2U}) EXPECT_THAT(said[rank], HasSubstr("rank 1: ")) << kind;
    EXPECT_THAT(said[1], Not(HasSubstr("went on"))) << kind;
  }
}

}  // namespace
}  // namespace banyan::run
