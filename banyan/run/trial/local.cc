#include "banyan/run/trial/local.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/base/nearest.h"
#include "banyan/run/engine/engine.h"
#include "banyan/run/engine/sample_data.h"
#include "banyan/run/system/futex.h"
#include "banyan/run/system/processes.h"
#include "banyan/run/system/shared_memory.h"
#include "banyan/run/transport/shm_transport.h"
#include "banyan/run/transport/tcp_transport.h"
#include "banyan/run/trial/lane_meter.h"

namespace banyan::run {
namespace {

constexpr std::array<std::string_view, 2> kTransportNames = {"shm", "tcp"};  // in the order of the enumerators
constexpr uint64_t kMaxSliceBytes = uint64_t{64} << 20;
// Nothing is expected to be missed while asleep; but if it were, a run would be late, not stuck.
constexpr std::chrono::milliseconds kLongestSleep{100};

uint64_t nanoseconds_now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

// Where all ranks see each other: a starting line, and when each timed execution began and ended.
class Track {
 public:
  Track(uint32_t ranks, uint32_t laps)
      : ranks_(ranks), laps_(laps), memory_(sizeof(Line) + laps * sizeof(Lap)), line_(new (memory_.data()) Line) {
    for (uint32_t i = 0; i < laps_; ++i) new (memory_.data() + sizeof(Line) + i * sizeof(Lap)) Lap;
  }

  // Returns when all ranks have come.
  void line_up() {
    const uint32_t round = line_->round.load(std::memory_order_acquire);
    if (line_->arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == ranks_) {
      line_->arrived.store(0, std::memory_order_relaxed);
      line_->round.store(round + 1, std::memory_order_release);
      futex_wake_all(line_->round);
      return;
    }
    while (line_->round.load(std::memory_order_acquire) == round) futex_wait(line_->round, round, kLongestSleep);
  }

  void record(uint32_t lap, uint64_t begin, uint64_t end) {
    lower(this->lap(lap).begin, begin);
    raise(this->lap(lap).end, end);
  }

  // Seconds of every lap, ascending.
  std::vector<double> times() const {
    std::vector<double> times;
    for (uint32_t i = 0; i < laps_; ++i) times.push_back(static_cast<double>(lap(i).end - lap(i).begin) * 1e-9);
    std::sort(times.begin(), times.end());
    return times;
  }

 private:
  struct Line {
    alignas(64) std::atomic<uint32_t> arrived{0};
    alignas(64) std::atomic<uint32_t> round{0};
  };
  struct Lap {
    std::atomic<uint64_t> begin{UINT64_MAX}, end{0};
  };

  Lap& lap(uint32_t i) const { return reinterpret_cast<Lap*>(memory_.data() + sizeof(Line))[i]; }
  static void lower(std::atomic<uint64_t>& value, uint64_t to) {
    uint64_t was = value.load();
    while (to < was && !value.compare_exchange_weak(was, to)) {
    }
  }
  static void raise(std::atomic<uint64_t>& value, uint64_t to) {
    uint64_t was = value.load();
    while (to > was && !value.compare_exchange_weak(was, to)) {
    }
  }

  uint32_t ranks_, laps_;
  SharedMemory memory_;
  Line* line_;
};

// What a rank tells its parent.
struct RankReport {
  struct Answer {
    uint64_t wrong = 0;
    uint64_t first_wrong = 0;
    double got = 0, expected = 0;
  };
  Answer answer;
  std::vector<uint64_t> lane_bytes;  // that it sent in one execution, by RankPlan::lanes
};

// One rank's whole life.
class Runner {
 public:
  struct Task {
    const Schedule& schedule;
    uint64_t elements;
    element::Reduction reduction;
    EngineOptions engine;
  };
  Runner(const Task& task, const RankPlan& plan, const SampleData& data)
      : task_(task),
        plan_(std::make_shared<RankPlan>(plan)),
        parts_(buffer_parts(task.schedule, plan.rank, task.elements)),
        data_(data),
        input_(plan.input_elements * size_of(task.reduction.type)),
        output_(plan.output_elements * size_of(task.reduction.type)) {}

