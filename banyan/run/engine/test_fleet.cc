#include "banyan/run/engine/test_fleet.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>

#include "banyan/base/check.h"
#include "banyan/element/data_type.h"

namespace banyan::run {
namespace {

uint64_t mixed(uint64_t a, uint64_t b, uint64_t c) {
  uint64_t x = a * 0x9e37'79b9'7f4a'7c15 + b * 0xbf58'476d'1ce4'e5b9 + c * 0x94d0'49bb'1331'11eb + 1;
  x = (x ^ (x >> 30)) * 0xbf58'476d'1ce4'e5b9;
  x = (x ^ (x >> 27)) * 0x94d0'49bb'1331'11eb;
  return x ^ (x >> 31);
}

uint64_t extent(std::span<const Block> blocks) {
  uint64_t end = 0;
  for (const Block& block : blocks) end = std::max(end, block.count == 0 ? 0 : block.at + block.count);
  return end;
}

}  // namespace

std::vector<uint32_t> peers_of(const RankPlan& plan) {
  std::vector<uint32_t> peers;
  for (uint32_t peer = 0; peer < plan.ranks; ++peer) {
    if (plan.streams_to[peer] + plan.streams_from[peer] > 0) peers.push_back(peer);
  }
  return peers;
}

bool has_schedule(OperationKind kind) {
  const auto collective = collective_of(kind);
  return collective && is_planned(*collective) && !is_personal(*collective);
}

TestOperation::TestOperation(const Options& asked)
    : options(asked),
      signature(mixed(static_cast<uint64_t>(asked.kind), asked.elements, static_cast<uint64_t>(asked.type))),
      random_(asked.seed),
      size_(size_of(asked.type)),
      ranks_(asked.ranks) {
  draw_blocks();
  use_trees(asked.seed);
  set_sizes();
  lay_out(sources());
  fill();
}

// Blocks in the order of the ranks, with gaps between them; some are empty.
void TestOperation::draw_blocks() {
  const uint32_t n = options.ranks;
  const uint64_t most = options.elements / n + 1;
  const bool is_uniform = options.kind == OperationKind::all_to_all;
  std::vector<std::vector<uint64_t>> counts(n, std::vector<uint64_t>(n));
  for (auto& row : counts) {
    for (uint64_t& count : row) count = is_uniform ? most : below(4) == 0 ? 0 : below(most + 1);
  }
  const auto pack = [&](const std::function<uint64_t(uint32_t)>& count_of) {
    std::vector<Block> blocks;
    uint64_t at = 0;
    for (uint32_t i = 0; i < n; ++i) {
      at += is_uniform ? 0 : below(3);
      blocks.push_back({.at = at, .count = count_of(i)});
      at += count_of(i);
    }
    return blocks;
  };
  for (uint32_t rank = 0; rank < n; ++rank) {
    blocks_.push_back(pack([&](uint32_t peer) { return counts[rank][peer]; }));
    received_.push_back(pack([&](uint32_t peer) { return counts[peer][rank]; }));
  }
  if (options.in_place &&
      options.kind == OperationKind::all_to_all_v) {  // the same counts both ways, at the same places
    for (uint32_t a = 0; a < n; ++a) {
      for (uint32_t b = 0; b < a; ++b) counts[a][b] = counts[b][a];
    }
    for (uint32_t rank = 0; rank < n; ++rank) {
      received_[rank] = blocks_[rank] = pack([&](uint32_t peer) { return counts[rank][peer]; });
    }
  }
  if (options.kind != OperationKind::group) return;
  // Some messages between random pairs, in an order that sender and receiver share.
  transfers_.resize(n);
  std::vector<uint64_t> sent(n), taken(n);
  for (uint32_t i = 0; i < 3 * n; ++i) {
    const auto from = static_cast<uint32_t>(below(n)), to = static_cast<uint32_t>(below(n));
    const uint64_t count = below(most + 1);
    transfers_[from].push_back({.is_send = true, .peer = to, .block = {.at = sent[from], .count = count}});
    transfers_[to].push_back({.is_send = false, .peer = from, .block = {.at = taken[to], .count = count}});
    sent[from] += count;
    taken[to] += count;
  }
}

void TestOperation::use_trees(uint64_t seed) {
  const std::optional<Schedule> schedule = this->schedule(seed);
  std::vector<uint32_t> members(options.ranks);
  std::iota(members.begin(), members.end(), 0);
  for (uint32_t rank = 0; rank < options.ranks; ++rank) {
    RankPlan plan = make_plan(schedule ? &*schedule : nullptr, rank);
    if (options.is_confirmed) add_confirmation(plan, members);
    ranks_[rank].plan = std::make_shared<RankPlan>(std::move(plan));
  }
}

std::optional<Schedule> TestOperation::schedule(uint64_t seed) const {
  if (!has_schedule(options.kind)) return std::nullopt;
  CHECK(options.ranks > 1) << "no schedule is for one rank";
  return testing::sample_forest({.kind = *collective_of(options.kind),
                                 .ranks = options.ranks,
                                 .trees_per_root = options.trees_per_root,
                                 .root = is_rooted(options.kind) ? options.root : 0,
                                 .shape = options.shape,
                                 .seed = seed});
}

RankPlan TestOperation::make_plan(const Schedule* schedule, uint32_t rank) const {
  const RankAndSize own{.rank = rank, .ranks = options.ranks};
  const uint32_t root = options.root;
  switch (options.kind) {
    case OperationKind::all_gather_v:
    case OperationKind::reduce_scatter_v:
      return make_block_plan(*schedule, blocks_[0], rank);
    case OperationKind::all_to_all:
    case OperationKind::all_to_all_v:
      return make_all_to_all_plan(own, blocks_[rank], received_[rank]);
    case OperationKind::gather:
      return make_gather_plan(own, root, blocks_[0][rank].count, blocks_[0]);
    case OperationKind::scatter:
      return make_scatter_plan(own, root, blocks_[0], blocks_[0][rank].count);
    case OperationKind::group:
      return make_transfer_plan(own, transfers_[rank]);
    case OperationKind::barrier:
      return make_barrier_plan(own);
    default:
      return make_rank_plan(*schedule, options.elements, rank);
  }
}

// How much every rank gives and gets, and where its part of the whole lies.
void TestOperation::set_sizes() {
  for (uint32_t rank = 0; rank < options.ranks; ++rank) {
    const uint64_t elements = options.elements;
    Rank& own = ranks_[rank];
    const bool is_root = rank == options.root;
    const uint64_t begin = share_at(rank), count = share_at(rank + 1) - begin;
    const Block block = blocks_[0][rank];
    switch (options.kind) {
      case OperationKind::all_gather:
        own.input = count, own.output = elements, own.input_at = begin;
        break;
      case OperationKind::reduce_scatter:
        own.input = elements, own.output = count, own.output_at = begin;
        break;
      case OperationKind::all_reduce:
        own.input = own.output = elements;
        break;
      case OperationKind::broadcast:
        own.input = is_root ? elements : 0, own.output = elements;
        break;
      case OperationKind::reduce:
        own.input = elements, own.output = is_root ? elements : 0;
        break;
      case OperationKind::all_gather_v:
        own.input = block.count, own.output = extent(blocks_[0]), own.input_at = block.at;
        break;
      case OperationKind::reduce_scatter_v:
        own.input = extent(blocks_[0]), own.output = block.count, own.output_at = block.at;
        break;
      case OperationKind::all_to_all:
      case OperationKind::all_to_all_v:
        own.input = extent(blocks_[rank]), own.output = extent(received_[rank]);
        break;
      case OperationKind::gather:
        own.input = block.count, own.output = is_root ? extent(blocks_[0]) : 0, own.input_at = is_root ? block.at : 0;
        break;
      case OperationKind::scatter:
        own.input = is_root ? extent(blocks_[0]) : 0, own.output = block.count, own.output_at = is_root ? block.at : 0;
        break;
      default:
        for (const Transfer& transfer : transfers_.empty() ? std::vector<Transfer>() : transfers_[rank]) {
          uint64_t& size = transfer.is_send ? own.input : own.output;
          size = std::max(size, transfer.block.count == 0 ? 0 : transfer.block.at + transfer.block.count);
        }
    }
  }
}

// Where each element of a rank's output comes from.
TestOperation::Sources TestOperation::sources() const {
  const auto all = [n = options.ranks](uint64_t at) {
    std::vector<Source> everybody;
    for (uint32_t rank = 0; rank < n; ++rank) everybody.push_back({rank, at});
    return everybody;
  };
  const auto block_at = [](const std::vector<Block>& blocks, uint64_t at) {
    for (uint32_t i = 0; i < blocks.size(); ++i) {
      if (at >= blocks[i].at && at < blocks[i].at + blocks[i].count) return std::optional(i);
    }
    return std::optional<uint32_t>();
  };
  return [=, this](uint32_t rank, uint64_t at) -> std::vector<Source> {
    switch (options.kind) {
      case OperationKind::all_gather: {
        uint32_t owner = 0;
        while (at >= share_at(owner + 1)) ++owner;
        return {{owner, at - share_at(owner)}};
      }
      case OperationKind::reduce_scatter:
        return all(share_at(rank) + at);
      case OperationKind::all_reduce:
      case OperationKind::reduce:
        return all(at);
      case OperationKind::broadcast:
        return {{options.root, at}};
      case OperationKind::all_gather_v:
      case OperationKind::gather:
        if (const auto owner = block_at(blocks_[0], at)) return {{*owner, at - blocks_[0][*owner].at}};
        return {};
      case OperationKind::reduce_scatter_v:
        return all(blocks_[0][rank].at + at);
      case OperationKind::all_to_all:
      case OperationKind::all_to_all_v:
        if (const auto from = block_at(received_[rank], at))
          return {{*from, blocks_[*from][rank].at + at - received_[rank][*from].at}};
        return {};
      case OperationKind::scatter:
        return {{options.root, blocks_[0][rank].at + at}};
      default:
        break;
    }
    // The k-th transfer of a pair here is the k-th of the pair there.
    std::map<uint32_t, uint32_t> seen;
    for (const Transfer& mine : transfers_[rank]) {
      if (mine.is_send) continue;
      const uint32_t number = seen[mine.peer]++;
      if (at < mine.block.at || at >= mine.block.at + mine.block.count) continue;
      uint32_t theirs = 0;
      for (const Transfer& sent : transfers_[mine.peer]) {
        if (sent.is_send && sent.peer == rank && theirs++ == number)
          return {{mine.peer, sent.block.at + at - mine.block.at}};
      }
    }
    return {};
  };
}

void TestOperation::lay_out(const Sources& sources) {
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    Rank& own = ranks_[rank];
    const bool can = options.kind != OperationKind::group;
    if (!options.in_place || !can) {
      own.input_at = 0;
      own.output_at = own.input;
    }
    own.memory.resize(std::max(own.input_at + own.input, own.output_at + own.output) * size_);
    own.expected.assign(own.output * size_, std::byte{0xEE});
    for (uint64_t at = 0; at < own.output; ++at) {
      const std::vector<Source> of = sources(rank, at);
      if (options.has_residual) own.sources.push_back(of);
      if (!of.empty()) {
        write_answer(of, own.expected.data() + at * size_);
      } else if (options.in_place && can && at >= own.input_at && at < own.input_at + own.input) {
        write_sample(rank, at - own.input_at, own.expected.data() + at * size_);  // between the blocks
      }
    }
  }
}

