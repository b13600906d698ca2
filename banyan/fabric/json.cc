#include "banyan/fabric/json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/base/nearest.h"
#include "banyan/base/text_cursor.h"

namespace banyan::fabric {
namespace {
constexpr std::string_view kFormat = "fabric/1";

// More generators than any topology needs; it bounds the work that a file can ask for.
constexpr size_t kMaxSymmetries = 64;

struct Key {
  std::string_view name;
  std::string_view expected;  // how an error describes a right value
};

constexpr std::array kDocumentKeys = {Key{"banyan", "\"fabric/1\""}, Key{"nodes", "an array of nodes"},
                                      Key{"links", "an array of links"}, Key{"symmetries", "an array of permutations"}};
constexpr std::array kNodeKeys = {Key{"name", "a string"}, Key{"kind", "\"rank\" or \"switch\""},
                                  Key{"multicast", "true or false"}, Key{"reduce", "true or false"}};
constexpr std::array kLinkKeys = {Key{"from", "the name of a node"},
                                  Key{"to", "the name of a node"},
                                  Key{"bandwidth", "a string with a unit such as \"300 GB/s\" or \"400 Gb/s\""},
                                  Key{"latency", "a string with a unit such as \"1 us\""},
                                  Key{"loss", "a number from 0 to below 1"},
                                  Key{"both", "true or false"}};

// The object that is being read: its keys, those it has had, and the one whose value comes next.
class Fields {
 public:
  Fields() = default;
  explicit Fields(std::span<const Key> known) : known_(known) {}

  // False when the key is unknown.
  bool enter(std::string_view name) {
    const auto found = std::find_if(known_.begin(), known_.end(), [&](const Key& key) { return key.name == name; });
    if (found == known_.end()) return false;
    current_ = static_cast<size_t>(found - known_.begin());
    repeated_ = (seen_ >> current_ & 1) != 0;
    seen_ |= 1u << current_;
    return true;
  }
  bool repeated() const { return repeated_; }
  bool in(std::string_view name) const { return key().name == name; }
  bool had(std::string_view name) const {
    for (size_t i = 0; i < known_.size(); ++i) {
      if (known_[i].name == name) return (seen_ >> i & 1) != 0;
    }
    return false;
  }
  const Key& key() const { return known_[current_]; }
  std::span<const Key> known() const { return known_; }

 private:
  std::span<const Key> known_;
  size_t current_ = 0;
  uint32_t seen_ = 0;
  bool repeated_ = false;
};

// Where in the format the reader is; every nesting that the format knows has its place, so there is no other depth.
enum class Place : uint8_t { outside, document, nodes, node, links, link, symmetries, symmetry };

// The SAX handler. Each event returns true to go on; what is wrong is thrown from where it is seen.
class FabricReader {
 public:
  FabricReader(std::string_view text, const std::string& where)
      : text_(text), where_(where), reached_(text.data()), document_(kDocumentKeys) {}

  Fabric read() {
    const char* end = text_.data() + text_.size();
    nlohmann::json::sax_parse(TextCursor{text_.data(), &reached_}, TextCursor{end, &reached_}, this);
    CHECK(place_ == Place::outside);
    return finish();
  }

  bool null() { refuse("null"); }
  bool boolean(bool value);
  bool number_integer(int64_t value) { return number(static_cast<double>(value), value); }
  bool number_unsigned(uint64_t value) {
    return number(static_cast<double>(value), static_cast<int64_t>(std::min<uint64_t>(value, INT64_MAX)));
  }
  bool number_float(double value, const std::string&) { return number(value, -1); }
  bool string(std::string& value);
  [[noreturn]] bool binary(std::vector<uint8_t>&) { refuse("binary"); }
  bool start_object(size_t);
  bool key(std::string& name);
  bool end_object();
  bool start_array(size_t);
  bool end_array();
  [[noreturn]] bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error);

 private:
  struct PendingLink {
    std::string from, to;
    const char* from_at = nullptr;
    const char* to_at = nullptr;
    Link link;
    bool both = false;
  };
  struct PendingSymmetry {
    Permutation image;
    const char* at;
  };