  RankReport run(Transport& transport, Track& track, uint32_t repeats) {
    data_.fill(input_, plan_->rank, parts_.input_begin, parts_.input_end);
    LaneMeter meter(transport, *plan_);
    Engine engine(meter, task_.engine);
    data_.spoil(output_);
    execute(engine, meter);
    report_.lane_bytes = meter.take();
    check();
    for (uint32_t lap = 0; lap < repeats; ++lap) {
      if (lap + 1 == repeats) data_.spoil(output_);
      track.line_up();
      const uint64_t begin = nanoseconds_now();
      execute(engine, meter);
      track.record(lap, begin, nanoseconds_now());
      CHECK(meter.take() == report_.lane_bytes) << "execution " << executions_ << " sent other bytes than the first";
    }
    if (repeats > 0) check();
    return report_;
  }

 private:
  void execute(Engine& engine, Transport& transport) {
    const Engine::Ticket ticket = engine.start({.plan = plan_,
                                                .task = {.type = task_.reduction.type, .op = task_.reduction.op},
                                                .sequence = ++executions_,
                                                .input = input_,
                                                .output = output_});
    while (!engine.is_done(ticket)) {
      if (!engine.progress()) transport.wait(kLongestSleep);
    }
  }

  void check() {
    const Collective& collective = task_.schedule.collective();
    if (collective.kind() == CollectiveKind::all_gather) {
      for (uint32_t owner = 0; owner < plan_->ranks; ++owner) {
        const auto [begin, end] = task_.schedule.shard_range(owner, task_.elements);
        check_part(owner, begin, end);
      }
    } else {
      const auto participants = collective.participants();
      const auto root = std::find(participants.begin(), participants.end(), collective.root()) - participants.begin();
      check_part(static_cast<uint32_t>(root), parts_.output_begin, parts_.output_end);
    }
  }

  void check_part(uint32_t owner, uint64_t begin, uint64_t end) {
    const size_t size = size_of(task_.reduction.type);
    const std::span<const std::byte> part =
        std::span(output_).subspan((begin - parts_.output_begin) * size, (end - begin) * size);
    const SampleData::Comparison comparison = data_.compare(part, owner, begin, end);
    RankReport::Answer& answer = report_.answer;
    if (comparison.wrong > 0 && answer.wrong == 0) {
      answer.first_wrong = comparison.first;
      answer.got = comparison.got;
      answer.expected = comparison.expected;
    }
    answer.wrong += comparison.wrong;
  }