void TestOperation::fill() {
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    Rank& own = ranks_[rank];
    std::fill(own.memory.begin(), own.memory.end(), std::byte{0xEE});
    for (uint64_t at = 0; at < own.input; ++at) write_sample(rank, at, own.memory.data() + (own.input_at + at) * size_);
    if (!options.has_residual) continue;
    for (uint64_t at = 0; at < own.input; ++at)
      own.residual.push_back(static_cast<float>(mixed(at, rank, options.seed) % 1000) - 500);
    own.lost.assign(own.input, NAN);
  }
}

// Whole numbers, small enough that every type holds every partial result exactly.
double TestOperation::sample(uint32_t rank, uint64_t at) const {
  if (options.op == element::ReduceOp::prod) return mixed(0, at, options.seed) % options.ranks == rank ? 2 : 1;
  return 1 + static_cast<double>(mixed(rank, at, options.seed) % 7);
}

void TestOperation::write_sample(uint32_t rank, uint64_t at, std::byte* element) const {
  if (reduces(options.kind) || options.has_residual) return write_element(options.type, element, sample(rank, at));
  const uint64_t bits = mixed(rank, at, options.seed);
  std::memcpy(element, &bits, size_);
}

void TestOperation::write_answer(std::span<const Source> sources, std::byte* element) const {
  if (!reduces(options.kind)) return write_sample(sources[0].rank, sources[0].at, element);
  double value = sample(sources[0].rank, sources[0].at);
  for (const Source& source : sources.subspan(1)) {
    const double next = sample(source.rank, source.at);
    switch (options.op) {
      case element::ReduceOp::prod:
        value *= next;
        break;
      case element::ReduceOp::min:
        value = std::min(value, next);
        break;
      case element::ReduceOp::max:
        value = std::max(value, next);
        break;
      default:
        value += next;
    }
  }
  if (options.op == element::ReduceOp::avg) {
    const double n = options.ranks;
    if (options.type == element::DataType::float64) {
      value /= n;
    } else if (is_floating(options.type)) {
      value = static_cast<float>(value) / static_cast<float>(n);
    } else {
      value = std::floor(value / n);
    }
  }
  write_element(options.type, element, value);
}

