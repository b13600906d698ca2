#include "banyan/predict/train/generate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/predict/cost/operators.h"
#include "banyan/predict/train/estimate.h"
#include "banyan/predict/train/layers.h"
#include "banyan/predict/train/pipeline.h"
#include "banyan/predict/train/step_costs.h"

namespace banyan::predict {
namespace {

enum PeerKind : size_t { kNext, kPrevious, kPeerKinds };
enum StreamKind : uint16_t {
  kCompute,
  kGradients,
  kSendForward,
  kReceiveForward,
  kSendBackward,
  kReceiveBackward,
  kCoder,
  kScatter,
  kCross,
  kGather
};
constexpr std::array<const char*, 10> kStreamNames = {
    "compute",          "gradients", "send forward",     "receive forward",         "send backward",
    "receive backward", "coder",     "scatter in boxes", "gradients between boxes", "gather in boxes"};
constexpr size_t kPlainStreams = 6, kCodedStreams = 7;  // without codes; with codes, but none between boxes
constexpr uint32_t kNone = UINT32_MAX;

uint64_t whole_bytes(double bytes) { return static_cast<uint64_t>(std::llround(bytes)); }

// Places of a stage's program, in the order in which the program came to use them.
struct StageSlots {
  StageSlots() {
    groups.fill(kNone);
    peers.fill(kNone);
  }
  uint32_t of(GroupKind kind) {
    if (groups[kind] == kNone) groups[kind] = group_count++;
    return groups[kind];
  }
  uint32_t of(PeerKind kind) {
    if (peers[kind] == kNone) peers[kind] = peer_count++;
    return peers[kind];
  }

  std::array<uint32_t, kGroupKinds> groups;
  std::array<uint32_t, kPeerKinds> peers;
  uint32_t group_count = 0, peer_count = 0;
};

// A collective of a stage.
struct StageCollective {
  const char* name;
  CollectiveKind kind;
  GroupKind group;
  uint64_t bytes;
};

// The nodes of one stage's program: what computes, what communicates, and what the next node on the compute stream must
// wait for. Counts for how long the compute stream is at work.
class StageNodes {
 public:
  StageNodes(Job::Builder& builder, const TrainConfig& config, const Device& device, const StepGroups& groups)
      : builder_(builder), config_(config), device_(device), groups_(groups) {}

  const StageSlots& slots() const { return slots_; }

 protected:
  uint32_t add(const job::Node& node, std::initializer_list<uint32_t> needs = {}) {
    const uint32_t number = builder_.add_node(node);
    for (const uint32_t need : needs) {
      if (need != kNone) builder_.add_need(number, need);
    }
    if (node.stream == kCompute) last_compute_ = number;
    return number;
  }

  void at_work(double seconds) { backward_ += seconds, unit_backward_ += seconds; }

  uint32_t compute(const char* name, const PassCosts& cost, uint32_t need = kNone) {
    at_work(cost.seconds);
    return add({.kind = job::NodeKind::compute,
                .stream = kCompute,
                .name = builder_.add_name(name),
                .duration = to_picoseconds(cost.seconds),
                .fixed = to_picoseconds(cost.fixed),
                .flop = cost.flop},
               {need, take_arrival()});
  }

  uint32_t memory(job::Node node, const char* name, const PassCosts& cost, uint32_t need) {
    node.kind = job::NodeKind::memory;
    node.name = builder_.add_name(name);
    node.duration = to_picoseconds(cost.seconds);
    node.fixed = to_picoseconds(cost.fixed);
    return add(node, {need});
  }

  // On the compute stream. Nothing, where the group is one rank. Returns the node, or kNone.
  uint32_t collective(const char* name, CollectiveKind kind, GroupKind group, uint64_t bytes) {
    return collective({name, kind, group, bytes}, kCompute, kNone);
  }
  uint32_t collective(const StageCollective& what, StreamKind stream, uint32_t need) {
    if (groups_.size(what.group) < 2 || what.bytes == 0) return kNone;
    if (stream == kCompute) {
      const GroupShape shape{.ranks = groups_.size(what.group), .stride = 1};
      at_work(collective_seconds(what.kind, static_cast<double>(what.bytes), shape, device_.cluster, device_.links));
    }
    return add({.kind = job::NodeKind::collective,
                .collective = what.kind,
                .stream = stream,
                .name = builder_.add_name(what.name),
                .slot = slots_.of(what.group),
                .bytes = what.bytes},
               {need, stream == kCompute ? take_arrival() : kNone});
  }

