#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <pugixml.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/testing/msccl_interpreter.h"

namespace banyan::testing {
namespace {

Error invalid(const std::string& where, const std::string& message) {
  return Error(ErrorCode::invalid_input, message, where);
}

std::string block_name(size_t gpu, size_t block) {
  return "gpu " + std::to_string(gpu) + " block " + std::to_string(block);
}

// RCCL reads XML with a hand-written scanner that knows less than XML; a file must stay within what it knows.
class NarrowXml {
 public:
  explicit NarrowXml(std::string_view text) : text_(text) {}

  void check() {
    while (skip_blanks(), at_ < text_.size()) {
      expect('<', "an element");
      if (text_.substr(at_).starts_with("!--")) {
        const size_t end = text_.find("-->", at_);
        if (end == std::string_view::npos) fail("the comment does not end");
        at_ = end + 3;
      } else if (peek() == '?') {
        fail("RCCL's reader does not know <?xml?> declarations");
      } else {
        tag();
      }
    }
  }

 private:
  static constexpr size_t kMaxLength = 255;

  [[noreturn]] void fail(const std::string& message) const {
    const auto line =
        std::count(text_.begin(), text_.begin() + static_cast<ptrdiff_t>(std::min(at_, text_.size())), '\n');
    throw invalid("line " + std::to_string(line + 1), message);
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void expect(char wanted, const char* before) {
    if (peek() != wanted) fail(std::string("RCCL's reader wants '") + wanted + "' here, for " + before);
    ++at_;
  }
  void skip_blanks() {
    while (peek() == ' ' || peek() == '\n' || peek() == '\r') ++at_;
  }
  void name() {
    const size_t begin = at_;
    while (std::isalnum(static_cast<unsigned char>(peek())) != 0 || peek() == '_') ++at_;
    if (at_ == begin || at_ - begin >= kMaxLength) fail("RCCL's reader wants a name here");
  }
  void tag() {
    if (peek() == '/') {
      ++at_;
      name();
      expect('>', "the end of a closing tag");
      return;
    }
    name();
    size_t attributes = 0;
    while (peek() == ' ') {
      ++at_;
      if (peek() == '/') break;
      name();
      expect('=', "an attribute's value");
      expect('"', "an attribute's value");
      const size_t end = text_.find('"', at_);
      if (end == std::string_view::npos) fail("the value does not end");
      if (end - at_ > kMaxLength) fail("the value has more than 255 characters");
      at_ = end + 1;
      if (++attributes > 16) fail("more than 16 attributes");
    }
    if (peek() == '/') ++at_;
    expect('>', "the end of a tag");
  }

  std::string_view text_;
  size_t at_ = 0;
};

std::string text_of(const pugi::xml_node& node, const char* attribute, const std::string& where) {
  const pugi::xml_attribute found = node.attribute(attribute);
  if (found.empty()) throw invalid(where, "<" + std::string(node.name()) + "> lacks " + attribute);
  return found.value();
}

struct Range {
  int64_t low, high;
};

int64_t number_of(const pugi::xml_node& node, const char* attribute, const std::string& where, Range range) {
  const std::string text = text_of(node, attribute, where);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < range.low || value > range.high) {
    throw invalid(where, std::string(attribute) + "=\"" + text.substr(0, 40) + "\" is not a number from " +
                             std::to_string(range.low) + " to " + std::to_string(range.high));
  }
  return value;
}

uint32_t count_of(const pugi::xml_node& node, const char* attribute, const std::string& where, Range range) {
  return static_cast<uint32_t>(number_of(node, attribute, where, range));
}

constexpr Range kCount = {0, 1'000'000};
constexpr Range kFlag = {0, 1};

CollectiveKind kind_of(const std::string& coll) {
  static const std::map<std::string, CollectiveKind> kKnown = {
      {"allgather", CollectiveKind::all_gather}, {"reducescatter", CollectiveKind::reduce_scatter},
      {"allreduce", CollectiveKind::all_reduce}, {"broadcast", CollectiveKind::broadcast},
      {"alltoall", CollectiveKind::all_to_all},  {"reduce", CollectiveKind::reduce}};
  const auto found = kKnown.find(coll);
  if (found != kKnown.end()) return found->second;
  const std::set<std::string> others = {"alltoallv", "gather", "scatter", "send", "recv"};
  if (others.contains(coll)) throw Error(ErrorCode::unsupported, "coll=\"" + coll + "\" is not interpreted", "algo");
  throw invalid("algo", "coll=\"" + coll.substr(0, 40) + "\" is no collective of MSCCL");
}

struct TypeRules {
  MscclType type;
  bool sends, receives, reads_source, writes_destination;
};

const std::map<std::string, TypeRules>& type_rules() {
  static const std::map<std::string, TypeRules> kRules = {
      {"s", {MscclType::send, true, false, true, false}},
      {"r", {MscclType::receive, false, true, false, true}},
      {"rcs", {MscclType::receive_copy_send, true, true, false, true}},
      {"rrc", {MscclType::receive_reduce_copy, false, true, true, true}},
      {"rrs", {MscclType::receive_reduce_send, true, true, true, false}},
      {"rrcs", {MscclType::receive_reduce_copy_send, true, true, true, true}},
      {"cpy", {MscclType::copy, false, false, true, true}},
      {"re", {MscclType::reduce, false, false, true, true}},
  };
  return kRules;
}

// One <tb>: keeps what earlier steps leave for later ones, the dependencies of nops and the open run of `re`.
class BlockReader {
 public:
  BlockReader(const MscclLimits& limits, const std::array<uint32_t, 3>& chunks, MscclBlock& block, std::string name)
      : limits_(limits), chunks_(chunks), block_(block), name_(std::move(name)) {}