EngineCommand TestOperation::command(uint32_t rank, uint64_t sequence) {
  Rank& own = ranks_[rank];
  return {.plan = own.plan,
          .task = {.type = options.type, .op = options.op, .divisor = options.ranks},
          .sequence = sequence,
          .signature = {signature},
          .input = std::span(own.memory).subspan(own.input_at * size_, own.input * size_),
          .output = std::span(own.memory).subspan(own.output_at * size_, own.output * size_),
          .codec = options.codec,
          .residual = std::as_bytes(std::span(own.residual)),
          .lost = std::as_writable_bytes(std::span(own.lost))};
}

void TestOperation::take_result(uint32_t rank) {
  Rank& own = ranks_[rank];
  const auto begin = own.memory.begin() + static_cast<ptrdiff_t>(own.output_at * size_);
  own.result.assign(begin, begin + static_cast<ptrdiff_t>(own.output * size_));
  std::fill(own.memory.begin(), own.memory.end(), std::byte{0xDD});
  own.result_lost = own.lost;
  std::fill(own.lost.begin(), own.lost.end(), NAN);
}

uint64_t TestOperation::wrong_elements() const {
  uint64_t wrong = 0;
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) wrong += wrong_elements(rank);
  return wrong;
}

uint64_t TestOperation::wrong_elements(uint32_t number) const {
  const Rank& rank = ranks_[number];
  if (rank.result.size() != rank.expected.size()) return std::max<uint64_t>(1, rank.expected.size() / size_);
  uint64_t wrong = 0;
  for (size_t at = 0; at < rank.expected.size(); at += size_) {
    const bool is_right = options.has_residual && !rank.sources[at / size_].empty()
                              ? is_conserved(rank, at / size_)
                              : std::memcmp(rank.result.data() + at, rank.expected.data() + at, size_) == 0;
    wrong += is_right ? 0 : 1;
  }
  return wrong;
}