  uint32_t message(StreamKind stream, PeerKind peer, uint32_t tag, uint32_t need) {
    const bool share = config_.sequence_parallel || config_.scatter_gather;
    const bool is_send = stream == kSendForward || stream == kSendBackward;
    return add({.kind = is_send ? job::NodeKind::send : job::NodeKind::receive,
                .stream = stream,
                .name = builder_.add_name(kStreamNames[stream]),
                .slot = slots_.of(peer),
                .tag = tag,
                .bytes = std::max<uint64_t>(1, hidden_bytes(config_) / (share ? config_.tp : 1))},
               {need});
  }

  // The receive that no node needs yet.
  uint32_t take_arrival() { return std::exchange(arrival_, kNone); }

  Job::Builder& builder_;
  const TrainConfig& config_;
  const Device& device_;
  const StepGroups& groups_;
  uint32_t last_compute_ = kNone, arrival_ = kNone;
  double backward_ = 0, unit_backward_ = 0;  // as in ReducedGradients

 private:
  StageSlots slots_;
};

// Writes the program of one stage.
class StageWriter : public StageNodes {
 public:
  StageWriter(const StageNodes& nodes, const StepCosts& costs, uint32_t stage, const GradientPlan& plan)
      : StageNodes(nodes),
        costs_(costs),
        stage_(stage),
        codes_(stage < plan.codes.size() ? plan.codes[stage] : std::vector<std::optional<GradientCode>>()),
        bucket_(plan.bucket.value_or(config_.bucket)),
        cuts_(stage < plan.cuts.size() ? plan.cuts[stage] : std::vector<uint32_t>()) {
    last_of_way_.fill(kNone);
  }

  void write() {
    builder_.begin_program();
    size_t streams = kPlainStreams;
    for (const std::optional<GradientCode>& code : codes_) {
      if (code) streams = std::max(streams, code->is_between_boxes ? kStreamNames.size() : kCodedStreams);
    }
    // Buckets of several levels come to the coder in no certain order.
    for (size_t stream = 0; stream < streams; ++stream)
      builder_.add_stream({.name = kStreamNames[stream],
                           .order = stream == kCoder ? job::Stream::Order::ready : job::Stream::Order::program});
    const PipelineShape shape{.stages = config_.pp,
                              .chunks = config_.interleave,
                              .micro_batches = static_cast<uint32_t>(config_.micro_batches())};
    for (const PipelineStep& step : pipeline_order(shape, stage_)) {
      last_micro_batch_ = step.micro_batch + 1 == shape.micro_batches;
      chunk_ = step.chunk * config_.pp + stage_;
      step.backward ? backward() : forward();
    }
    finish();
  }

  const std::vector<ReducedGradients>& reduced() const { return reduced_; }
  const std::vector<ReducedGradients>& units() const { return units_; }

 private:
  // Of a bucket.
  enum Way : size_t { kAsTheyAre, kCoded, kCodedBetween, kWays };

  bool is_first_chunk() const { return chunk_ == 0; }
  bool is_last_chunk() const { return chunk_ + 1 == config_.chunks(); }

  void arrive(StreamKind stream, PeerKind from, uint32_t tag) {
    arrival_ = message(stream, from, tag, kNone);
    // Input that came in shares is put together again.
    if (config_.scatter_gather && !config_.sequence_parallel)
      collective("gather input", CollectiveKind::all_gather, kTensor, hidden_bytes(config_));
  }

  // The collective in front of a column-split matrix; its counterpart behind a row-split one, in both passes.
  void enter() {
    if (config_.sequence_parallel)
      collective("gather sequence", CollectiveKind::all_gather, kTensor, hidden_bytes(config_));
  }
  void leave() {
    if (config_.sequence_parallel)
      collective("scatter sequence", CollectiveKind::reduce_scatter, kTensor, hidden_bytes(config_));
    else
      collective("tensor allreduce", CollectiveKind::all_reduce, kTensor, hidden_bytes(config_));
  }

  // A block whose parameters may have to be gathered first (ZeRO 3).
  void layer_compute(const char* name, const PassCosts& cost) {
    const uint32_t parameters = std::exchange(gathered_, kNone);
    const uint32_t node = compute(name, cost, parameters);
    if (parameters != kNone) layer_begin_ = node;
  }