  const Task& task_;
  const std::shared_ptr<const RankPlan> plan_;
  const BufferParts parts_;
  const SampleData& data_;
  std::vector<std::byte> input_, output_;
  uint64_t executions_ = 0;
  RankReport report_;
};

std::string to_bytes(const RankReport& report) {
  std::string bytes(reinterpret_cast<const char*>(&report.answer), sizeof report.answer);
  return bytes.append(reinterpret_cast<const char*>(report.lane_bytes.data()),
                      report.lane_bytes.size() * sizeof(uint64_t));
}

RankReport from_bytes(const std::string& bytes, size_t lanes) {
  RankReport report{.answer = {}, .lane_bytes = std::vector<uint64_t>(lanes)};
  CHECK_EQ(bytes.size(), sizeof report.answer + lanes * sizeof(uint64_t));
  std::memcpy(&report.answer, bytes.data(), sizeof report.answer);
  std::copy_n(bytes.data() + sizeof report.answer, lanes * sizeof(uint64_t),
              reinterpret_cast<char*>(report.lane_bytes.data()));
  return report;
}

std::string number(double value) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.17g", value);
  return text.data();
}

// A process that touches more memory than there is gets killed, or another one does.
void expect_memory_for(std::span<const RankPlan> plans, size_t element_bytes) {
  const uint64_t available =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  double needed = 0;
  for (const RankPlan& plan : plans) {
    needed += static_cast<double>(element_bytes) *
              (static_cast<double>(plan.input_elements) + static_cast<double>(plan.output_elements));
  }
  if (needed <= static_cast<double>(available)) return;
  throw Error(ErrorCode::unsupported, "the buffers of " + std::to_string(plans.size()) + " ranks need " +
                                          number(needed * 1e-9) + " GB, but this machine has " +
                                          Bytes(available).to_string() +
                                          " of memory; give a smaller total or fewer ranks");
}

EngineOptions engine_options(const LocalRunOptions& options) {
  const uint64_t slice = std::min(options.slice.count(), kMaxSliceBytes);
  if (slice < size_of(options.type))
    throw Error(ErrorCode::invalid_input, "a slice of " + options.slice.to_string() + " holds no element of " +
                                              std::string(to_string(options.type)));
  if (options.op == element::ReduceOp::avg || options.op == element::ReduceOp::premul_sum)
    throw Error(ErrorCode::unsupported, std::string(to_string(options.op)) +
                                            " is a sum that is divided at its end or scaled at its start, which "
                                            "a run of a plan does not do; give sum");
  expect_reducible(options.type, options.op);
  return {.slice_bytes = slice - slice % size_of(options.type)};
}

std::unique_ptr<Meeting> make_meeting(TransportKind kind, std::span<const RankPlan> plans) {
  return kind == TransportKind::tcp ? make_tcp_meeting(peer_lists(plans)) : make_shm_meeting(peer_lists(plans));
}

// Counts what a rank sent along its lanes for the links that they cross.
void add_sent(const RankPlan& plan, std::span<const uint64_t> lane_bytes, LocalRunReport& summary) {
  for (size_t i = 0; i < plan.lanes.size(); ++i) {
    summary.bytes_sent += lane_bytes[i];
    for (const LinkId link : plan.lanes[i].to_peer) summary.link_bytes[index(link)] += lane_bytes[i];
  }
}

LocalRunReport summarize(const std::vector<std::string>& reports, std::span<const RankPlan> plans, size_t links,
                         const Track& track) {
  LocalRunReport summary;
  summary.link_bytes.resize(links);
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    const RankReport report = from_bytes(reports[rank], plans[rank].lanes.size());
    const RankReport::Answer& answer = report.answer;
    add_sent(plans[rank], report.lane_bytes, summary);
    if (answer.wrong > 0 && summary.wrong_elements == 0) {
      summary.first_wrong = "rank " + std::to_string(rank) + " element " + std::to_string(answer.first_wrong) +
                            ": got " + number(answer.got) + ", expected " + number(answer.expected);
    }
    summary.wrong_elements += answer.wrong;
  }
  if (const std::vector<double> times = track.times(); !times.empty()) {
    const size_t half = times.size() / 2;
    summary.min_seconds = times.front();
    summary.median_seconds = times.size() % 2 == 1 ? times[half] : (times[half - 1] + times[half]) / 2;
  }
  return summary;
}

}  // namespace

TransportKind parse_transport(std::string_view text) {
  NearestName nearest(text);
  for (size_t i = 0; i < kTransportNames.size(); ++i) {
    if (kTransportNames[i] == text) return static_cast<TransportKind>(i);
    nearest.offer(kTransportNames[i]);
  }
  throw Error(ErrorCode::invalid_input,
              "unknown transport '" + std::string(text.substr(0, 60)) + "'" + nearest.hint() + "; known are shm, tcp");
}

std::string_view to_string(TransportKind kind) { return kTransportNames[static_cast<size_t>(kind)]; }

LocalRunReport run_locally(const Schedule& schedule, const LocalRunOptions& options) {
  const uint64_t elements = options.total.count() / size_of(options.type);
  if (elements == 0)
    throw Error(ErrorCode::invalid_input, "a total of " + options.total.to_string() + " holds no element of " +
                                              std::string(to_string(options.type)));
  const Runner::Task task{.schedule = schedule,
                          .elements = elements,
                          .reduction = {.type = options.type, .op = options.op},
                          .engine = engine_options(options)};
  const std::vector<RankPlan> plans = make_rank_plans(schedule, elements);
  expect_memory_for(plans, size_of(options.type));
  const SampleData data(schedule.collective(), task.reduction);
  const auto ranks = static_cast<uint32_t>(plans.size());
  Track track(ranks, options.repeats);
  const std::unique_ptr<Meeting> meeting = make_meeting(options.transport, plans);
  const auto reports = run_processes(ranks, options.timeout, [&](uint32_t rank) {
    const std::unique_ptr<Transport> transport = meeting->join(rank);
    return to_bytes(Runner(task, plans[rank], data).run(*transport, track, options.repeats));
  });
  LocalRunReport report = summarize(reports, plans, schedule.fabric().links().size(), track);
  report.elements = elements;
  report.slice_bytes = task.engine.slice_bytes;
  return report;
}

}  // namespace banyan::run