bool TestOperation::is_conserved(const Rank& rank, uint64_t at) const {
  double mass = 0;
  for (const Source& source : rank.sources[at]) {
    const Rank& from = ranks_[source.rank];
    mass += sample(source.rank, source.at) + from.residual[source.at] - from.result_lost[source.at];
  }
  const double result = read_element(options.type, rank.result.data() + at * size_);
  if (!reduces(options.kind) || options.op != element::ReduceOp::avg) return result == mass;
  return std::abs(result * options.ranks - mass) <= 1e-5 * std::abs(mass);
}

std::string TestOperation::words() const {
  return std::string(to_string(options.kind)) + " of " + std::to_string(options.elements) + " " +
         std::string(to_string(options.type)) + " " + std::string(to_string(options.op)) + " on " +
         std::to_string(options.ranks) + " ranks" + (options.in_place ? ", in place" : "") + ", seed " +
         std::to_string(options.seed);
}

// ---- Fleet ----

Fleet::Fleet(uint32_t ranks, const EngineOptions& options, const testing::SimulatedWorld::Options& world)
    : world_(world), ranks_(ranks) {
  EngineOptions with_lanes = options;
  with_lanes.channel = [this, lanes = world.lanes](const LaneUse& use) {
    return world_.channel(use.peer, use.lane % lanes);
  };
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    engines_.push_back(std::make_unique<Engine>(world_.transport(rank), with_lanes));
  }
}

