#include "banyan/job/goal/goal.h"

#include <fcntl.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/base/place.h"

namespace banyan::job::goal {
namespace {
// Words and punctuation, one at a time, of a text that comes in pieces. Comments are left out.
class Tokens {
 public:
  // Fills the buffer from its front and returns how much; 0 at the end.
  using Refill = std::function<size_t(std::vector<char>& buffer)>;

  explicit Tokens(Refill refill) : refill_(std::move(refill)), buffer_(1 << 16) {}

  // "" at the end, and before the first advance(). Good until the next.
  std::string_view token() const { return token_; }
  uint64_t line() const { return token_line_; }  // where it begins

  void advance() {
    skip_blank();
    token_line_ = line_;
    token_.clear();
    const int first = peek();
    if (first < 0) return;
    take();
    token_ += static_cast<char>(first);
    if (is_punctuation(first)) return;
    for (int c = peek(); c >= 0 && !is_space(c) && !is_punctuation(c) && c != '/'; c = peek()) {
      if (token_.size() == kLongest)
        throw invalid("the word " + in_quotes(token_) + "... is longer than 200 characters");
      token_ += static_cast<char>(c);
      take();
    }
  }

 private:
  static constexpr size_t kLongest = 200;

  static bool is_space(int c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' || c == '\v'; }
  static bool is_punctuation(int c) { return c == ':' || c == '{' || c == '}'; }

  int peek() {
    if (at_ == end_) {
      end_ = refill_(buffer_);
      at_ = 0;
      // The mark that some editors put in front of UTF-8.
      if (!std::exchange(is_begun_, true) && std::string_view(buffer_.data(), end_).starts_with("\xef\xbb\xbf"))
        at_ = 3;
      if (at_ == end_) return -1;
    }
    return static_cast<unsigned char>(buffer_[at_]);
  }
  void take() {
    if (buffer_[at_++] == '\n') ++line_;
  }

  void skip_blank() {
    for (int c = peek(); c >= 0; c = peek()) {
      if (c == '/') {
        take();
        skip_comment();
      } else if (is_space(c)) {
        take();
      } else {
        return;
      }
    }
  }
  void skip_comment() {
    token_line_ = line_;  // for errors
    const int kind = peek();
    if (kind == '/') {
      for (int c = kind; c >= 0 && c != '\n'; c = peek()) take();
    } else if (kind == '*') {
      take();
      for (int c = peek(), before = 0; before != '*' || c != '/'; before = c, take(), c = peek()) {
        if (c < 0) throw invalid("the comment that begins here is not closed; add '*/'");
      }
      take();
    } else {
      throw invalid("a single '/' means nothing; comments begin with '//' or '/*'");
    }
  }

  Refill refill_;
  std::vector<char> buffer_;
  size_t at_ = 0, end_ = 0;
  bool is_begun_ = false;
  std::string token_;
  uint64_t line_ = 1, token_line_ = 1;
};

class Reader {
 public:
  Reader(const std::string& where, Tokens::Refill refill)
      : where_(where), builder_(where), tokens_(std::move(refill)), unnamed_(builder_.add_name("")) {}