  void dense_block(const char* name, const PassCosts& cost) {
    enter();
    layer_compute(name, cost);
    leave();
  }

  void experts(const char* name, const PassCosts& cost) {
    collective("dispatch tokens", CollectiveKind::all_to_all, kExpert, dispatch_bytes(config_));
    // Slices of an expert need each other's tokens.
    const uint64_t bytes = hidden_bytes(config_) * config_.model.top_k;
    if (config_.sequence_parallel) collective("gather tokens", CollectiveKind::all_gather, kTensor, bytes);
    layer_compute(name, cost);
    collective("expert sum", config_.sequence_parallel ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce,
               kTensor, bytes);
    collective("return tokens", CollectiveKind::all_to_all, kExpert, dispatch_bytes(config_));
  }

  void layer_forward(const char* attention, const char* mlp, const char* expert) {
    gather_parameters();
    dense_block(attention, costs_.attention.forward);
    if (config_.model.experts == 0) return dense_block(mlp, costs_.mlp.forward);
    compute(mlp, costs_.mlp.forward);
    experts(expert, costs_.experts.forward);
  }

  void layer_backward() {
    if (config_.recompute == Recompute::full)
      layer_forward("recompute attention", "recompute MLP", "recompute experts");
    else
      gather_parameters();
    if (config_.model.experts == 0) {
      dense_block("backward MLP", costs_.mlp.backward);
    } else {
      experts("backward experts", costs_.experts.backward);
      compute("backward router", costs_.mlp.backward);
    }
    dense_block("backward attention", costs_.attention.backward);
    reduce(layer_dense_parameters(config_), layer_expert_parameters(config_));
  }

  void forward() {
    if (is_first_chunk()) {
      compute("embedding", costs_.embedding.forward);
      leave();
    } else {
      arrive(kReceiveForward, kPrevious, tag(chunk_ - 1, false));
    }
    for (uint32_t layer = 0; layer < config_.layers_of_chunk(chunk_); ++layer)
      layer_forward("forward attention", config_.model.experts > 0 ? "forward router" : "forward MLP",
                    "forward experts");
    if (!is_last_chunk()) {
      message(kSendForward, kNext, tag(chunk_, false), last_compute_);
      return;
    }
    enter();
    compute("output layer", costs_.head.forward);
    // Cross entropy over a split vocabulary: maximum, sum of exponentials, the right word's logit.
    for (const char* name : {"loss maximum", "loss sum", "loss target"})
      collective(name, CollectiveKind::all_reduce, kTensor, whole_bytes(4 * config_.tokens()));
  }

  void backward() {
    if (is_last_chunk()) {
      compute("backward output layer", costs_.head.backward);
      leave();
      reduce(head_parameters(), 0);
    } else {
      arrive(kReceiveBackward, kNext, tag(chunk_ + 1, true));
    }
    for (uint32_t layer = 0; layer < config_.layers_of_chunk(chunk_); ++layer) layer_backward();
    if (is_first_chunk()) {
      enter();
      compute("backward embedding", costs_.embedding.backward);
      reduce(embedding_slice(config_), 0);
    } else {
      message(kSendBackward, kPrevious, tag(chunk_, true), last_compute_);
    }
  }

  // Of a message that chunk `producer` sends.
  static uint32_t tag(uint32_t producer, bool backward_pass) { return 1 + 2 * producer + (backward_pass ? 1 : 0); }

  // The last norm, and an output matrix of its own or a copy of the embedding's.
  double head_parameters() const {
    const bool has_matrix = !config_.model.tied || config_.pp > 1;
    return (config_.model.biases ? 2.0 : 1.0) * config_.model.hidden +
           (has_matrix ? static_cast<double>(config_.vocabulary_slice()) * config_.model.hidden : 0);
  }

  // ZeRO 3: allgather of a layer's parameters while the layer before it is at work.
  void gather_parameters() {
    if (config_.zero < 3) return;
    const double element = bytes_of(config_.precision);
    const auto gather = [&](const char* name, GroupKind group, double parameters) {
      return collective({name, CollectiveKind::all_gather, group, whole_bytes(parameters * element)}, kGradients,
                        kNone);
    };
    const uint32_t dense = gather("gather parameters", kData, layer_dense_parameters(config_));
    const uint32_t expert = gather("gather experts", kExpertData, layer_expert_parameters(config_));
    for (const uint32_t node : {dense, expert}) {
      if (node != kNone && layer_begin_ != kNone) builder_.add_follow(node, layer_begin_);
    }
    gathered_ = expert != kNone ? expert : dense;
  }