  void read(const pugi::xml_node& tb) {
    uint32_t number = 0;
    for (const pugi::xml_node& step : tb.children("step")) read_step(step, number++);
    if (!nop_waits_.empty()) throw invalid(name_, "the last step is a nop: nothing waits for its dependency");
  }

 private:
  void read_step(const pugi::xml_node& node, uint32_t number) {
    const std::string where = name_ + " step " + std::to_string(number);
    if (number >= limits_.steps_per_block) {
      throw invalid(where, "too many steps: a block has at most " + std::to_string(limits_.steps_per_block));
    }
    if (count_of(node, "s", where, kCount) != number) throw invalid(where, "steps are not numbered 0, 1, 2 in order");
    MscclStep step;
    step.number = number;
    const std::string type = text_of(node, "type", where);
    step.sources = {place_of(node, "srcbuf", "srcoff", where)};
    step.destination = place_of(node, "dstbuf", "dstoff", where);
    step.count = count_of(node, "cnt", where, {type == "nop" ? 0 : 1, limits_.count_below - 1});
    step.raises_flag = number_of(node, "hasdep", where, kFlag) == 1;
    const int64_t block = number_of(node, "depid", where, {-1, limits_.blocks_per_gpu - 1});
    const int64_t wanted = number_of(node, "deps", where, {-1, limits_.steps_per_block - 1});
    if ((block < 0) != (wanted < 0)) throw invalid(where, "depid and deps must both be -1 or neither");
    const bool waits = block >= 0;
    if (waits) nop_waits_.push_back({static_cast<uint32_t>(block), static_cast<uint32_t>(wanted)});
    if (type == "nop") {
      if (!waits) throw invalid(where, "a nop without a dependency shifts the numbers that others wait for");
      fuses_ = false;
      return;
    }
    if (!waits && !nop_waits_.empty()) throw invalid(where, "a step after a nop needs a dependency of its own");
    const auto rules = type_rules().find(type);
    if (rules == type_rules().end()) throw invalid(where, "type=\"" + type.substr(0, 20) + "\" is no step type");
    check(rules->second, step, where);
    step.type = rules->second.type;
    step.waits_for = std::exchange(nop_waits_, {});
    append(std::move(step), where);
  }

  MscclPlace place_of(const pugi::xml_node& node, const char* buffer, const char* offset,
                      const std::string& where) const {
    const std::string name = text_of(node, buffer, where);
    if (name != "i" && name != "o" && name != "s") {
      throw invalid(where, std::string(buffer) + "=\"" + name.substr(0, 20) + "\" is none of i, o, s");
    }
    const BufferKind kind = name == "i" ? BufferKind::input : (name == "o" ? BufferKind::output : BufferKind::scratch);
    // -1 is what compilers write where a side means nothing; RCCL accepts it, and check() refuses it where it does.
    return {kind, static_cast<uint32_t>(number_of(node, offset, where, {-1, kCount.high}))};
  }

