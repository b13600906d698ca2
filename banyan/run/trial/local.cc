#include "banyan/run/trial/local.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <numeric>
#include <vector>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/base/nearest.h"
#include "banyan/run/join/rendezvous.h"
#include "banyan/run/system/futex.h"
#include "banyan/run/system/processes.h"
#include "banyan/run/system/shared_memory.h"
#include "banyan/run/trial/known_data.h"
#include "banyan/run/trial/lane_meter.h"

namespace banyan::run {
namespace {

constexpr uint64_t kMaxSliceBytes = uint64_t{64} << 20;

uint64_t nanoseconds_now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

// When each timed execution began and ended, as all ranks see it.
class Laps {
 public:
  Laps(uint32_t ranks, uint32_t laps)
      : ranks_(ranks), laps_(laps), memory_(sizeof(Lap) * (uint64_t{laps} + 1)), home_(new (memory_.data()) Home) {
    for (uint32_t i = 0; i < laps_; ++i) new (&lap(i)) Lap;
  }

  // Returns when all ranks have finished: who leaves early may be missed by one that has still to read what it sent.
  void finish() {
    if (home_->finished.fetch_add(1, std::memory_order_acq_rel) + 1 == ranks_) futex_wake_all(home_->finished);
    for (uint32_t seen = 0; (seen = home_->finished.load(std::memory_order_acquire)) < ranks_;) {
      futex_wait(home_->finished, seen, kLongestSleep);
    }
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
  struct Lap {
    std::atomic<uint64_t> begin{UINT64_MAX}, end{0};
  };
  struct Home {
    std::atomic<uint32_t> finished{0};  // ranks
  };
  static_assert(sizeof(Home) <= sizeof(Lap));

  Lap& lap(uint32_t i) const { return reinterpret_cast<Lap*>(memory_.data())[i + 1]; }
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

  static constexpr std::chrono::milliseconds kLongestSleep{100};

  const uint32_t ranks_, laps_;
  SharedMemory memory_;
  Home* const home_;
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

// Gives the communicator this schedule and no other.
class OnlyPlan : public PlanSource {
 public:
  OnlyPlan(const Schedule& schedule, uint64_t slice_bytes, uint64_t elements)
      : schedule_(schedule), slice_bytes_(slice_bytes), elements_(elements) {}

  Answer plan(const Question& question) override {
    CHECK(question.kind == schedule_.collective().kind()) << to_string(question.kind);
    return {.schedule = &schedule_, .planner = "the plan", .slice_bytes = slice_bytes_, .elements = elements_};
  }
  bool plans_all_to_all() const override { return true; }
  // All ranks are on this host, whatever network the plan is for.
  std::vector<LinkBytes> bytes_on_links(const Call&) override { return {}; }
  std::optional<Way> way(uint32_t, const PlanLane&) const override { return std::nullopt; }
  std::vector<Way> ways_between(uint32_t, uint32_t) const override { return {}; }
  bool knows_ways() const override { return false; }
  std::string cable_name(uint32_t) const override { return ""; }
  std::shared_ptr<PlanSource> revised(const FabricUpdate&) const override {
    throw Error(ErrorCode::unsupported, "a run of one plan follows no other plan");
  }

 private:
  const Schedule& schedule_;
  const uint64_t slice_bytes_, elements_;
};

OperationKind operation_of(CollectiveKind kind, bool is_even) {
  switch (kind) {
    case CollectiveKind::all_gather:
      return is_even ? OperationKind::all_gather : OperationKind::all_gather_v;
    case CollectiveKind::reduce_scatter:
      return is_even ? OperationKind::reduce_scatter : OperationKind::reduce_scatter_v;
    case CollectiveKind::all_reduce:
      return OperationKind::all_reduce;
    case CollectiveKind::broadcast:
      return OperationKind::broadcast;
    case CollectiveKind::reduce:
      return OperationKind::reduce;
    case CollectiveKind::all_to_all:
      return is_even ? OperationKind::all_to_all : OperationKind::all_to_all_v;
    case CollectiveKind::gather:
    case CollectiveKind::scatter:
    case CollectiveKind::barrier:
      break;
  }
  CHECK(false) << "no plan is made for " << to_string(kind);
  return OperationKind::barrier;
}

// One rank's whole life.
class Runner {
 public:
  struct Task {
    const Schedule& schedule;
    uint64_t elements;
    element::Reduction reduction;
    uint64_t slice_bytes;
    Communicator::Transports transport;
    std::chrono::milliseconds timeout;
    ForkedMeeting& meeting;
  };
  Runner(const Task& task, const RankPlan& plan, const KnownData& data)
      : task_(task),
        plan_(plan),
        parts_(buffer_parts(task.schedule, plan.rank, task.elements)),
        data_(data),
        input_(plan.input_elements * size_of(task.reduction.type)),
        output_(plan.output_elements * size_of(task.reduction.type)) {}

  RankReport run(Laps& laps, uint32_t repeats) {
    const bool is_personal = task_.schedule.collective().is_personal();
    data_.fill(input_, plan_.rank, is_personal ? 0 : parts_.input_begin,
               is_personal ? plan_.input_elements : parts_.input_end);
    RegionPool pool;
    std::vector<uint32_t> everybody(plan_.ranks);
    std::iota(everybody.begin(), everybody.end(), 0u);
    Communicator::Options options = this->options();
    const std::unique_ptr<StoreServer> server = plan_.rank == 0 ? task_.meeting.serve() : nullptr;
    auto processes =
        JoinedProcesses::join(pool, {.url = task_.meeting.url(), .rank = plan_.rank, .size = plan_.ranks, .name = {}},
                              Secret(), Deadline::after(options.join_timeout));
    Communicator communicator(std::move(processes), 1, std::move(everybody), std::move(options));
    const Call call = this->call();
    data_.spoil(output_);
    communicator.run(call);
    report_.lane_bytes = meter_->take();
    check();
    for (uint32_t lap = 0; lap < repeats; ++lap) {
      if (lap + 1 == repeats) data_.spoil(output_);
      communicator.barrier();
      const uint64_t begin = nanoseconds_now();
      communicator.run(call);
      laps.record(lap, begin, nanoseconds_now());
      CHECK(meter_->take() == report_.lane_bytes) << "execution " << lap + 1 << " sent other bytes than the first";
    }
    if (repeats > 0) check();
    communicator.finalize();
    laps.finish();
    return report_;
  }

 private:
  Communicator::Options options() {
    // Our parent ends a run whose time is over.
    const std::chrono::milliseconds patience = task_.timeout + std::chrono::minutes(1);
    const auto source = std::make_shared<OnlyPlan>(task_.schedule, task_.slice_bytes, task_.elements);
    return {.name = "run",
            .timeout = patience,
            .join_timeout = patience,
            .progress = Communicator::Progress::by_nobody,
            .transports = task_.transport,
            .follows_plans = true,
            .plans = [source](const RankLayout&) { return source; },
            .around_transport =
                [this](std::unique_ptr<ChannelTransport> transport) {
                  auto meter = std::make_unique<LaneMeter>(std::move(transport), plan_);
                  meter_ = meter.get();
                  return meter;
                }};
  }

  // Keeps `shards_`, to which the call points.
  Call call() {
    const Collective& collective = task_.schedule.collective();
    if (collective.is_personal()) return all_to_all();
    for (uint32_t rank = 0; rank < plan_.ranks; ++rank) {
      const auto [begin, end] = task_.schedule.shard_range(rank, task_.elements);
      shards_.push_back(end - begin);
    }
    const bool is_even = std::equal(shards_.begin() + 1, shards_.end(), shards_.begin());
    Call call{.kind = operation_of(collective.kind(), is_even),
              .type = task_.reduction.type,
              .op = task_.reduction.op,
              .factor = KnownData::factor(plan_.rank),
              .other = root(),
              .send = input_.data(),
              .recv = output_.data(),
              .count = shards_[plan_.rank]};
    if (is_even) return call;
    call.count = 0;
    (collective.kind() == CollectiveKind::all_gather ? call.recv_counts : call.send_counts) = shards_;
    return call;
  }

  Call all_to_all() {
    const Collective& collective = task_.schedule.collective();
    for (uint32_t peer = 0; peer < plan_.ranks; ++peer) {
      shards_.push_back(collective.block_elements(plan_.rank, peer, task_.elements));
      received_.push_back(collective.block_elements(peer, plan_.rank, task_.elements));
    }
    Call call{.kind = operation_of(collective.kind(), !collective.has_traffic()),
              .type = task_.reduction.type,
              .send = input_.data(),
              .recv = output_.data()};
    if (!collective.has_traffic()) {
      call.count = shards_[plan_.rank];
      return call;
    }
    call.send_counts = shards_;
    call.recv_counts = received_;
    return call;
  }

  // Participant 0 where the collective has none.
  uint32_t root() const {
    const Collective& collective = task_.schedule.collective();
    const auto participants = collective.participants();
    const auto found = std::find(participants.begin(), participants.end(), collective.root());
    return collective.is_rooted() ? static_cast<uint32_t>(found - participants.begin()) : 0;
  }

  void check() {
    if (task_.schedule.collective().is_personal()) return check_blocks();
    if (task_.schedule.collective().kind() != CollectiveKind::all_gather) {
      return check_part(root(), parts_.output_begin, parts_.output_end);
    }
    uint64_t begin = 0;
    for (uint32_t owner = 0; owner < plan_.ranks; begin += shards_[owner++]) {
      check_part(owner, begin, begin + shards_[owner]);
    }
  }

  // What each rank had for this one stood behind what it had for those before.
  void check_blocks() {
    const Collective& collective = task_.schedule.collective();
    uint64_t at = 0;
    for (uint32_t owner = 0; owner < plan_.ranks; at += received_[owner++]) {
      uint64_t begin = 0;
      for (uint32_t before = 0; before < plan_.rank; ++before)
        begin += collective.block_elements(owner, before, task_.elements);
      check_part(owner, begin, begin + received_[owner], at);
    }
  }

  void check_part(uint32_t owner, uint64_t begin, uint64_t end) {
    check_part(owner, begin, end, begin - parts_.output_begin);
  }
  // The samples of positions [begin, end) of `owner`, which stand from `at` on in the output.
  void check_part(uint32_t owner, uint64_t begin, uint64_t end, uint64_t at) {
    const size_t size = size_of(task_.reduction.type);
    const std::span<const std::byte> part = std::span(output_).subspan(at * size, (end - begin) * size);
    const KnownData::Comparison comparison = data_.compare(part, owner, begin, end);
    RankReport::Answer& answer = report_.answer;
    if (comparison.wrong > 0 && answer.wrong == 0) {
      answer.first_wrong = comparison.first;
      answer.got = comparison.got;
      answer.expected = comparison.expected;
    }
    answer.wrong += comparison.wrong;
  }

  const Task& task_;
  const RankPlan& plan_;  // as the communicator makes it
  const BufferParts parts_;
  const KnownData& data_;
  std::vector<std::byte> input_, output_;
  std::vector<size_t> shards_;    // elements, by rank
  std::vector<size_t> received_;  // of an all-to-all, from each rank
  LaneMeter* meter_ = nullptr;    // of the communicator
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
                                          Bytes(static_cast<uint64_t>(std::min(needed, 9e18))).to_string() +
                                          ", but this machine has " + Bytes(available).to_string() +
                                          " of memory; give a smaller total or fewer ranks");
}

uint64_t slice_bytes(const LocalRunOptions& options) {
  const uint64_t slice = std::min(options.slice.count(), kMaxSliceBytes);
  if (slice < size_of(options.type))
    throw Error(ErrorCode::invalid_input, "a slice of " + options.slice.to_string() + " holds no element of " +
                                              std::string(to_string(options.type)));
  return slice - slice % size_of(options.type);
}

// Counts what a rank sent along its lanes for the links that they cross.
void add_sent(const RankPlan& plan, std::span<const uint64_t> lane_bytes, LocalRunReport& summary) {
  for (size_t i = 0; i < plan.lanes.size(); ++i) {
    summary.bytes_sent += lane_bytes[i];
    for (const LinkId link : plan.lanes[i].to_peer) summary.link_bytes[index(link)] += lane_bytes[i];
  }
}

LocalRunReport summarize(const std::vector<std::string>& reports, std::span<const RankPlan> plans, size_t links,
                         const Laps& laps) {
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
  if (const std::vector<double> times = laps.times(); !times.empty()) {
    const size_t half = times.size() / 2;
    summary.min_seconds = times.front();
    summary.median_seconds = times.size() % 2 == 1 ? times[half] : (times[half - 1] + times[half]) / 2;
  }
  return summary;
}

}  // namespace

Communicator::Transports parse_transport(std::string_view text) {
  NearestName nearest(text);
  for (const auto transport : {Communicator::Transports::automatic, Communicator::Transports::tcp}) {
    if (to_string(transport) == text) return transport;
    nearest.offer(to_string(transport));
  }
  if (text == "ucx") {
    throw Error(ErrorCode::invalid_input,
                "'ucx' is for programs: BANYAN_TRANSPORT=ucx banyan run -n 4 -- PROGRAM; here shm or tcp");
  }
  throw Error(ErrorCode::invalid_input,
              "unknown transport '" + std::string(text.substr(0, 60)) + "'" + nearest.hint() + "; known are shm, tcp");
}

std::string_view to_string(Communicator::Transports transport) {
  return transport == Communicator::Transports::tcp ? "tcp" : "shm";
}

LocalRunReport run_locally(const Schedule& schedule, const LocalRunOptions& options) {
  const uint64_t elements = options.total.count() / size_of(options.type);
  if (elements == 0)
    throw Error(ErrorCode::invalid_input, "a total of " + options.total.to_string() + " holds no element of " +
                                              std::string(to_string(options.type)));
  ForkedMeeting meeting;
  const Runner::Task task{.schedule = schedule,
                          .elements = elements,
                          .reduction = {.type = options.type, .op = options.op},
                          .slice_bytes = slice_bytes(options),
                          .transport = options.transport,
                          .timeout = options.timeout,
                          .meeting = meeting};
  expect_reducible(options.type, options.op);
  const std::vector<RankPlan> plans = make_rank_plans(schedule, elements);
  expect_memory_for(plans, size_of(options.type));
  const KnownData data(schedule.collective(), task.reduction);
  const auto ranks = static_cast<uint32_t>(plans.size());
  Laps laps(ranks, options.repeats);
  const auto reports = run_processes(ranks, options.timeout, [&](uint32_t rank) {
    return to_bytes(Runner(task, plans[rank], data).run(laps, options.repeats));
  });
  LocalRunReport report = summarize(reports, plans, schedule.fabric().links().size(), laps);
  report.elements = elements;
  report.slice_bytes = task.slice_bytes;
  return report;
}

}  // namespace banyan::run
