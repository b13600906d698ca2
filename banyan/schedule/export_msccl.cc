#include "banyan/schedule/export_msccl.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/schedule/export_program.h"

namespace banyan::schedule {
namespace {

// Limits of RCCL's parser and kernel (src/include/msccl/msccl_struct.h).
constexpr uint64_t kMaxBlocks = 64, kMaxSteps = 64, kMaxBlocksPerChannel = 32, kMaxChannels = 32, kMaxElements = 4095;
constexpr uint64_t kMaxCount = 64;  // below 72, and a whole number of lanes

struct Step {
  const char* type;
  BufferPlace source, destination;
  uint64_t count;
  std::optional<std::pair<uint32_t, uint32_t>> waits_for;  // block and step of the same rank
  bool is_awaited = false;
};

struct Block {
  int32_t send = -1, receive = -1;
  uint32_t channel = 0;
  std::vector<Step> steps;
};

// One rank's share of the program. A block either sends to one peer or receives from one, on one channel; a further
// block copies what is already here to where the result belongs.
struct Gpu {
  std::vector<Block> blocks;
  std::vector<uint32_t> senders, receivers;  // blocks by channel
};

class MscclWriter {
 public:
  MscclWriter(const Schedule& schedule, const ExportOptions& options, const std::string& sizes)
      : schedule_(schedule),
        options_(options),
        sizes_(sizes),
        kind_(schedule.collective().kind()),
        program_(make_export_program(schedule, kMaxCount)),
        buffers_(kind_, options.in_place, program_),
        gpus_(program_.ranks) {
    for (Gpu& gpu : gpus_) {
      gpu.senders.assign(kMaxChannels, 0);
      gpu.receivers.assign(kMaxChannels, 0);
    }
  }

  Export write() {
    copy_own_pieces();
    assign_lanes();
    add_steps();
    const ExportFit fit = measure();
    return {.text = format(), .fit = fit};
  }

 private:
  // A pair of ranks uses as many lanes as its transfers need blocks of kMaxSteps steps. A lane is a channel, with one
  // block at either end, and transfers take the pair's lanes in turn: both ends see the same order.
  struct Lanes {
    uint64_t transfers = 0, next = 0;
    std::vector<uint32_t> channels, send_blocks, receive_blocks;
  };

  std::string name(uint32_t rank) const { return schedule_.fabric().name(schedule_.collective().participants()[rank]); }

  [[noreturn]] void refuse(const std::string& what, uint32_t rank, uint64_t needed, uint64_t allowed) const {
    refuse_export("MSCCL", {what, name(rank), needed, allowed}, program_.trees_per_rank);
  }

  void copy_own_pieces() {
    for (const OwnPiece& piece : own_pieces(kind_, options_.in_place, program_)) {
      std::vector<Block>& blocks = gpus_[piece.rank].blocks;
      for (uint64_t at = 0; at < piece.count; at += kMaxCount) {
        if (at % (kMaxCount * kMaxSteps) == 0) blocks.push_back({.steps = {}});
        blocks.back().steps.push_back({.type = "cpy",
                                       .source = {piece.source.buffer, piece.source.offset + at},
                                       .destination = {piece.destination.buffer, piece.destination.offset + at},
                                       .count = std::min(kMaxCount, piece.count - at),
                                       .waits_for = {}});
      }
    }
  }

  void assign_lanes() {
    for (const ExportTransfer& transfer : program_.transfers) ++lanes_[{transfer.from, transfer.to}].transfers;
    for (auto& [pair, lanes] : lanes_) {
      Gpu &from = gpus_[pair.first], &to = gpus_[pair.second];
      uint32_t channel = 0;
      for (uint64_t lane = 0; lane < (lanes.transfers + kMaxSteps - 1) / kMaxSteps; ++lane, ++channel) {
        while (channel < kMaxChannels &&
               (from.senders[channel] == kMaxBlocksPerChannel || to.receivers[channel] == kMaxBlocksPerChannel))
          ++channel;
        if (channel == kMaxChannels) refuse("channels", pair.first, channel + 1, kMaxChannels);
        ++from.senders[channel];
        ++to.receivers[channel];
        lanes.channels.push_back(channel);
        lanes.send_blocks.push_back(static_cast<uint32_t>(from.blocks.size()));
        lanes.receive_blocks.push_back(static_cast<uint32_t>(to.blocks.size()));
        from.blocks.push_back({.send = static_cast<int32_t>(pair.second), .channel = channel, .steps = {}});
        to.blocks.push_back({.receive = static_cast<int32_t>(pair.first), .channel = channel, .steps = {}});
      }
    }
  }