  void check(const TypeRules& rules, const MscclStep& step, const std::string& where) const {
    if (rules.sends && block_.send_peer < 0) throw invalid(where, "sends, but the block has no send peer");
    if (rules.receives && block_.receive_peer < 0) throw invalid(where, "receives, but the block has no receive peer");
    if (rules.reads_source) check_bounds(step.sources[0], step.count, where);
    if (rules.writes_destination) check_bounds(step.destination, step.count, where);
  }

  void check_bounds(const MscclPlace& place, uint32_t count, const std::string& where) const {
    const uint32_t chunks = chunks_[static_cast<size_t>(place.buffer)];
    if (uint64_t{place.offset} + count <= chunks) return;
    const char* names[] = {"input", "output", "scratch"};
    throw invalid(where, "offset " + std::to_string(static_cast<int32_t>(place.offset)) + " with cnt " +
                             std::to_string(count) + " is outside the " + names[static_cast<size_t>(place.buffer)] +
                             " buffer of " + std::to_string(chunks) + " chunks");
  }

  void append(MscclStep step, const std::string& where) {
    const bool reduces = step.type == MscclType::reduce;
    if (reduces && fuses_ && step.waits_for.empty()) {
      MscclStep& open = block_.steps.back();
      const bool same = open.destination.buffer == step.destination.buffer &&
                        open.destination.offset == step.destination.offset &&
                        open.sources[0].buffer == step.sources[0].buffer;
      if (same && open.sources.size() < limits_.fused_reductions) {
        // RCCL keeps the last cnt for all of them.
        if (open.count != step.count) throw invalid(where, "fuses with the reduction before it, but has another cnt");
        open.sources.push_back(step.sources[0]);
        open.number = step.number;
        open.raises_flag = step.raises_flag;
        fuses_ = !step.raises_flag;
        return;
      }
    }
    fuses_ = reduces && !step.raises_flag;
    block_.steps.push_back(std::move(step));
  }

  const MscclLimits& limits_;
  std::array<uint32_t, 3> chunks_;
  MscclBlock& block_;
  std::string name_;
  std::vector<MscclStep::Dependency> nop_waits_;
  bool fuses_ = false;  // whether the last step is a reduction that may take in more
};

// A file in parts: the algorithm, its GPUs, then what holds between blocks.
class Reader {
 public:
  explicit Reader(const MscclLimits& limits) : limits_(limits) {}

  MscclProgram read(const pugi::xml_node& algo) {
    read_algo(algo);
    const auto gpus = algo.children("gpu");
    const auto count = static_cast<size_t>(std::distance(gpus.begin(), gpus.end()));
    if (count != program_.gpus.size()) {
      throw invalid("algo", std::to_string(count) + " <gpu> elements, but ngpus=\"" +
                                std::to_string(program_.gpus.size()) + "\"");
    }
    std::vector<bool> seen(count, false);
    for (const pugi::xml_node& gpu : gpus) {
      const uint32_t id = count_of(gpu, "id", "algo", {0, static_cast<int64_t>(count) - 1});
      if (seen[id]) throw invalid("gpu " + std::to_string(id), "is there twice");
      seen[id] = true;
      read_gpu(gpu, id);
    }
    for (uint32_t id = 0; id < count; ++id) check_dependencies(id);
    check_connections();
    return std::move(program_);
  }

 private:
  void read_algo(const pugi::xml_node& algo) {
    program_.name = text_of(algo, "name", "algo");
    program_.protocol = text_of(algo, "proto", "algo");
    if (program_.protocol != "Simple" && program_.protocol != "LL" && program_.protocol != "LL128") {
      throw invalid("algo", "proto=\"" + program_.protocol + "\" is none of Simple, LL, LL128");
    }
    program_.channels = count_of(algo, "nchannels", "algo", {1, limits_.channels});
    program_.chunks_per_loop = count_of(algo, "nchunksperloop", "algo", {1, kCount.high});
    program_.gpus.resize(count_of(algo, "ngpus", "algo", {2, 1000}));
    program_.kind = kind_of(text_of(algo, "coll", "algo"));
    program_.in_place = number_of(algo, "inplace", "algo", kFlag) == 1;
    program_.out_of_place = number_of(algo, "outofplace", "algo", kFlag) == 1;
    if (!program_.in_place && !program_.out_of_place) throw invalid("algo", "is neither for in place nor out of place");
    program_.min_bytes = number_of(algo, "minBytes", "algo", {0, INT64_MAX});
    program_.max_bytes = number_of(algo, "maxBytes", "algo", {0, INT64_MAX});
    if (program_.max_bytes != 0 && program_.max_bytes < program_.min_bytes) {
      throw invalid("algo", "maxBytes is below minBytes");
    }
    const bool sharded = program_.kind == CollectiveKind::all_gather ||
                         program_.kind == CollectiveKind::reduce_scatter || program_.kind == CollectiveKind::all_to_all;
    if (sharded && program_.chunks_per_loop % program_.gpus.size() != 0) {
      throw invalid("algo", "nchunksperloop is not a multiple of ngpus");
    }
  }

