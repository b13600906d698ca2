#include "banyan/fabric/text.h"

#include <algorithm>
#include <optional>
#include <string>

#include "banyan/base/error.h"
#include "banyan/fabric/loss.h"

namespace banyan::fabric {
namespace {

std::string_view trim(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// Cuts the next word off the front.
std::string_view take_word(std::string_view& text) {
  text = trim(text);
  const size_t end = std::min(text.find_first_of(" \t"), text.size());
  const std::string_view word = text.substr(0, end);
  text = trim(text.substr(end));
  return word;
}

class TextReader {
 public:
  void read_item(std::string_view item) {
    if (const size_t colon = item.find(':');
        colon != std::string_view::npos && item.find("->") == std::string_view::npos) {
      declare(trim(item.substr(0, colon)), trim(item.substr(colon + 1)));
    } else {
      read_link(item);
    }
  }
  Fabric finish() && { return std::move(builder_).build(); }

 private:
  void declare(std::string_view name, std::string_view kind) {
    if (kind.starts_with("switch") && (kind.size() == 6 || kind[6] == ' ' || kind[6] == '\t')) {
      Node node{.name = std::string(name), .kind = NodeKind::switch_};
      for (std::string_view rest = trim(kind.substr(6)); !rest.empty();) add_power(node, take_word(rest));
      builder_.add_node(std::move(node));
    } else if (kind == "rank") {
      builder_.add_rank(std::string(name));
    } else {
      throw Error(ErrorCode::invalid_input,
                  "kind '" + std::string(kind.substr(0, 40)) + "' is neither rank nor switch");
    }
  }

  static void add_power(Node& node, std::string_view power) {
    if (power != "multicast" && power != "reduce") {
      throw Error(ErrorCode::invalid_input,
                  "'" + std::string(power.substr(0, 40)) + "' is neither multicast nor reduce, what a switch may do");
    }
    (power == "multicast" ? node.multicast : node.reduce) = true;
  }

  NodeId node(std::string_view name) {
    if (const auto known = builder_.find(name)) return *known;
    const bool is_switch = name.starts_with("sw") || name.starts_with("nvsw");
    return is_switch ? builder_.add_switch(std::string(name)) : builder_.add_rank(std::string(name));
  }

  // Behind "/s" or "bps", also when a space stands before the unit; npos where neither is.
  static size_t bandwidth_end(std::string_view text) {
    size_t end = std::string_view::npos;
    for (const std::string_view unit : {"/s", "bps"}) {
      const size_t at = text.find(unit);
      if (at != std::string_view::npos) end = std::min(end, at + unit.size());
    }
    return end;
  }

  // Cuts the last word off where it is "assumed".
  static bool take_assumed(std::string_view& text) {
    constexpr std::string_view kWord = "assumed";
    if (!text.ends_with(kWord)) return false;
    const std::string_view rest = text.substr(0, text.size() - kWord.size());
    if (!rest.empty() && rest.back() != ' ' && rest.back() != '\t') return false;
    text = trim(rest);
    return true;
  }

  void read_link(std::string_view item) {
    const size_t arrow = item.find("->");
    const bool both = arrow != std::string_view::npos && arrow > 0 && item[arrow - 1] == '<';
    const std::string_view from = trim(item.substr(0, both ? arrow - 1 : arrow));
    std::string_view rest = arrow == std::string_view::npos ? "" : item.substr(arrow + 2);
    const std::string_view to = take_word(rest);
    if (from.empty() || from.find_first_of(" \t") != std::string_view::npos || to.empty()) {
      throw Error(ErrorCode::invalid_input,
                  "expected 'a -> b 400Gb/s' or 'a <-> b 400Gb/s', found '" + std::string(item.substr(0, 60)) + "'");
    }
    const size_t end = bandwidth_end(rest);
    if (end == std::string_view::npos) {
      throw Error(ErrorCode::invalid_input, "link " + std::string(from.substr(0, 60)) + (both ? " <-> " : " -> ") +
                                                std::string(to.substr(0, 60)) + " has no bandwidth such as 400Gb/s");
    }
    Link link{.from = node(from), .to = node(to), .bandwidth = Bandwidth::parse(trim(rest.substr(0, end)))};
    rest = trim(rest.substr(end));
    link.assumed = take_assumed(rest);
    if (const size_t loss = rest.find("loss"); loss != std::string_view::npos) {
      link.loss = parse_loss(trim(rest.substr(loss + std::string_view("loss").size())));
      rest = trim(rest.substr(0, loss));
    }
    if (!rest.empty()) link.latency = parse_duration(rest);
    if (both) {
      builder_.add_cable(link);
    } else {
      builder_.add_link(link);
    }
  }

  Fabric::Builder builder_;
};

}  // namespace

Fabric parse_fabric_text(std::string_view text, const std::string& where) {
  TextReader reader;
  size_t line_number = 1;
  while (!text.empty()) {
    const size_t line_end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, line_end);
    text.remove_prefix(std::min(line_end + 1, text.size()));
    line = line.substr(0, line.find('#'));
    size_t column = 1;
    while (!line.empty()) {
      const size_t item_end = std::min(line.find(';'), line.size());
      const std::string_view item = trim(line.substr(0, item_end));
      try {
        if (!item.empty()) reader.read_item(item);
      } catch (const Error& error) {
        throw error.within(where + " line " + std::to_string(line_number) + " column " + std::to_string(column));
      }
      column += item_end + 1;
      line.remove_prefix(std::min(item_end + 1, line.size()));
    }
    ++line_number;
  }
  try {
    return std::move(reader).finish();
  } catch (const Error& error) {
    throw error.within(where);
  }
}

}  // namespace banyan::fabric