  // Gradients of so many parameters are there.
  void reduce(double dense, double expert) {
    // ZeRO 0 and 1 add up the gradients of all micro-batches first. (Chunks take turns: others may not be at their
    // last.)
    if (config_.zero < 2 && !last_micro_batch_) return;
    dense_ready_ += dense, experts_ready_ += expert;
    const bool at_once = config_.zero == 3 || config_.overlap_gradients;
    const double bucket = static_cast<double>(bucket_.count());
    if (cuts_buckets(config_) && dense > 0) add_unit(dense);
    const bool is_full = cuts_.empty() ? dense_ready_ * config_.gradient_bytes() >= bucket : units_.size() == cut_at();
    if (at_once && (is_full || config_.zero == 3)) flush(dense_ready_, kData);
    if (at_once && (experts_ready_ * config_.gradient_bytes() >= bucket || config_.zero == 3))
      flush(experts_ready_, kExpertData);
  }

  void add_unit(double dense) {
    units_.push_back({.stage = stage_,
                      .is_scattered = config_.zero > 0,
                      .elements = whole_bytes(dense),
                      .bytes = whole_bytes(dense * config_.gradient_bytes()),
                      .ranks = groups_.size(kData),
                      .in_box = config_.zero == 0 ? groups_.replicas_in_box() : 0,
                      .backward = unit_backward_});
    unit_backward_ = 0;
  }

  // The units that there are when the present bucket is full.
  size_t cut_at() {
    while (next_cut_ < cuts_.size() && cut_ < units_.size()) cut_ += cuts_[next_cut_++];
    return cut_;
  }

  // Reduces the gradients of a data group that are there.
  void flush(double& ready, GroupKind group) {
    const ReducedGradients gradients{.stage = stage_,
                                     .is_of_experts = group == kExpertData,
                                     .is_scattered = config_.zero > 0,
                                     .elements = whole_bytes(ready),
                                     .bytes = whole_bytes(ready * config_.gradient_bytes()),
                                     .ranks = groups_.size(group),
                                     .in_box = group == kData && config_.zero == 0 ? groups_.replicas_in_box() : 0,
                                     .backward = backward_};
    ready = 0;
    if (gradients.ranks < 2 || gradients.bytes == 0) return;
    const StageCollective plain{.name = gradients.is_of_experts ? "reduce experts" : "reduce gradients",
                                .kind = config_.zero > 0 ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce,
                                .group = group,
                                .bytes = gradients.bytes};
    const std::optional<GradientCode> code =
        reduced_.size() < codes_.size() ? codes_[reduced_.size()] : std::optional<GradientCode>();
    if (!code)
      reduce_last(kAsTheyAre, collective(plain, kGradients, last_compute_));
    else if (code->is_between_boxes)
      reduce_last(kCodedBetween, reduce_between_boxes(plain, coded_part(gradients, *code)));
    else
      reduce_last(kCoded, reduce_coded(plain, coded_part(gradients, *code)));
    reduced_.push_back(gradients);
    backward_ = 0;
  }

  // Of buckets that go the same way the last is done last.
  void reduce_last(Way way, uint32_t node) { last_gradients_ = last_of_way_[way] = node; }

  uint32_t encode(const char* what, StreamKind stream, const CodedPart& part, uint32_t need) {
    return memory({.stream = stream, .bytes = part.elements * sizeof(float)}, what, part.encode, need);
  }
  uint32_t decode(const CodedPart& part, uint32_t need) {
    return memory({.stream = kCoder, .bytes = part.elements * sizeof(float)}, "decode gradients", part.decode, need);
  }

  // Two steps: each rank encodes what others own, adds up what it owns itself, encodes that once, and decodes the rest.
  uint32_t reduce_coded(StageCollective what, const CodedPart& part) {
    what.bytes = part.bytes;
    return decode(part, collective(what, kGradients, encode("encode gradients", kCompute, part, kNone)));
  }