  void add_steps() {
    received_.resize(program_.transfers.size());
    for (uint32_t number = 0; number < program_.transfers.size(); ++number) {
      const ExportTransfer& transfer = program_.transfers[number];
      Lanes& lanes = lanes_[{transfer.from, transfer.to}];
      const uint64_t lane = lanes.next++ % lanes.channels.size();
      const BufferPlace source =
          transfer.after ? buffers_.result(transfer, transfer.from) : buffers_.input(transfer, transfer.from);
      add_step(transfer.from, lanes.send_blocks[lane],
               {.type = "s", .source = source, .destination = source, .count = transfer.count, .waits_for = {}},
               transfer.after);
      const BufferPlace destination = buffers_.result(transfer, transfer.to);
      if (!transfer.reduces) {
        received_[number] = add_step(
            transfer.to, lanes.receive_blocks[lane],
            {.type = "r", .source = destination, .destination = destination, .count = transfer.count, .waits_for = {}},
            {});
        continue;
      }
      // The first contribution is added to the input, the others to what has been added up so far.
      auto& sum = sums_[{transfer.to, transfer.offset}];
      const BufferPlace addend = sum ? destination : buffers_.input(transfer, transfer.to);
      received_[number] = add_step(
          transfer.to, lanes.receive_blocks[lane],
          {.type = "rrc", .source = addend, .destination = destination, .count = transfer.count, .waits_for = {}}, sum);
      sum = number;
    }
  }

  // Appends a step that must follow the receiving end of transfer `after`; returns where it stands.
  std::pair<uint32_t, uint32_t> add_step(uint32_t rank, uint32_t block, Step step, std::optional<uint32_t> after) {
    std::vector<Block>& blocks = gpus_[rank].blocks;
    if (after) {
      const auto [on, at] = received_[*after];
      if (on != block) {
        step.waits_for = {on, at};
        blocks[on].steps[at].is_awaited = true;
      }
    }
    blocks[block].steps.push_back(step);
    return {block, static_cast<uint32_t>(blocks[block].steps.size() - 1)};
  }

  ExportFit measure() const {
    uint64_t blocks = 0, steps = 0, per_channel = 0, elements = 0, channels = 0;
    for (uint32_t rank = 0; rank < gpus_.size(); ++rank) {
      const Gpu& gpu = gpus_[rank];
      uint64_t all_steps = 0;
      for (const Block& block : gpu.blocks) {
        steps = std::max<uint64_t>(steps, block.steps.size());
        all_steps += block.steps.size();
        channels = std::max<uint64_t>(channels, block.channel + 1);
      }
      const uint64_t kept = 1 + gpus_.size() + gpu.blocks.size() + all_steps;
      if (gpu.blocks.size() > kMaxBlocks) refuse("thread blocks", rank, gpu.blocks.size(), kMaxBlocks);
      if (kept > kMaxElements) refuse("XML elements", rank, kept, kMaxElements);
      blocks = std::max<uint64_t>(blocks, gpu.blocks.size());
      elements = std::max(elements, kept);
      for (size_t c = 0; c < kMaxChannels; ++c)
        per_channel = std::max<uint64_t>(per_channel, std::max(gpu.senders[c], gpu.receivers[c]));
    }
    return {.rows = {{"thread blocks per GPU", blocks, kMaxBlocks},
                     {"steps per thread block", steps, kMaxSteps},
                     {"thread blocks per channel", per_channel, kMaxBlocksPerChannel},
                     {"channels", channels, kMaxChannels},
                     {"XML elements per GPU", elements, kMaxElements}}};
  }

  std::string format() const;
  void append_block(std::string& text, const Block& block, size_t id) const;

