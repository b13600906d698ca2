// Options of a command from a table of them (banyan/base/option_table.h), whose values it fills.
#pragma once

#include <span>
#include <string>
#include <utility>

#include "apps/syntax.h"
#include "banyan/base/option_table.h"

namespace banyan::app {

// The rows and the options outlive the command. An empty text is refused, but of options that repeat.
template <typename Options>
void declare_options(CommandSyntax& command, std::span<const OptionRow<Options>> rows, Options& options) {
  for (const OptionRow<Options>& row : rows) {
    command.group(std::string(row.group));
    const std::string name = "--" + std::string(row.name);
    if (row.is_flag()) {
      command.flag(name, row.flag(options), std::string(row.help));
      continue;
    }
    OptionSyntax::Target target = [&options, &row](const std::string& text) { row.set(options, text); };
    if (row.texts != nullptr) target = &row.texts(options);
    OptionSyntax& syntax = command.option(name, std::move(target), std::string(row.value), std::string(row.help));
    if (row.values != nullptr) syntax.values = row.values();
    if (row.names_files) syntax.paths = OptionSyntax::Paths::files;
    syntax.is_list = row.value == "LIST";
  }
}

}  // namespace banyan::app
