#include "apps/help.h"

#include <algorithm>

namespace banyan::app {

std::string wrapped(const std::string& text, size_t indent, size_t width) {
  std::string out;
  size_t column = indent;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const size_t length = end - begin;
    if (column > indent && column + 1 + length > width) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    }
    if (column > indent) out += ' ', ++column;
    out.append(text, begin, length);
    column += length;
    begin = end + 1;
  }
  return out;
}

namespace {

constexpr size_t kIndent = 2, kGap = 2;
constexpr size_t kWidestLeft = 30;  // a longer name has a line of its own

struct Row {
  std::string left, right;
};

class Page {
 public:
  Page(const Terminal& terminal, size_t width) : terminal_(terminal), width_(width) {}

  void line(const std::string& text) { text_ += wrapped(text, 0, width_) + "\n"; }
  void heading(const std::string& text) { text_ += "\n" + terminal_.styled(Terminal::Style::bold, text + ":") + "\n"; }
  void verbatim(const std::string& text) { text_ += std::string(kIndent, ' ') + text + "\n"; }
  void space() { text_ += "\n"; }

  void rows(const std::vector<Row>& rows, size_t left_width) {
    const size_t column = kIndent + left_width + kGap;
    for (const Row& row : rows) {
      text_ += std::string(kIndent, ' ') + row.left;
      if (row.left.size() > left_width) {
        text_ += "\n" + std::string(column, ' ');
      } else {
        text_ += std::string(left_width - row.left.size() + kGap, ' ');
      }
      text_ += wrapped(row.right, column, width_) + "\n";
    }
  }

  const std::string& text() const { return text_; }

 private:
  const Terminal& terminal_;
  const size_t width_;
  std::string text_;
};

size_t fitting_width(const std::vector<Row>& rows) {
  size_t width = 0;
  for (const Row& row : rows) {
    if (row.left.size() <= kWidestLeft) width = std::max(width, row.left.size());
  }
  return width;
}

// Long names stand below each other, also where there is no short one.
std::string aligned(const std::string& left) { return left.starts_with("--") ? "    " + left : left; }

}  // namespace

std::string left_of(const OptionSyntax& option) {
  std::string text;
  for (const std::string& name : option.all_names()) text += (text.empty() ? "" : ", ") + name;
  return option.placeholder.empty() ? text : text + " " + option.placeholder;
}

std::string usage_of(const CommandSyntax& command) {
  std::string text = command.name();
  if (!command.commands().empty()) text += command.takes_words() ? " [COMMAND]" : " COMMAND";
  bool has_options = false;
  for (const OptionSyntax& option : command.options()) {
    if (!option.is_word()) {
      has_options = true;
      if (option.is_required) text += " " + option.name() + " " + option.placeholder;
      continue;
    }
    const std::string word = option.names + (option.takes_rest ? "..." : "");
    text += option.is_required ? " " + word : " [" + word + "]";
  }
  if (has_options) text += " [OPTION...]";
  if (command.has_program()) text += " -- PROGRAM [ARGUMENT...]";
  return text;
}

std::vector<std::string> headings_of(const CommandSyntax& command) {
  std::vector<std::string> headings;
  const auto add = [&](const OptionSyntax& option) {
    if (std::find(headings.begin(), headings.end(), option.group) == headings.end()) headings.push_back(option.group);
  };
  for (const OptionSyntax& option : command.options()) {
    if (option.is_word()) add(option);
  }
  for (const OptionSyntax& option : command.options()) {
    if (option.group == CommandSyntax::kOwnGroup) add(option);
  }
  for (const OptionSyntax& option : command.options()) add(option);
  return headings;
}

std::string format_help(const CommandSyntax& command, const Terminal& terminal, size_t width) {
  Page page(terminal, width);
  page.line("Usage: " + usage_of(command));
  page.space();
  page.line(command.summary());
  std::vector<Row> commands, options;
  for (const CommandSyntax& each : command.commands()) {
    if (!each.is_hidden()) commands.push_back({each.verb(), each.summary()});
  }
  for (const OptionSyntax& option : command.options()) options.push_back({aligned(left_of(option)), option.help});
  if (!commands.empty()) {
    page.heading("Commands");
    page.rows(commands, fitting_width(commands));
  }
  const size_t left_width = fitting_width(options);
  for (const std::string& heading : headings_of(command)) {
    page.heading(heading);
    std::vector<Row> rows;
    for (size_t i = 0; i < options.size(); ++i) {
      if (command.options()[i].group == heading) rows.push_back(options[i]);
    }
    page.rows(rows, left_width);
  }
  if (!command.examples().empty()) {
    page.heading("Examples");
    for (const std::string& example : command.examples()) page.verbatim(example);
  }
  for (const std::string& note : command.notes()) {
    page.space();
    page.line(note);
  }
  if (!command.exit_codes().empty()) {
    std::string codes;
    for (const Meaning& code : command.exit_codes())
      codes += (codes.empty() ? "Exit code: " : ", ") + code.name + " " + code.text;
    page.space();
    page.line(codes + ".");
  }
  return page.text();
}

}  // namespace banyan::app