// One thing that one rank does. Whether anything moved.
bool Fleet::step(std::vector<TestOperation>& operations, uint32_t most_in_flight) {
  const auto number = static_cast<uint32_t>(world_.draw(engines_.size()));
  Rank& rank = ranks_[number];
  Engine& engine = *engines_[number];
  bool moved = world_.draw(3) == 0 && world_.deliver_some();
  if (rank.begun < operations.size() && rank.under_way.size() < most_in_flight && world_.draw(2) == 0) {
    const Engine::Ticket ticket = engine.start(operations[rank.begun].command(number, sequences_ + rank.begun));
    rank.under_way.emplace(rank.begun++, ticket);
    moved = true;
  } else {
    moved |= engine.progress(step_budget);
  }
  std::erase_if(rank.under_way, [&](const auto& entry) {
    if (!engine.is_done(entry.second) || world_.has_unsent(number)) return false;
    operations[entry.first].take_result(number);
    return true;
  });
  return moved;
}

bool Fleet::run(std::vector<TestOperation>& operations, uint32_t most_in_flight) {
  return run_with_losses(operations, 0, most_in_flight);
}

bool Fleet::run_with_losses(std::vector<TestOperation>& operations, uint64_t writes_between, uint32_t most_in_flight) {
  for (Rank& rank : ranks_) rank = {};
  const auto is_over = [&](const Rank& rank) { return rank.begun == operations.size() && rank.under_way.empty(); };
  uint64_t idle = 0;
  while (!std::all_of(ranks_.begin(), ranks_.end(), is_over)) {
    if (writes_between > 0 && losses_ < 3) {
      world_.break_a_lane_after(1 + world_.draw(writes_between));
      writes_between = 0;
    }
    const uint32_t before = losses_;
    bool moved = false;
    try {
      moved = step(operations, most_in_flight);
    } catch (const Error& error) {
      if (!world_.has_broken()) throw;
      recover(operations);
    }
    if (losses_ > before) writes_between = 1 + world_.draw(400);
    // Calls fail at random one time in four, so that nothing moves so often only when nothing can.
    idle = moved || losses_ > before ? 0 : idle + 1;
    if (idle > 400 * ranks_.size() + 1000) return false;
  }
  sequences_ += operations.size();
  return true;
}

