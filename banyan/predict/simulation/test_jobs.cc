#include "banyan/predict/simulation/test_jobs.h"

#include <algorithm>
#include <random>

#include "banyan/fabric/text.h"

namespace banyan::predict::sample {

using std::chrono::microseconds;

job::Node compute(Picoseconds duration, uint16_t stream) {
  return {.kind = job::NodeKind::compute, .stream = stream, .duration = duration};
}
job::Node all_reduce(uint64_t bytes, uint16_t stream, uint32_t slot) {
  return {.kind = job::NodeKind::collective, .stream = stream, .slot = slot, .bytes = bytes};
}
job::Node send(uint64_t bytes, uint16_t stream, uint32_t slot) {
  return {.kind = job::NodeKind::send, .stream = stream, .slot = slot, .bytes = bytes};
}
job::Node receive(uint64_t bytes, uint16_t stream, uint32_t slot) {
  return {.kind = job::NodeKind::receive, .stream = stream, .slot = slot, .bytes = bytes};
}

JobSimulation simulate(const Fabric& fabric, const std::vector<PlacedJob>& jobs, JobSimulationOptions options,
                       Picoseconds latency) {
  const auto plans = make_ring_plans(fabric, kFree);
  if (options.plans == nullptr) options.plans = plans.get();
  options.plans_for = [](const Fabric& left) { return make_ring_plans(left, kFree); };
  options.message_latency = latency;
  return simulate_jobs(fabric, jobs, options);
}
JobSimulation simulate(const Fabric& fabric, const Job& job, const JobSimulationOptions& options) {
  std::vector<NodeId> nodes(fabric.ranks().begin(), fabric.ranks().begin() + job.rank_count());
  return simulate(fabric, {{.job = &job, .nodes = nodes}}, options);
}

Job uneven_pair(Picoseconds first, Picoseconds second, uint64_t bytes) {
  Job::Builder builder("pair");
  builder.add_name("work");
  const uint32_t group = builder.add_group("both", {0, 1});
  for (const Picoseconds duration : {first, second}) {
    builder.begin_program();
    builder.add_stream({.name = "main"});
    builder.add_node(compute(duration));
    builder.add_node(all_reduce(bytes));
  }
  builder.add_rank(0, std::vector{group}, {});
  builder.add_rank(1, std::vector{group}, {});
  return std::move(builder).build();
}

Job message(uint64_t bytes, Picoseconds delay) {
  Job::Builder builder("message");
  builder.add_name("text");
  builder.begin_program();
  builder.add_stream({.name = "main"});
  builder.add_node(send(bytes));
  builder.add_rank(0, {}, std::vector{1u});
  builder.begin_program();
  builder.add_stream({.name = "main"});
  builder.add_node(compute(delay));
  builder.add_node(receive(bytes));
  builder.add_rank(1, {}, std::vector{0u});
  return std::move(builder).build();
}

Job grid(uint32_t rows, uint32_t columns, uint64_t seed) {
  std::mt19937_64 random(seed);
  Job::Builder builder("grid");
  builder.add_name("x");
  std::vector<uint32_t> of_row, of_column;
  for (uint32_t row = 0; row < rows; ++row) {
    std::vector<uint32_t> ranks;
    for (uint32_t column = 0; column < columns; ++column) ranks.push_back(row * columns + column);
    of_row.push_back(builder.add_group("row " + std::to_string(row), ranks));
  }
  for (uint32_t column = 0; column < columns; ++column) {
    std::vector<uint32_t> ranks;
    for (uint32_t row = 0; row < rows; ++row) ranks.push_back(row * columns + column);
    of_column.push_back(builder.add_group("column " + std::to_string(column), ranks));
  }
  for (uint32_t row = 0; row < rows; ++row) {
    builder.begin_program();
    builder.add_stream({.name = "compute"});
    builder.add_stream({.name = "comm"});
    for (int step = 0; step < 4; ++step) {
      std::mt19937_64 same(seed + static_cast<uint64_t>(step));
      builder.add_node(compute(microseconds(1 + random() % 300)));
      const uint64_t bytes = 1000 + same() % 3'000'000;
      if (row > 0) builder.add_node(receive(bytes, 0, 0));
      if (row + 1 < rows) builder.add_node(send(bytes, 0, row > 0 ? 1 : 0));
      const uint32_t work = builder.add_node(compute(microseconds(1 + random() % 300)));
      const uint32_t rows_sum = builder.add_node(all_reduce(1000 + random() % 3'000'000, 1, 0));
      builder.add_need(rows_sum, work);
      builder.add_node({.kind = job::NodeKind::collective,
                        .collective = CollectiveKind::all_gather,
                        .stream = 1,
                        .slot = 1,
                        .bytes = 1000 + same() % 1'000'000});
    }
  }
  for (uint32_t row = 0; row < rows; ++row) {
    for (uint32_t column = 0; column < columns; ++column) {
      std::vector<uint32_t> peers;
      if (row > 0) peers.push_back((row - 1) * columns + column);
      if (row + 1 < rows) peers.push_back((row + 1) * columns + column);
      builder.add_rank(row, std::vector{of_row[row], of_column[column]}, peers);
    }
  }
  return std::move(builder).build();
}

std::vector<LinkEvent> events_of(const Fabric& fabric, const std::vector<std::string>& texts) {
  std::vector<LinkEvent> events;
  for (const std::string& text : texts) {
    for (const LinkEvent& event : parse_link_events(fabric, text)) events.push_back(event);
  }
  return events;
}

std::vector<NodeId> first_ranks(const Fabric& fabric, const Job& job) {
  return {fabric.ranks().begin(), fabric.ranks().begin() + job.rank_count()};
}

double bytes_on(const Fabric& fabric, const Prediction& prediction, const char* from, const char* to) {
  for (uint32_t link = 0; link < fabric.links().size(); ++link) {
    const Link& row = fabric.links()[link];
    if (fabric.name(row.from) == from && fabric.name(row.to) == to) return prediction.links[link].bytes;
  }
  return -1;
}

Fabric two_ways() {
  return fabric::parse_fabric_text("a <-> sw1 1GB/s; sw1 <-> b 1GB/s; a <-> sw2 500MB/s; sw2 <-> b 500MB/s");
}

}  // namespace banyan::predict::sample
