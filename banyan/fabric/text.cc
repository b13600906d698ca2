#include "banyan/fabric/text.h"

#include <algorithm>
#include <string>

#include "banyan/base/error.h"
#include "banyan/base/place.h"
#include "banyan/base/text.h"
#include "banyan/base/text_lines.h"
#include "banyan/fabric/loss.h"

namespace banyan::fabric {
namespace {

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
      throw invalid("kind '" + std::string(kind.substr(0, 40)) + "' is neither rank nor switch");
    }
  }

  static void add_power(Node& node, std::string_view power) {
    if (power != "multicast" && power != "reduce") {
      throw invalid("'" + std::string(power.substr(0, 40)) + "' is neither multicast nor reduce, what a switch may do");
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
      throw invalid("expected 'a -> b 400Gb/s' or 'a <-> b 400Gb/s', found '" + std::string(item.substr(0, 60)) + "'");
    }
    const size_t end = bandwidth_end(rest);
    if (end == std::string_view::npos) {
      throw invalid("link " + std::string(from.substr(0, 60)) + (both ? " <-> " : " -> ") +
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
    if (both) return builder_.add_cable(link);
    builder_.add_link(link);
  }

  Fabric::Builder builder_;
};

}  // namespace

Fabric parse_fabric_text(std::string_view text, const std::string& where) {
  TextReader reader;
  for_each_line(text, [&](std::string_view line, size_t number) {
    line = line.substr(0, line.find('#'));
    size_t column = 1;
    for (const std::string_view item : split(line, ';')) {
      try {
        if (!trim(item).empty()) reader.read_item(trim(item));
      } catch (const Error& error) {
        throw error.within(where + " line " + std::to_string(number) + " column " + std::to_string(column));
      }
      column += item.size() + 1;
    }
    return true;
  });
  return at_place(where, [&] { return std::move(reader).finish(); });
}

}  // namespace banyan::fabric