// What engine.h asks of a runtime: all suspend, and agree about every operation. Those from some number on are dropped,
// and started again.
void Fleet::recover(std::vector<TestOperation>& operations) {
  ++losses_;
  std::vector<std::vector<Engine::Suspended>> suspended;
  for (const auto& engine : engines_) suspended.push_back(engine->suspend());
  std::vector<bool> is_done_somewhere(operations.size(), false);
  for (uint32_t number = 0; number < ranks_.size(); ++number) {
    const Rank& rank = ranks_[number];
    for (size_t i = 0; i < rank.begun; ++i) {
      const auto found = rank.under_way.find(i);
      if (found == rank.under_way.end() || engines_[number]->is_done(found->second)) is_done_somewhere[i] = true;
    }
  }
  for (size_t i = 0; i < operations.size(); ++i) {
    if (!is_done_somewhere[i]) operations[i].use_trees(operations[i].options.seed + 1000 * losses_);
  }
  world_.mend();
  const size_t anew = world_.draw(2 * operations.size());
  for (uint32_t number = 0; number < ranks_.size(); ++number) {
    for (const Engine::Suspended& one : suspended[number]) {
      const size_t i = one.sequence - sequences_;
      if (is_done_somewhere[i]) {
        CHECK(one.has_result) << operations[i].words();
        engines_[number]->complete(one.ticket);
      } else if (i >= anew) {
        engines_[number]->drop(one.ticket);
      } else {
        engines_[number]->restart(one.ticket, operations[i].command(number, one.sequence).plan);
      }
    }
    Rank& rank = ranks_[number];
    std::erase_if(rank.under_way, [&](const auto& entry) {
      if (!is_done_somewhere[entry.first] || !engines_[number]->is_done(entry.second)) return false;
      operations[entry.first].take_result(number);
      return true;
    });
    for (auto& [i, ticket] : rank.under_way) {  // in their order
      if (i >= anew && !is_done_somewhere[i])
        ticket = engines_[number]->start(operations[i].command(number, sequences_ + i));
    }
  }
}

std::string Fleet::waiting() const {
  std::string text;
  for (uint32_t rank = 0; rank < engines_.size(); ++rank) {
    for (const Engine::Waiting& waiting : engines_[rank]->waiting_for()) {
      text += "\nrank " + std::to_string(rank) + " operation " + std::to_string(waiting.sequence) + " waits for";
      for (const uint32_t peer : waiting.peers) text += " " + std::to_string(peer);
    }
  }
  return text;
}

RandomWorld::RandomWorld(uint64_t number, uint32_t most_ranks) : seed(number), random(number) {
  const uint32_t ranks = 2 + static_cast<uint32_t>(below(most_ranks - 1));
  engine = {.slice_bytes = 1 + below(200), .window = 1 + static_cast<uint32_t>(below(4))};
  world = {.ranks = ranks,
           .most_capacity = below(2) == 0 ? size_t{8} : size_t{600},
           .seed = seed,
           .lanes = 1 + static_cast<uint32_t>(below(2)),
           .reads_late = below(2) == 0};
}

void RandomWorld::add(const std::function<void(TestOperation::Options&)>& change) {
  TestOperation::Options options{.kind = kTestKinds[below(kTestKinds.size())],
                                 .ranks = world.ranks,
                                 .type = static_cast<element::DataType>(below(element::kDataTypes)),
                                 .op = static_cast<element::ReduceOp>(below(5)),
                                 .in_place = below(2) == 0,
                                 .elements = 1 + below(below(2) == 0 ? 12 : 400),
                                 .root = static_cast<uint32_t>(below(world.ranks)),
                                 .trees_per_root = 1 + static_cast<uint32_t>(below(4)),
                                 .shape = static_cast<testing::TreeShape>(below(3)),
                                 .is_confirmed = below(3) == 0,
                                 .seed = random()};
  if (change) change(options);
  operations.push_back(TestOperation(options));
}

std::string RandomWorld::fault(uint64_t writes_between) {
  Fleet fleet(world.ranks, engine, world);
  fleet.step_budget = step_budget;
  std::string text;
  if (!fleet.run_with_losses(operations, writes_between, most_in_flight)) text = "stuck" + fleet.waiting() + "; ";
  for (const TestOperation& operation : operations) {
    if (operation.wrong_elements() > 0) text += "wrong: " + operation.words() + "; ";
  }
  losses += fleet.losses();
  if (fleet.losses() == 0 && !fleet.world().is_quiet()) text += "messages nobody took; ";
  // What was kept for repeating is given back.
  for (uint32_t rank = 0; rank < world.ranks; ++rank) {
    if (fleet.engine(rank).pool().taken_bytes() > 0) text += "memory is held by rank " + std::to_string(rank) + "; ";
  }
  return text.empty() ? "" : "seed " + std::to_string(seed) + ": " + text;
}

}  // namespace banyan::run