  bool number(double value, int64_t whole);
  void read_format(const std::string& value) const;
  void read_node_text(std::string& value);
  void read_link_text(std::string& value);
  void end_node();
  void end_link();
  void add_link(const PendingLink& pending);
  NodeId end_of(const PendingLink& pending, const std::string& name, const char* at) const;
  void add_symmetry(PendingSymmetry& pending, size_t number);
  Fabric finish();

  std::string item() const;
  std::string path() const;
  [[noreturn]] void refuse(std::string_view got) const;
  [[noreturn]] void fail(const std::string& message) const { throw located(Error(ErrorCode::invalid_input, message)); }
  Error located(const Error& error) const { return located(error, reached_); }
  Error located(const Error& error, const char* at) const;
  // Runs `step`, whose errors are about what `subject` names and what ends at `at`.
  template <typename Subject, typename Step>
  auto guarded(Subject subject, const char* at, Step step) const;

  std::string_view text_;
  const std::string& where_;
  const char* reached_;
  Place place_ = Place::outside;
  Fields document_, item_;
  size_t item_number_ = 0;
  Node node_;
  PendingLink link_;
  std::vector<PendingLink> early_links_;  // those that stand before the nodes are complete
  std::vector<PendingSymmetry> symmetries_;
  bool nodes_complete_ = false;
  Fabric::Builder builder_;
};

std::string describe(std::string_view from, std::string_view to) {
  return "link " + std::string(from.substr(0, 80)) + " -> " + std::string(to.substr(0, 80));
}

// The element at hand: "links[3]".
std::string FabricReader::item() const {
  const bool of_nodes = place_ == Place::nodes || place_ == Place::node;
  const bool of_links = place_ == Place::links || place_ == Place::link;
  const std::string list = of_nodes ? "nodes" : of_links ? "links" : "symmetries";
  return list + "[" + std::to_string(item_number_) + "]";
}

// The value at hand: "links[3].bandwidth".
std::string FabricReader::path() const {
  if (place_ == Place::outside) return "the file";
  if (place_ == Place::document) return std::string(document_.key().name);
  const bool in_object = place_ == Place::node || place_ == Place::link;
  return in_object ? item() + "." + std::string(item_.key().name) : item();
}

void FabricReader::refuse(std::string_view got) const {
  const auto expected = [&]() -> std::string_view {
    switch (place_) {
      case Place::outside:
        return "an object with \"banyan\": \"fabric/1\", \"nodes\" and \"links\"";
      case Place::document:
        return document_.key().expected;
      case Place::nodes:
        return "a node such as {\"name\": \"gpu0\", \"kind\": \"rank\"}";
      case Place::links:
        return "a link such as {\"from\": \"a\", \"to\": \"b\", \"bandwidth\": \"300 GB/s\"}";
      case Place::node:
      case Place::link:
        return item_.key().expected;
      case Place::symmetries:
        return "an array of node numbers";
      case Place::symmetry:
        return "the number of a node";
    }
    return "";
  };
  fail(path() + ": expected " + std::string(expected()) + ", found " + std::string(got));
}

Error FabricReader::located(const Error& error, const char* at) const {
  // The lexer may have looked at one character beyond the value, which may be the end of its line.
  const char* last = at == text_.data() ? at : at - 1;
  const auto line = 1 + std::count(text_.data(), last, '\n');
  const ErrorCode code = error.code() == ErrorCode::not_found ? ErrorCode::invalid_input : error.code();
  return Error(code, error.message()).within(where_ + " line " + std::to_string(line));
}

template <typename Subject, typename Step>
auto FabricReader::guarded(Subject subject, const char* at, Step step) const {
  try {
    return step();
  } catch (const Error& error) {
    throw located(Error(error.code(), subject() + error.message()), at);
  }
}

bool FabricReader::parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) {
  // Of "[json.exception...] parse error at line 1, column 2: syntax error while ...; last read: '...'; expected ..."
  // the part that tells what is wrong; the text read last is left out, since it may be long and is found by its place.
  std::string message = error.what();
  const size_t begin = message.find("syntax error");
  message.erase(0, begin == std::string::npos ? message.find("] ") + 2 : begin);
  const size_t read_last = message.find("; last read: ");
  const size_t expected = message.rfind("; expected ");
  if (read_last != std::string::npos) {
    const std::string rest = expected != std::string::npos && expected > read_last ? message.substr(expected) : "";
    message = message.substr(0, read_last) + rest;
  }
  const char* last = reached_ == text_.data() ? reached_ : reached_ - 1;
  const std::string_view before = text_.substr(0, static_cast<size_t>(last - text_.data()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t column = before.size() - (before.rfind('\n') + 1) + 1;  // npos + 1 is 0: the first line
  throw Error(ErrorCode::invalid_input, message.substr(0, 300),
              where_ + " line " + std::to_string(line) + " column " + std::to_string(column));
}

bool FabricReader::start_object(size_t) {
  switch (place_) {
    case Place::outside:
      place_ = Place::document;
      return true;
    case Place::nodes:
      place_ = Place::node;
      item_ = Fields(kNodeKeys);
      node_ = {};
      return true;
    case Place::links:
      place_ = Place::link;
      item_ = Fields(kLinkKeys);
      link_ = {};
      return true;
    default:
      refuse("an object");
  }
}

bool FabricReader::key(std::string& name) {
  Fields& fields = place_ == Place::document ? document_ : item_;
  const auto object = [&] { return place_ == Place::document ? "" : item() + ": "; };
  if (!fields.enter(name)) {
    NearestName nearest(name);
    std::string names;
    for (const Key& known : fields.known()) {
      nearest.offer(known.name);
      names += (names.empty() ? "" : ", ") + std::string(known.name);
    }
    fail(object() + "unknown key " + in_quotes(name) +
         (nearest.best().empty() ? " (known: " + names + ")" : nearest.hint()));
  }
  if (fields.repeated()) fail(object() + "key " + in_quotes(name) + " stands twice; keep one");
  return true;
}

bool FabricReader::end_object() {
  switch (place_) {
    case Place::node:
      end_node();
      place_ = Place::nodes;
      break;
    case Place::link:
      end_link();
      place_ = Place::links;
      break;
    default:
      place_ = Place::outside;
      return true;
  }
  ++item_number_;
  return true;
}

bool FabricReader::start_array(size_t) {
  if (place_ == Place::symmetries) {
    if (symmetries_.size() == kMaxSymmetries) fail("symmetries: more than " + std::to_string(kMaxSymmetries));
    symmetries_.push_back({{}, reached_});
    place_ = Place::symmetry;
    return true;
  }
  if (place_ != Place::document || document_.in("banyan")) refuse("an array");
  item_number_ = 0;
  place_ = document_.in("nodes") ? Place::nodes : document_.in("links") ? Place::links : Place::symmetries;
  return true;
}

bool FabricReader::end_array() {
  if (place_ == Place::symmetry) {
    place_ = Place::symmetries;
    ++item_number_;
    return true;
  }
  if (place_ == Place::nodes) nodes_complete_ = true;
  place_ = Place::document;
  return true;
}

bool FabricReader::boolean(bool value) {
  if (place_ == Place::node && item_.in("multicast")) {
    node_.multicast = value;
  } else if (place_ == Place::node && item_.in("reduce")) {
    node_.reduce = value;
  } else if (place_ == Place::link && item_.in("both")) {
    link_.both = value;
  } else {
    refuse(value ? "true" : "false");
  }
  return true;
}

// `whole` is the value where it is an integer, else negative.
bool FabricReader::number(double value, int64_t whole) {
  if (place_ == Place::symmetry) {
    Permutation& image = symmetries_.back().image;
    if (whole < 0 || static_cast<uint64_t>(whole) >= Fabric::kMaxNodes) refuse("a number that no node has");
    if (image.size() == Fabric::kMaxNodes) fail(path() + ": has more entries than a fabric may have nodes");
    image.push_back(NodeId{static_cast<uint32_t>(whole)});
  } else if (place_ == Place::link && item_.in("loss")) {
    if (!(value >= 0 && value < 1)) refuse("a number outside of that");
    link_.link.loss = value == 0 ? 0 : value;  // -0 would have another fingerprint
  } else {
    const bool unit = place_ == Place::link && (item_.in("bandwidth") || item_.in("latency"));
    refuse(unit ? "a number without a unit" : "a number");
  }
  return true;
}

bool FabricReader::string(std::string& value) {
  if (place_ == Place::document && document_.in("banyan")) {
    read_format(value);
  } else if (place_ == Place::node) {
    read_node_text(value);
  } else if (place_ == Place::link) {
    read_link_text(value);
  } else {
    refuse("the text " + in_quotes(value));
  }
  return true;
}

void FabricReader::read_format(const std::string& value) const {
  if (value == kFormat) return;
  if (value.starts_with("fabric/")) {
    throw located(
        Error(ErrorCode::unsupported, "banyan: version " + in_quotes(value) + " is not known here, only \"fabric/1\""));
  }
  fail("banyan: expected \"fabric/1\", found " + in_quotes(value) + "; this file is no fabric");
}

void FabricReader::read_node_text(std::string& value) {
  if (item_.in("name")) {
    node_.name = std::move(value);
  } else if (item_.in("kind")) {
    if (value != "rank" && value != "switch") {
      NearestName nearest(value);
      nearest.offer("rank");
      nearest.offer("switch");
      fail(path() + ": kind " + in_quotes(value) + " is neither rank nor switch" + nearest.hint());
    }
    node_.kind = value == "rank" ? NodeKind::rank : NodeKind::switch_;
  } else {
    refuse("the text " + in_quotes(value));
  }
}

void FabricReader::read_link_text(std::string& value) {
  if (item_.in("from")) {
    link_.from = std::move(value);
    link_.from_at = reached_;
  } else if (item_.in("to")) {
    link_.to = std::move(value);
    link_.to_at = reached_;
  } else if (item_.in("bandwidth")) {
    link_.link.bandwidth = guarded([&] { return path() + ": "; }, reached_, [&] { return Bandwidth::parse(value); });
  } else if (item_.in("latency")) {
    link_.link.latency = guarded([&] { return path() + ": "; }, reached_, [&] { return parse_duration(value); });
  } else {
    refuse("the text " + in_quotes(value));
  }
}

void FabricReader::end_node() {
  if (!item_.had("name")) fail(item() + " has no \"name\"");
  if (!item_.had("kind"))
    fail(item() + ": node " + in_quotes(node_.name) + " has no \"kind\"; add \"rank\" or \"switch\"");
  if (node_.kind == NodeKind::rank && (node_.multicast || node_.reduce)) {
    fail(item() + ": node " + in_quotes(node_.name) + " is a rank; only a switch can multicast or reduce");
  }
  guarded([&] { return item() + ": "; }, reached_, [&] { return builder_.add_node(std::move(node_)); });
}

void FabricReader::end_link() {
  for (const char* required : {"from", "to"}) {
    if (!item_.had(required)) fail(item() + " has no \"" + required + "\"");
  }
  if (!item_.had("bandwidth")) {
    fail(item() + ": " + describe(link_.from, link_.to) + " has no \"bandwidth\"; add one such as \"300 GB/s\"");
  }
  if (nodes_complete_) {
    add_link(link_);
  } else if (early_links_.size() < Fabric::kMaxLinks) {
    early_links_.push_back(std::move(link_));
  } else {
    throw located(Error(ErrorCode::unsupported, "more than " + std::to_string(Fabric::kMaxLinks) + " links"));
  }
}

NodeId FabricReader::end_of(const PendingLink& pending, const std::string& name, const char* at) const {
  return guarded([&] { return describe(pending.from, pending.to) + ": "; }, at, [&] { return builder_.at(name); });
}

void FabricReader::add_link(const PendingLink& pending) {
  Link link = pending.link;
  link.from = end_of(pending, pending.from, pending.from_at);
  link.to = end_of(pending, pending.to, pending.to_at);
  guarded([] { return ""; }, pending.to_at,
          [&] { pending.both ? builder_.add_cable(link) : void(builder_.add_link(link)); });
}

void FabricReader::add_symmetry(PendingSymmetry& pending, size_t number) {
  guarded([&] { return "symmetries[" + std::to_string(number) + "]: "; }, pending.at,
          [&] {
            const size_t nodes = builder_.node_count();
            if (pending.image.size() != nodes) {
              throw Error(ErrorCode::invalid_input, "has " + std::to_string(pending.image.size()) + " entries for " +
                                                        std::to_string(nodes) + " nodes; it needs one each");
            }
            std::vector<bool> hit(nodes, false);
            for (const NodeId image : pending.image) {
              if (index(image) >= nodes || hit[index(image)]) {
                throw Error(ErrorCode::invalid_input,
                            "node number " + std::to_string(index(image)) +
                                (index(image) >= nodes ? " does not exist" : " stands twice"));
              }
              hit[index(image)] = true;
            }
          });
  builder_.add_symmetry(std::move(pending.image));
}

Fabric FabricReader::finish() {
  for (const char* required : {"banyan", "nodes", "links"}) {
    if (document_.had(required)) continue;
    const bool format = std::string_view(required) == "banyan";
    throw Error(ErrorCode::invalid_input,
                "has no \"" + std::string(required) + "\"" + (format ? "; add \"banyan\": \"fabric/1\"" : ""), where_);
  }
  for (const PendingLink& pending : early_links_) add_link(pending);
  early_links_ = {};
  for (size_t i = 0; i < symmetries_.size(); ++i) add_symmetry(symmetries_[i], i);
  try {
    return std::move(builder_).build();
  } catch (const Error& error) {
    throw error.within(where_);
  }
}

std::string json_text(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

// The fewest digits that read back as the same number.
std::string shortest(double value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  CHECK(end.ec == std::errc()) << value;
  return {digits.data(), end.ptr};
}

}  // namespace

Fabric parse_fabric_json(std::string_view json, const std::string& where) { return FabricReader(json, where).read(); }

std::string format_fabric_json(const Fabric& fabric) {
  std::string out = "{\n  \"banyan\": \"fabric/1\",\n  \"nodes\": [";
  const char* separator = "\n";
  for (const Node& node : fabric.nodes()) {
    out += std::exchange(separator, ",\n");
    out += "    {\"name\": " + json_text(node.name) + ", \"kind\": ";
    out += node.kind == NodeKind::rank ? "\"rank\"" : "\"switch\"";
    if (node.multicast) out += ", \"multicast\": true";
    if (node.reduce) out += ", \"reduce\": true";
    out += "}";
  }
  out += "\n  ],\n  \"links\": [";
  separator = "\n";
  for (const Link& link : fabric.links()) {
    out += std::exchange(separator, ",\n");
    out += "    {\"from\": " + json_text(fabric.name(link.from)) + ", \"to\": " + json_text(fabric.name(link.to));
    out += ", \"bandwidth\": \"" + link.bandwidth.to_string() + "\"";
    if (link.latency.count() != 0) out += ", \"latency\": \"" + to_string(link.latency) + "\"";
    if (link.loss != 0) out += ", \"loss\": " + shortest(link.loss);
    out += "}";
  }
  out += "\n  ]";
  separator = ",\n  \"symmetries\": [\n";
  for (const Permutation& image : fabric.symmetries()) {
    out += std::exchange(separator, ",\n");
    const char* comma = "    [";
    for (const NodeId id : image) out += std::exchange(comma, ", ") + std::to_string(index(id));
    out += "]";
  }
  return out + (fabric.symmetries().empty() ? "\n}\n" : "\n  ]\n}\n");
}

}  // namespace banyan::fabric
