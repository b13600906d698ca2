#include <charconv>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/job/goal/goal.h"

namespace banyan::job::goal {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

bool is_word(std::string_view text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  if (text.empty() || text.size() > 200 || !is_letter(text[0])) return false;
  for (const char c : text) {
    if (!is_letter(c) && (c < '0' || c > '9') && c != '.' && c != '-') return false;
  }
  for (const std::string_view reserved :
       {"send", "recv", "calc", "requires", "irequires", "tag", "cpu", "nic", "rank"}) {
    if (text == reserved) return false;
  }
  return true;
}

struct Resources {
  uint32_t cpu = 0, nic = 0;
};

// "cpu 3" or "cpu 3 nic 1", as readers of GOAL name streams; nothing for any other name.
std::optional<Resources> resources_of(const Stream& stream) {
  Resources resources;
  std::string_view rest = stream.name;
  const auto take = [&rest](std::string_view word, uint32_t& number) {
    if (!rest.starts_with(word)) return false;
    const auto [end, error] = std::from_chars(rest.data() + word.size(), rest.data() + rest.size(), number);
    if (error != std::errc() || number > 1'000'000) return false;
    rest = rest.substr(static_cast<size_t>(end - rest.data()));
    return true;
  };
  if (!take("cpu ", resources.cpu)) return std::nullopt;
  if (!rest.empty() && !take(" nic ", resources.nic)) return std::nullopt;
  return rest.empty() ? std::optional(resources) : std::nullopt;
}

class Writer {
 public:
  explicit Writer(const Job& job) : job_(job) {}

  std::string write() && {
    add("num_ranks ", job_.rank_count(), "\n");
    for (rank_ = 0; rank_ < job_.rank_count(); ++rank_) {
      program_ = &job_.program(rank_);
      find_previous();
      find_labels();
      find_resources();
      add("rank ", rank_, " {\n");
      for (uint32_t node = 0; node < program_->nodes.size(); ++node) write_node(node);
      for (uint32_t node = 0; node < program_->nodes.size(); ++node) write_dependencies(node);
      add("}\n");
    }
    return std::move(text_);
  }

 private:
  void add(std::string_view text) { text_ += text; }
  void add(uint64_t number) { text_ += std::to_string(number); }
  template <typename First, typename... Rest>
  requires(sizeof...(Rest) > 0) void add(const First& first, const Rest&... rest) {
    add(first);
    (add(rest), ...);
  }

  // The node before each on its stream, where the stream keeps its order.
  void find_previous() {
    previous_.assign(program_->nodes.size(), kNone);
    std::vector<uint32_t> last(program_->streams.size(), kNone);
    for (uint32_t node = 0; node < program_->nodes.size(); ++node) {
      const uint16_t stream = program_->nodes[node].stream;
      if (program_->streams[stream].order == Stream::Order::program)
        previous_[node] = std::exchange(last[stream], node);
    }
  }

  // Names serve as labels when each is a word that no other node of the rank has; a node that nothing refers to and
  // that refers to nothing may be without one.
  void find_labels() {
    std::vector<bool> is_needed(program_->nodes.size(), false);
    for (uint32_t node = 0; node < program_->nodes.size(); ++node) {
      const auto mark = [&](uint32_t on) { is_needed[node] = is_needed[on] = true; };
      for (const uint32_t on : program_->needs(node)) mark(on);
      for (const uint32_t on : program_->follows(node)) mark(on);
      if (previous_[node] != kNone) mark(previous_[node]);
    }
    std::unordered_set<uint32_t> seen;
    names_are_labels_ = true;
    for (uint32_t node = 0; node < program_->nodes.size() && names_are_labels_; ++node) {
      const std::string& name = job_.name_of(program_->nodes[node]);
      if (name.empty() && !is_needed[node]) continue;
      names_are_labels_ = is_word(name) && seen.insert(program_->nodes[node].name).second;
    }
  }

  void find_resources() {
    resources_.clear();
    for (const Stream& stream : program_->streams) {
      const auto known = resources_of(stream);
      if (!known) break;
      resources_.push_back(*known);
    }
    if (resources_.size() == program_->streams.size()) return;
    for (uint32_t stream = 0; stream < program_->streams.size(); ++stream) {
      resources_.resize(stream + 1);
      resources_[stream] = {.cpu = stream};
    }
  }

  void add_label(uint32_t node) {
    if (names_are_labels_) {
      add(job_.name_of(program_->nodes[node]));
    } else {
      add("n", node);
    }
  }

  [[noreturn]] void refuse(uint32_t node, const std::string& what) const {
    throw Error(ErrorCode::unsupported, "rank " + std::to_string(rank_) + " node " + std::to_string(node) + " '" +
                                            job_.name_of(program_->nodes[node]).substr(0, 80) + "' " + what);
  }

  void write_node(uint32_t number) {
    const Node& node = program_->nodes[number];
    if (node.kind == NodeKind::collective) {
      refuse(number, "is a collective (" + std::string(to_string(node.collective)) +
                         "), which GOAL does not have; expand it into sends and receives first");
    }
    if (!names_are_labels_ || !job_.name_of(node).empty()) {
      add_label(number);
      add(": ");
    }
    const Resources& resources = resources_[node.stream];
    if (node.kind == NodeKind::send || node.kind == NodeKind::receive) {
      write_message(node);
      add(" cpu ", resources.cpu, " nic ", resources.nic, "\n");
      return;
    }
    if (program_->streams[node.stream].order == Stream::Order::free && node.duration > Picoseconds(0)) {
      refuse(number, "takes time on a stream that does any number of things at once, and GOAL's CPUs do not");
    }
    const auto duration = node.kind == NodeKind::marker ? Picoseconds(0) : node.duration;
    add("calc ", static_cast<uint64_t>((duration.count() + 500) / 1000), " cpu ", resources.cpu, "\n");
  }

  void write_message(const Node& node) {
    const bool is_send = node.kind == NodeKind::send;
    add(is_send ? "send " : "recv ", node.bytes, is_send ? "b to " : "b from ");
    if (node.slot == Node::kAnyPeer) {
      add("-1");
    } else {
      add(job_.peer(rank_, node.slot));
    }
    if (node.tag == Node::kAnyTag) {
      add(" tag -1");
    } else {
      add(" tag ", node.tag);
    }
  }

  void write_dependencies(uint32_t node) {
    const auto line = [&](const char* verb, uint32_t on) {
      add_label(node);
      add(verb);
      add_label(on);
      add("\n");
    };
    for (const uint32_t on : program_->needs(node)) line(" requires ", on);
    if (previous_[node] != kNone) line(" requires ", previous_[node]);
    for (const uint32_t on : program_->follows(node)) line(" irequires ", on);
  }

  const Job& job_;
  std::string text_;

  // Of the rank that is being written.
  uint32_t rank_ = 0;
  const Program* program_ = nullptr;
  std::vector<uint32_t> previous_;
  std::vector<Resources> resources_;  // by stream
  bool names_are_labels_ = true;
};

}  // namespace

std::string write_job(const Job& job) { return Writer(job).write(); }

}  // namespace banyan::job::goal