  const Schedule& schedule_;
  const ExportOptions& options_;
  const std::string& sizes_;  // that the file is for, in words
  const CollectiveKind kind_;
  const ExportProgram program_;
  BufferMap buffers_;
  std::vector<Gpu> gpus_;
  std::map<std::pair<uint32_t, uint32_t>, Lanes> lanes_;  // by sender and receiver
  std::map<std::pair<uint32_t, uint64_t>, std::optional<uint32_t>>
      sums_;                                             // by rank and offset: the last transfer added
  std::vector<std::pair<uint32_t, uint32_t>> received_;  // by transfer: block and step at its receiver
};

// RCCL reads this with a scanner of its own: no declaration, double quotes, one blank before each attribute.
std::string attribute(const char* name, const std::string& value) {
  return std::string(" ") + name + "=\"" + value + "\"";
}
std::string attribute(const char* name, uint64_t value) { return attribute(name, std::to_string(value)); }
std::string attribute_or_none(const char* name, int64_t value) { return attribute(name, std::to_string(value)); }

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text.substr(0, 200)) {
    // Characters that XML would have to escape, and control characters, have no place in an algorithm's name.
    const bool is_control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    result += (is_control || c == '"' || c == '<' || c == '>' || c == '&' || c == '\'') ? '_' : c;
  }
  return result;
}

void MscclWriter::append_block(std::string& text, const Block& block, size_t id) const {
  text += "    <tb" + attribute("id", id) + attribute_or_none("send", block.send) +
          attribute_or_none("recv", block.receive) + attribute("chan", block.channel) + ">\n";
  for (size_t s = 0; s < block.steps.size(); ++s) {
    const Step& step = block.steps[s];
    text += "      <step" + attribute("s", s) + attribute("type", std::string(step.type)) +
            attribute("srcbuf", std::string(1, step.source.buffer)) + attribute("srcoff", step.source.offset) +
            attribute("dstbuf", std::string(1, step.destination.buffer)) +
            attribute("dstoff", step.destination.offset) + attribute("cnt", step.count) +
            attribute_or_none("depid", step.waits_for ? static_cast<int64_t>(step.waits_for->first) : -1) +
            attribute_or_none("deps", step.waits_for ? static_cast<int64_t>(step.waits_for->second) : -1) +
            attribute("hasdep", uint64_t{step.is_awaited}) + "/>\n";
  }
  text += "    </tb>\n";
}

std::string MscclWriter::format() const {
  uint32_t channels = 1;
  for (const Gpu& gpu : gpus_) {
    for (const Block& block : gpu.blocks) channels = std::max(channels, block.channel + 1);
  }
  const uint64_t inputs = kind_ == CollectiveKind::all_gather ? program_.shard_chunks : program_.total_chunks;
  const uint64_t outputs = kind_ == CollectiveKind::reduce_scatter ? program_.shard_chunks : program_.total_chunks;
  std::string text = "<algo" + attribute("name", escaped(options_.name)) + attribute("proto", std::string("Simple")) +
                     attribute("nchannels", channels) + attribute("nchunksperloop", program_.total_chunks) +
                     attribute("ngpus", program_.ranks) + attribute("coll", std::string(traits_of(kind_).compact)) +
                     attribute("inplace", uint64_t{options_.in_place}) +
                     attribute("outofplace", uint64_t{!options_.in_place}) + attribute("minBytes", options_.min_bytes) +
                     attribute("maxBytes", options_.max_bytes) + ">\n  <!-- for " + sizes_ + " -->\n";
  for (size_t rank = 0; rank < gpus_.size(); ++rank) {
    text += "  <gpu" + attribute("id", rank) + attribute("i_chunks", inputs) + attribute("o_chunks", outputs) +
            attribute("s_chunks", buffers_.scratch_chunks(static_cast<uint32_t>(rank))) + ">\n";
    for (size_t b = 0; b < gpus_[rank].blocks.size(); ++b) append_block(text, gpus_[rank].blocks[b], b);
    text += "  </gpu>\n";
  }
  return text + "</algo>\n";
}

}  // namespace

Export export_msccl(const Schedule& schedule, const ExportOptions& options, const std::string& sizes) {
  return MscclWriter(schedule, options, sizes).write();
}

}  // namespace banyan::schedule