  void read_gpu(const pugi::xml_node& gpu, uint32_t id) {
    const std::string where = "gpu " + std::to_string(id);
    const auto shape = shape_of(program_, {});
    const std::array<uint32_t, 3> chunks = {count_of(gpu, "i_chunks", where, {0, shape.input_chunks()}),
                                            count_of(gpu, "o_chunks", where, {0, shape.output_chunks()}),
                                            count_of(gpu, "s_chunks", where, kCount)};
    program_.gpus[id].scratch_chunks = chunks[2];
    const auto tbs = gpu.children("tb");
    const auto block_count = static_cast<size_t>(std::distance(tbs.begin(), tbs.end()));
    if (block_count > limits_.blocks_per_gpu) {
      throw invalid(where, "too many thread blocks: " + std::to_string(block_count) + ", at most " +
                               std::to_string(limits_.blocks_per_gpu));
    }
    auto& blocks = program_.gpus[id].blocks;
    blocks.resize(block_count);
    std::vector<bool> seen(block_count, false);
    size_t elements = 1 + program_.gpus.size();
    for (const pugi::xml_node& tb : tbs) {
      const uint32_t number = count_of(tb, "id", where, kCount);
      if (number >= block_count) throw invalid(where, "block ids have a gap before " + std::to_string(number));
      if (seen[number]) throw invalid(block_name(id, number), "is there twice");
      seen[number] = true;
      read_block(tb, id, number, chunks);
      const auto steps = tb.children("step");
      elements += 1 + static_cast<size_t>(std::distance(steps.begin(), steps.end()));
    }
    if (elements > limits_.elements_per_gpu) {
      throw invalid(where, "RCCL's reader keeps " + std::to_string(limits_.elements_per_gpu) +
                               " elements a GPU (algo, gpus, its tbs and steps), not " + std::to_string(elements));
    }
  }

  void read_block(const pugi::xml_node& tb, uint32_t gpu, uint32_t number, const std::array<uint32_t, 3>& chunks) {
    const std::string name = block_name(gpu, number);
    MscclBlock& block = program_.gpus[gpu].blocks[number];
    const Range peers = {-1, static_cast<int64_t>(program_.gpus.size()) - 1};
    block.send_peer = static_cast<int32_t>(number_of(tb, "send", name, peers));
    block.receive_peer = static_cast<int32_t>(number_of(tb, "recv", name, peers));
    block.channel = count_of(tb, "chan", name, {0, program_.channels - 1});
    if (block.send_peer == static_cast<int32_t>(gpu) || block.receive_peer == static_cast<int32_t>(gpu)) {
      throw invalid(name, "a GPU cannot send to itself");
    }
    BlockReader(limits_, chunks, block, name).read(tb);
  }

  void check_dependencies(uint32_t gpu) const {
    const auto& blocks = program_.gpus[gpu].blocks;
    for (uint32_t b = 0; b < blocks.size(); ++b) {
      for (const MscclStep& step : blocks[b].steps) {
        const std::string where = block_name(gpu, b) + " step " + std::to_string(step.number);
        for (const MscclStep::Dependency& wanted : step.waits_for) {
          const std::string what =
              "waits for block " + std::to_string(wanted.block) + " step " + std::to_string(wanted.step);
          if (wanted.block == b) throw invalid(where, what + ", its own block");
          if (wanted.block >= blocks.size()) throw invalid(where, what + ", which does not exist");
          const auto& others = blocks[wanted.block].steps;
          const auto found = std::find_if(others.begin(), others.end(),
                                          [&](const MscclStep& other) { return other.number == wanted.step; });
          if (found == others.end())
            throw invalid(where, what + ", which does not exist or is a nop or fused into the next");
          if (!found->raises_flag)
            throw invalid(where, what + ", which has hasdep=\"0\" and never says that it is done");
        }
      }
    }
  }