  Job read() && {
    try {
      read_file();
    } catch (const Error& error) {
      throw error.within(where_ + " line " + std::to_string(error_line_ != 0 ? error_line_ : tokens_.line()));
    }
    return at_place(where_, [&] {
      for (const RankRow& row : ranks_) builder_.add_rank(row.program, {}, row.peers);
      return std::move(builder_).build();
    });
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr int64_t kMaxResource = 1'000'000;  // numbers of CPUs and NICs

  struct RankRow {
    uint32_t program = kNone;
    std::vector<uint32_t> peers;  // by slot
  };
  struct Label {
    uint32_t rank = kNone;  // that declared it last
    uint32_t node = 0;      // there
  };
  struct Reference {
    uint32_t node_label, on_label;
    bool is_start;
    uint64_t line;
  };

  std::string found() const { return tokens_.token().empty() ? "the end of the file" : in_quotes(tokens_.token()); }
  bool at(std::string_view word) const { return tokens_.token() == word; }
  bool at_operation() const { return at("send") || at("recv") || at("calc"); }
  bool at_word() const { return !tokens_.token().empty() && !at(":") && !at("{") && !at("}"); }
  bool take_if(std::string_view word) {
    if (!at(word)) return false;
    tokens_.advance();
    return true;
  }
  void expect(std::string_view word) {
    if (!take_if(word)) throw invalid("expected '" + std::string(word) + "', found " + found());
  }

  // A whole number, perhaps with a unit behind it.
  int64_t number(const std::string& what, int64_t least, int64_t most, std::string_view unit = "") {
    std::string_view digits = tokens_.token();
    if (!unit.empty() && digits.size() > unit.size() && digits.ends_with(unit)) digits.remove_suffix(unit.size());
    int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (digits.empty() || error == std::errc::invalid_argument || end != digits.data() + digits.size()) {
      throw invalid(what + " is a whole number, found " + found());
    }
    if (error != std::errc() || value < least || value > most) {
      throw invalid(what + " " + in_quotes(digits) + " is not in " + std::to_string(least) + " to " +
                    std::to_string(most));
    }
    tokens_.advance();
    return value;
  }

  void read_file() {
    tokens_.advance();
    expect("num_ranks");
    const int64_t ranks = number("num_ranks", 1, Job::kMaxRanks);
    while (at("rank")) read_rank(ranks);
    if (!tokens_.token().empty()) throw invalid("expected 'rank', found " + found());
    for (int64_t rank = 0; rank < ranks; ++rank) {
      if (is_read(static_cast<size_t>(rank))) continue;
      throw invalid("rank " + std::to_string(rank) + " of " + std::to_string(ranks) +
                    " has no block; if it does nothing, write 'rank " + std::to_string(rank) + " { }'");
    }
  }
  bool is_read(size_t rank) const { return rank < ranks_.size() && ranks_[rank].program != kNone; }

  void read_rank(int64_t ranks) {
    const uint64_t begin = tokens_.line();
    expect("rank");
    rank_ = static_cast<uint32_t>(number("a rank", 0, ranks - 1));
    if (is_read(rank_)) throw invalid("rank " + std::to_string(rank_) + " has two blocks");
    // Not all at once: what a file claims in its first line must not cost what it does not say later.
    if (ranks_.size() <= rank_) ranks_.resize(rank_ + 1);
    ranks_[rank_].program = builder_.begin_program("rank " + std::to_string(rank_));
    rank_count_ = ranks;
    streams_.clear();
    slots_.clear();
    expect("{");
    while (!at("}")) {
      if (tokens_.token().empty()) {
        throw invalid("the block of rank " + std::to_string(rank_) + " begins in line " + std::to_string(begin) +
                      " and is not closed; add '}'");
      }
      read_statement();
    }
    resolve_references();
    error_line_ = begin;
    builder_.finish_program();
    error_line_ = 0;
    tokens_.advance();
  }

  void read_statement() {
    if (at_operation()) {
      read_operation(unnamed_);
      return;
    }
    const uint64_t line = tokens_.line();
    const uint32_t label = read_label();
    if (take_if(":")) {
      if (is_declared(label)) {
        throw invalid("label " + name(label) + " is declared twice in rank " + std::to_string(rank_));
      }
      if (!at_operation())
        throw invalid("expected send, recv or calc behind label " + name(label) + ", found " + found());
      labels_[label] = {rank_, read_operation(label)};
      return;
    }
    const bool is_start = at("irequires");
    if (!take_if("requires") && !take_if("irequires")) {
      throw invalid("expected an operation, ':', 'requires' or 'irequires' behind " + name(label) + ", found " +
                    found());
    }
    references_.push_back({label, read_label(), is_start, line});
    if (is_declared(label) && is_declared(references_.back().on_label)) {
      resolve(references_.back());
      references_.pop_back();
    }
  }

  uint32_t read_label() {
    if (!at_word()) throw invalid("expected a label, found " + found());
    const uint32_t label = builder_.add_name(tokens_.token());
    if (label >= labels_.size()) labels_.resize(label + 1);
    tokens_.advance();
    return label;
  }
  std::string name(uint32_t label) const { return in_quotes(builder_.name(label)); }
  bool is_declared(uint32_t label) const { return labels_[label].rank == rank_; }

  void resolve_references() {
    for (const Reference& reference : references_) {
      error_line_ = reference.line;
      for (const uint32_t label : {reference.node_label, reference.on_label}) {
        if (!is_declared(label)) {
          throw invalid("label " + name(label) + " is not declared in rank " + std::to_string(rank_));
        }
      }
      resolve(reference);
    }
    references_.clear();
  }
  void resolve(const Reference& reference) {
    const uint32_t node = labels_[reference.node_label].node, on = labels_[reference.on_label].node;
    if (reference.is_start) {
      builder_.add_follow(node, on);
    } else {
      builder_.add_need(node, on);
    }
  }

  uint32_t read_operation(uint32_t label) {
    Node node{.name = label};
    const uint64_t line = tokens_.line();
    if (take_if("calc")) {
      constexpr int64_t kMaxNanoseconds = Node::kMaxDuration.count() / 1000;
      node.duration = std::chrono::nanoseconds(number("a time in nanoseconds", 0, kMaxNanoseconds));
    } else {
      read_message(node);
    }
    int64_t cpu = 0, nic = 0;
    while (tokens_.line() == line) {  // else they are labels
      if (node.kind != NodeKind::compute && take_if("tag")) {
        const int64_t least = node.kind == NodeKind::receive ? -1 : 0;
        const int64_t tag = number("a tag", least, int64_t{Node::kAnyTag} - 1);
        node.tag = tag < 0 ? Node::kAnyTag : static_cast<uint32_t>(tag);
      } else if (take_if("cpu")) {
        cpu = number("a CPU", 0, kMaxResource);
      } else if (take_if("nic")) {
        nic = number("a NIC", 0, kMaxResource);
      } else {
        break;
      }
    }
    node.stream = stream_of(node.kind == NodeKind::compute, cpu, nic);
    return builder_.add_node(node);
  }

  void read_message(Node& node) {
    const bool is_send = at("send");
    node.kind = is_send ? NodeKind::send : NodeKind::receive;
    tokens_.advance();
    node.bytes = static_cast<uint64_t>(number("a size in bytes", 0, int64_t{Node::kMaxBytes}, "b"));
    expect(is_send ? "to" : "from");
    const int64_t peer = number("a rank", is_send ? 0 : -1, rank_count_ - 1);
    if (peer == int64_t{rank_}) {
      throw invalid("rank " + std::to_string(rank_) + " sends to or receives from itself; write a calc instead");
    }
    node.slot = peer < 0 ? Node::kAnyPeer : slot_of(static_cast<uint32_t>(peer));
  }

  uint32_t slot_of(uint32_t peer) {
    std::vector<uint32_t>& peers = ranks_[rank_].peers;
    const auto [it, is_new] = slots_.try_emplace(peer, static_cast<uint32_t>(peers.size()));
    if (is_new) peers.push_back(peer);
    return it->second;
  }

  uint16_t stream_of(bool is_calc, int64_t cpu, int64_t nic) {
    const auto [it, is_new] = streams_.try_emplace(is_calc ? cpu * 2 + 1 : (cpu * (kMaxResource + 1) + nic) * 2);
    if (is_new) {
      const std::string name = "cpu " + std::to_string(cpu);
      it->second = is_calc ? builder_.add_stream({name, Stream::Order::ready})
                           : builder_.add_stream({name + " nic " + std::to_string(nic), Stream::Order::free});
    }
    return it->second;
  }

  std::string where_;
  Job::Builder builder_;
  Tokens tokens_;
  uint32_t unnamed_;
  std::vector<RankRow> ranks_;
  std::vector<Label> labels_;  // by number of the name
  int64_t rank_count_ = 0;
  uint64_t error_line_ = 0;  // where an error is, if not at the token

  // Of the rank that is being read.
  uint32_t rank_ = 0;
  std::vector<Reference> references_;              // to labels that were not declared when they were met
  std::unordered_map<int64_t, uint16_t> streams_;  // by what stream_of makes of CPU and NIC
  std::unordered_map<uint32_t, uint32_t> slots_;   // by peer
};

}  // namespace

Job parse_job(std::string_view text, const std::string& where) {
  return Reader(where,
                [text](std::vector<char>& buffer) mutable {
                  const size_t size = text.copy(buffer.data(), buffer.size());
                  text.remove_prefix(size);
                  return size;
                })
      .read();
}

Job read_job(const std::string& path) {
  // A pipe that nobody writes to reads as an empty file, and does not hold us.
  const int opened = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (opened >= 0) ::fcntl(opened, F_SETFL, ::fcntl(opened, F_GETFL) & ~O_NONBLOCK);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(opened < 0 ? nullptr : ::fdopen(opened, "rb"),
                                                             std::fclose);
  const auto failed = [] {
    return Error(errno == ENOENT ? ErrorCode::not_found : ErrorCode::io,
                 std::string("cannot read it: ") + std::strerror(errno));
  };
  if (file == nullptr) throw failed().within(path);
  return Reader(path,
                [&](std::vector<char>& buffer) {
                  const size_t size = std::fread(buffer.data(), 1, buffer.size(), file.get());
                  if (size == 0 && std::ferror(file.get()) != 0) throw failed();
                  return size;
                })
      .read();
}

}  // namespace banyan::job::goal