  uint32_t reduce_between_boxes(const StageCollective& plain, const CodedPart& part) {
    const uint32_t scattered =
        collective({"scatter gradients in box", CollectiveKind::reduce_scatter, kScatterInBox, plain.bytes}, kScatter,
                   last_compute_);
    encode("make way for encoding", kCompute, part, kNone);
    const uint32_t encoded = encode("encode gradients", kCoder, part, scattered);
    const uint32_t reduced =
        collective({plain.name, CollectiveKind::all_reduce, kBetweenBoxes, part.bytes}, kCross, encoded);
    return collective({"gather gradients in box", CollectiveKind::all_gather, kGatherInBox, plain.bytes}, kGather,
                      decode(part, reduced));
  }

  void finish() {
    flush(dense_ready_, kData);
    flush(experts_ready_, kExpertData);
    const TrainModel& model = config_.model;
    const uint32_t grad = config_.gradient_bytes();
    // The last of them may overtake those that went another way.
    for (const uint32_t node : last_of_way_) {
      if (node != kNone && node != last_gradients_)
        add({.kind = job::NodeKind::memory, .stream = kCompute, .name = builder_.add_name("reduced gradients")},
            {node});
    }
    arrival_ = last_gradients_;  // what comes next on the compute stream waits for all gradients
    if (config_.sequence_parallel) {
      // Norms and biases behind row-split matrices see a part of the sequence each.
      const double each = (model.biases ? 6.0 : 2.0) * model.hidden;
      collective("reduce norms", CollectiveKind::all_reduce, kTensor,
                 whole_bytes(each * config_.layers_of_stage(stage_) * grad));
    }
    const bool ends = stage_ == 0 || stage_ + 1 == config_.pp;
    if (model.tied && config_.pp > 1 && ends)
      collective("reduce embedding", CollectiveKind::all_reduce, kEmbedding,
                 whole_bytes(static_cast<double>(config_.vocabulary_slice()) * model.hidden * grad));
    collective("gradient norm", CollectiveKind::all_reduce, kNorm, 8);
    const double updated = updated_parameters(config_, stage_);
    const PassCosts update = optimizer_costs(config_, device_, updated);
    memory({.stream = kCompute, .bytes = whole_bytes(updated * optimizer_bytes_per_parameter(config_))}, "optimizer",
           update, take_arrival());
    if (config_.zero == 1 || config_.zero == 2) {
      const StageParameters parameters = stage_parameters(config_, stage_);
      const double element = bytes_of(config_.precision);
      collective("gather parameters", CollectiveKind::all_gather, kData, whole_bytes(parameters.dense * element));
      collective("gather experts", CollectiveKind::all_gather, kExpertData, whole_bytes(parameters.experts * element));
    }
  }

  const StepCosts& costs_;
  uint32_t stage_;
  uint32_t chunk_ = 0;  // of the model, of the pass that is being written
  bool last_micro_batch_ = false;
  uint32_t last_gradients_ = kNone;
  std::array<uint32_t, kWays> last_of_way_{};
  uint32_t gathered_ = kNone, layer_begin_ = kNone;
  double dense_ready_ = 0, experts_ready_ = 0;  // parameters whose gradients wait to be reduced
  const std::vector<std::optional<GradientCode>> codes_;
  const Bytes bucket_;
  const std::vector<uint32_t> cuts_;
  size_t next_cut_ = 0, cut_ = 0;  // of cuts_; units before the end of the one before
  std::vector<ReducedGradients> reduced_, units_;
};

// The groups that programs use, each made once.
class JobGroups {
 public:
  JobGroups(Job::Builder& builder, const StepGroups& groups) : builder_(builder), groups_(groups) {}

  uint32_t number(GroupKind kind, const TrainRank& rank) {
    const uint64_t which = groups_.number(kind, rank);
    std::vector<uint32_t>& numbers = numbers_[kind];
    if (which >= numbers.size()) numbers.resize(which + 1, kNone);
    if (numbers[which] == kNone)
      numbers[which] = builder_.add_group(groups_.name(kind, rank), groups_.members(kind, rank));
    return numbers[which];
  }

