#include "apps/syntax.h"

#include <algorithm>

#include "banyan/base/check.h"

namespace banyan::app {

std::vector<std::string> OptionSyntax::all_names() const {
  std::vector<std::string> all;
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = std::min(names.find(',', begin), names.size());
    all.push_back(names.substr(begin, end - begin));
    begin = end + 1;
  }
  return all;
}

std::string OptionSyntax::name() const { return all_names().back(); }

void OptionSyntax::set(const std::string& value) const {
  if (const Setter* const setter = std::get_if<Setter>(&target)) return (*setter)(value);
  *std::get<std::string*>(target) = value;
}

OptionSyntax& CommandSyntax::word(std::string name, OptionSyntax::Target target, std::string help) {
  return options_.emplace_back(OptionSyntax{
      .names = std::move(name), .help = std::move(help), .group = "Arguments", .target = std::move(target)});
}

OptionSyntax& CommandSyntax::file_word(std::string name, std::string& path, std::string help) {
  OptionSyntax& added = word(std::move(name), &path, std::move(help));
  added.is_required = true;
  added.paths = OptionSyntax::Paths::files;
  return added;
}

OptionSyntax& CommandSyntax::option(std::string names, OptionSyntax::Target target, std::string placeholder,
                                    std::string help) {
  const bool is_path = placeholder == "FILE" || placeholder == "PATH";
  const auto paths = is_path ? OptionSyntax::Paths::files : OptionSyntax::Paths::none;
  return options_.emplace_back(OptionSyntax{.names = std::move(names),
                                            .placeholder = std::move(placeholder),
                                            .help = std::move(help),
                                            .group = group_,
                                            .target = std::move(target),
                                            .paths = paths});
}

OptionSyntax& CommandSyntax::flag(std::string names, bool& target, std::string help) {
  return option(std::move(names), &target, "", std::move(help));
}

CommandSyntax& CommandSyntax::command(const std::string& name, std::string summary) {
  return commands_.emplace_back(name_ + " " + name, std::move(summary));
}

std::string CommandSyntax::verb() const { return name_.substr(name_.rfind(' ') + 1); }

const OptionSyntax* CommandSyntax::find(std::string_view name) const {
  for (const OptionSyntax& option : options_) {
    const std::vector<std::string> all = option.all_names();
    if (std::find(all.begin(), all.end(), name) != all.end()) return &option;
  }
  return nullptr;
}

bool CommandSyntax::is_given(std::string_view name) const {
  const OptionSyntax* const option = find(name);
  CHECK(option != nullptr) << "no option " << name << " of " << name_;
  return option->is_given();
}

CommandSyntax* CommandSyntax::find_command(std::string_view verb) {
  for (CommandSyntax& command : commands_) {
    if (command.verb() == verb) return &command;
  }
  return nullptr;
}

bool CommandSyntax::takes_words() const {
  return std::any_of(options_.begin(), options_.end(), [](const OptionSyntax& option) { return option.is_word(); });
}

}  // namespace banyan::app
