#include "apps/manual.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <sstream>

#include "apps/help.h"

namespace banyan::app {
namespace {

// What holds for commands that say nothing else.
const std::vector<Meaning>& usual_exit_codes() {
  static const std::vector<Meaning> codes = {
      {"0", "success"}, {"2", "bad input, or the operating system refused; nothing was printed to standard output"}};
  return codes;
}

// Characters that groff would take for something else, or make typographic.
std::string escaped(std::string_view text) {
  static const std::map<char, const char*> kEscapes = {{'\\', "\\e"},  {'-', "\\-"},   {'\'', "\\(aq"},
                                                       {'`', "\\(ga"}, {'^', "\\(ha"}, {'~', "\\(ti"}};
  std::string out;
  for (const char c : text) {
    const auto found = kEscapes.find(c);
    out += found == kEscapes.end() ? std::string(1, c) : found->second;
  }
  return out;
}

// A line of text, which no first character makes a request.
std::string line_of(std::string_view text) { return (text.starts_with('.') ? "\\&" : "") + escaped(text) + "\n"; }

// The same of a text that is filled, in short lines.
std::string lines_of(const std::string& text) {
  constexpr size_t kWidth = 64;  // before characters are escaped
  std::string out;
  std::istringstream lines(wrapped(text, 0, kWidth));
  for (std::string line; std::getline(lines, line);) out += line_of(line);
  return out;
}

// Placeholders ("FILE", "A-B=BANDWIDTH") in italics, everything else in bold, punctuation of the syntax plain.
std::string styled(std::string_view text) {
  const auto is_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_'; };
  std::string out;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin;
    while (end < text.size() && is_name(text[end]) == is_name(text[begin])) ++end;
    const std::string_view piece = text.substr(begin, end - begin);
    const bool is_placeholder = std::none_of(piece.begin(), piece.end(), [](char c) { return c >= 'a' && c <= 'z'; }) &&
                                !piece.starts_with('-');
    if (!is_name(piece.front())) {
      out += escaped(piece);
    } else {
      out += (is_placeholder ? "\\fI" : "\\fB") + escaped(piece) + "\\fR";
    }
    begin = end;
  }
  return out;
}

std::string page_name(const CommandSyntax& command) {
  std::string name = command.name();
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

std::string reference_to(const CommandSyntax& command) { return ".BR " + escaped(page_name(command)) + " (1)"; }

struct Edition {
  std::string version, date;
};

class PageWriter {
 public:
  PageWriter(const CommandSyntax& command, const std::vector<const CommandSyntax*>& related)
      : command_(command), related_(related) {}

  std::string write(const Edition& edition) {
    std::string title = page_name(command_);
    std::transform(title.begin(), title.end(), title.begin(), [](unsigned char c) { return std::toupper(c); });
    text_ = ".\\\" Made by 'banyan manual' from the table of commands.\n";
    text_ += ".TH " + escaped(title) + " 1 \"" + edition.date + "\" \"banyan " + edition.version + "\" \"Banyan\"\n";
    section("NAME");
    std::string summary = command_.summary();
    summary.pop_back();  // the full stop
    summary.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(summary.front())));
    text_ += escaped(page_name(command_)) + " \\-\n" + lines_of(summary);
    section("SYNOPSIS");
    text_ += styled(usage_of(command_)) + "\n";
    description();
    commands();
    options();
    examples();
    const std::vector<Meaning>& codes = command_.exit_codes();
    meanings("EXIT STATUS", codes.empty() ? usual_exit_codes() : codes);
    meanings("ENVIRONMENT", command_.environment());
    meanings("FILES", command_.files());
    see_also();
    return text_;
  }

 private:
  void section(const char* name) { text_ += std::string(".SH ") + name + "\n"; }

  void row(const std::string& left, const std::string& right) {
    text_ += ".TP\n" + styled(left) + "\n" + lines_of(right);
  }

  void description() {
    section("DESCRIPTION");
    text_ += lines_of(command_.summary());
    for (const std::string& note : command_.notes()) text_ += ".PP\n" + lines_of(note);
  }

  void commands() {
    bool is_first = true;
    for (const CommandSyntax& each : command_.commands()) {
      if (each.is_hidden()) continue;
      if (is_first) section("COMMANDS");
      is_first = false;
      text_ += ".TP\n" + reference_to(each) + "\n" + lines_of(each.summary());
    }
  }

  void options() {
    section("OPTIONS");
    for (const std::string& heading : headings_of(command_)) {
      if (heading != CommandSyntax::kOwnGroup) text_ += ".SS " + escaped(heading) + "\n";
      for (const OptionSyntax& option : command_.options()) {
        if (option.group == heading) row(left_of(option), option.help + relations(option));
      }
      if (heading == CommandSyntax::kOwnGroup) help_row();
    }
    if (command_.find("-h") == nullptr && !has_own_group()) help_row();
  }

  bool has_own_group() const {
    return std::any_of(command_.options().begin(), command_.options().end(),
                       [](const OptionSyntax& option) { return option.group == CommandSyntax::kOwnGroup; });
  }

  void help_row() { row("-h, --help", "show the help of the command"); }

  static std::string relations(const OptionSyntax& option) {
    std::string text, others;
    if (!option.needs.empty()) text += "; needs " + option.needs;
    for (const std::string& other : option.excludes) others += (others.empty() ? "; not with " : ", ") + other;
    return text + others;
  }

  void examples() {
    if (command_.examples().empty()) return;
    section("EXAMPLES");
    text_ += ".nf\n";
    for (const std::string& example : command_.examples()) text_ += line_of(example);
    text_ += ".fi\n";
  }

  void meanings(const char* heading, const std::vector<Meaning>& rows) {
    if (rows.empty()) return;
    section(heading);
    for (const Meaning& each : rows) row(each.name, each.text);
  }

  void see_also() {
    section("SEE ALSO");
    for (size_t i = 0; i < related_.size(); ++i) {
      text_ += reference_to(*related_[i]) + (i + 1 < related_.size() ? " ,\n" : "\n");
    }
    text_ += ".PP\nThe documentation: share/doc/banyan of the installation (on Debian the package banyan\\-doc).\n";
  }

  const CommandSyntax& command_;
  const std::vector<const CommandSyntax*>& related_;
  std::string text_;
};

// Pages of `command` and of all below it; `around` are those above and beside it.
void add_pages(const CommandSyntax& command, const std::vector<const CommandSyntax*>& around, const Edition& edition,
               std::vector<ManualPage>& pages) {
  std::vector<const CommandSyntax*> related = around, below = {&command};
  for (const CommandSyntax& each : command.commands()) {
    if (!each.is_hidden()) below.push_back(&each);
  }
  related.insert(related.end(), below.begin() + 1, below.end());
  std::erase(related, &command);
  pages.push_back({page_name(command) + ".1", PageWriter(command, related).write(edition)});
  for (size_t i = 1; i < below.size(); ++i) add_pages(*below[i], below, edition, pages);
}

}  // namespace

std::vector<ManualPage> manual_pages(const CommandSyntax& program, const std::string& version,
                                     const std::string& date) {
  std::vector<ManualPage> pages;
  add_pages(program, {}, {.version = version, .date = date}, pages);
  return pages;
}

}  // namespace banyan::app