  struct End {
    uint32_t gpu = 0, block = 0;
    std::vector<const MscclStep*> steps;
    std::string name(size_t i) const { return block_name(gpu, block) + " step " + std::to_string(steps[i]->number); }
  };
  using Connection = std::tuple<uint32_t, uint32_t, uint32_t>;  // from, to, channel

  // By connection, the one block at that end of it and its steps in order.
  std::map<Connection, End> ends(bool sending) const {
    std::map<Connection, End> result;
    for (uint32_t gpu = 0; gpu < program_.gpus.size(); ++gpu) {
      std::vector<uint32_t> on_channel(program_.channels, 0);
      for (uint32_t b = 0; b < program_.gpus[gpu].blocks.size(); ++b) {
        const MscclBlock& block = program_.gpus[gpu].blocks[b];
        const int32_t peer = sending ? block.send_peer : block.receive_peer;
        if (peer < 0) continue;
        const char* verb = sending ? "send" : "receive";
        if (++on_channel[block.channel] > limits_.blocks_per_channel) {
          throw invalid(block_name(gpu, b), "more than " + std::to_string(limits_.blocks_per_channel) + " blocks " +
                                                verb + " on channel " + std::to_string(block.channel));
        }
        const auto other = static_cast<uint32_t>(peer);
        End end{gpu, b, {}};
        for (const MscclStep& step : block.steps) {
          const bool takes_part = std::any_of(type_rules().begin(), type_rules().end(), [&](const auto& rule) {
            return rule.second.type == step.type && (sending ? rule.second.sends : rule.second.receives);
          });
          if (takes_part) end.steps.push_back(&step);
        }
        const Connection key{sending ? gpu : other, sending ? other : gpu, block.channel};
        const auto [twin, fresh] = result.emplace(key, end);
        if (!fresh) {
          throw invalid(block_name(gpu, b), "and block " + std::to_string(twin->second.block) + " both " + verb +
                                                (sending ? " to gpu " : " from gpu ") + std::to_string(other) +
                                                " on channel " + std::to_string(block.channel));
        }
      }
    }
    return result;
  }

  void check_connections() const {
    const auto senders = ends(true), receivers = ends(false);
    for (const auto& [key, sender] : senders) check_peer(sender, receivers, key, true);
    for (const auto& [key, receiver] : receivers) check_peer(receiver, senders, key, false);
  }

  static void check_peer(const End& end, const std::map<Connection, End>& others, const Connection& key, bool sending) {
    const auto& [from, to, channel] = key;
    const auto found = others.find(key);
    const size_t matched = found == others.end() ? 0 : found->second.steps.size();
    if (end.steps.size() > matched) {
      throw invalid(end.name(matched),
                    sending ? "unmatched send: gpu " + std::to_string(to) + " receives " + std::to_string(matched) +
                                  " times from gpu " + std::to_string(from) + " on channel " + std::to_string(channel)
                            : "unmatched receive: gpu " + std::to_string(from) + " sends " + std::to_string(matched) +
                                  " times to gpu " + std::to_string(to) + " on channel " + std::to_string(channel));
    }
    for (size_t i = 0; sending && i < end.steps.size(); ++i) {
      if (end.steps[i]->count == found->second.steps[i]->count) continue;
      throw invalid(end.name(i), "sends " + std::to_string(end.steps[i]->count) + " chunks that " +
                                     found->second.name(i) + " receives as " +
                                     std::to_string(found->second.steps[i]->count));
    }
  }

  const MscclLimits& limits_;
  MscclProgram program_;
};

}  // namespace

MscclProgram parse_msccl(std::string_view xml, const MscclLimits& limits) {
  NarrowXml(xml).check();
  pugi::xml_document document;
  const pugi::xml_parse_result result = document.load_buffer(xml.data(), xml.size());
  if (!result) {
    const auto line = std::count(xml.begin(), xml.begin() + result.offset, '\n') + 1;
    throw invalid("line " + std::to_string(line), result.description());
  }
  const pugi::xml_node algo = document.child("algo");
  if (algo.empty()) throw invalid("", "there is no <algo>");
  return Reader(limits).read(algo);
}

}  // namespace banyan::testing