 private:
  Job::Builder& builder_;
  const StepGroups& groups_;
  std::array<std::vector<uint32_t>, kGroupKinds> numbers_;
};

void add_ranks(Job::Builder& builder, const TrainConfig& config, const StepGroups& of_step,
               const std::vector<StageSlots>& stages) {
  JobGroups groups(builder, of_step);
  for (uint32_t number = 0; number < config.ranks(); ++number) {
    const TrainRank rank = train_rank(config, number);
    const StageSlots& slots = stages[rank.stage];
    std::vector<uint32_t> of_groups(slots.group_count), of_peers(slots.peer_count);
    for (size_t kind = 0; kind < kGroupKinds; ++kind) {
      if (slots.groups[kind] != kNone)
        of_groups[slots.groups[kind]] = groups.number(static_cast<GroupKind>(kind), rank);
    }
    const auto stage_at = [&](uint32_t step) {
      return rank_number(config, {(rank.stage + step) % config.pp, rank.replica, rank.slice});
    };
    if (slots.peers[kNext] != kNone) of_peers[slots.peers[kNext]] = stage_at(1);
    if (slots.peers[kPrevious] != kNone) of_peers[slots.peers[kPrevious]] = stage_at(config.pp - 1);
    builder.add_rank(rank.stage, of_groups, of_peers);
  }
}

}  // namespace

Job generate_training_step(const TrainConfig& config, const Device& device) {
  return generate_compressed_step(config, device, {}).job;
}

std::vector<uint32_t> members_of(const TrainConfig& config, const ReducedGradients& gradients) {
  return StepGroups(config, 0).members(gradients.is_of_experts ? kExpertData : kData, {.stage = gradients.stage});
}

uint32_t replicas_in_box(const TrainConfig& config, uint32_t box_ranks) {
  const uint32_t together = box_ranks / config.tp;
  const bool are_whole = together > 0 && box_ranks % config.tp == 0 && config.dp % together == 0;
  return are_whole && together > 1 && together < config.dp ? together : 0;
}

CodedPart coded_part(const ReducedGradients& gradients, const GradientCode& code) {
  CHECK(!code.is_between_boxes || gradients.in_box > 0) << "no level between boxes";
  const uint32_t shares = code.is_between_boxes ? gradients.in_box : 1;
  CodedPart part{.elements = (gradients.elements + shares - 1) / shares, .ranks = gradients.ranks / shares};
  part.bytes = coded_bytes(code.cost.codec, part.elements);
  const double bytes = static_cast<double>(part.elements) * sizeof(float);
  const double others = bytes * (1 - 1.0 / part.ranks), own = bytes - others;
  const CodecSpeed& speed = code.cost.speed;
  const auto calls = [&](uint32_t count, double seconds) {
    const double launches = count * static_cast<double>(code.cost.launch.count()) * 1e-12;
    return PassCosts{.seconds = seconds + launches, .fixed = launches};
  };
  part.encode = calls(1, others * speed.encode);
  part.decode = gradients.is_scattered
                    ? calls(1, others * speed.decode_add)
                    : calls(3, others * speed.decode_add + own * speed.encode + bytes * speed.decode);
  return part;
}

bool cuts_buckets(const TrainConfig& config) { return config.overlap_gradients && config.zero < 2 && config.dp > 1; }

TrainingStep generate_compressed_step(const TrainConfig& config, const Device& device, const GradientPlan& plan) {
  check_config(config);
  CHECK(plan.cuts.empty() || cuts_buckets(config)) << "buckets that cannot be cut otherwise";
  // Two blocks forward and two backward for each layer and micro-batch at the least; said before memory is filled.
  if (config.micro_batches() * config.model.layers > Job::kMaxNodes / 4)
    throw Error(ErrorCode::unsupported, std::to_string(config.micro_batches()) + " micro-batches through " +
                                            std::to_string(config.model.layers) +
                                            " layers are more nodes than a job can have; use a larger --micro-batch");
  const StepCosts costs = step_costs(config, device);
  const StepGroups groups(config, replicas_in_box(config, plan.box_ranks));
  Job::Builder builder("train " + config.model.name);
  std::vector<StageSlots> slots;
  std::vector<std::vector<ReducedGradients>> reduced, units;
  for (uint32_t stage = 0; stage < config.pp; ++stage) {
    StageWriter writer(StageNodes(builder, config, device, groups), costs, stage, plan);
    writer.write();
    reduced.push_back(writer.reduced());
    units.push_back(writer.units());
    slots.push_back(writer.slots());
  }
  add_ranks(builder, config, groups, slots);
  return {.job = std::move(builder).build(), .reduced = std::move(reduced), .units = std::move(units)};
}

}  // namespace banyan::predict
