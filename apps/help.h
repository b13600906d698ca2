// The help of a command, from its syntax: usage, arguments, options in groups, examples, notes.
#pragma once

#include <string>
#include <vector>

#include "apps/syntax.h"
#include "apps/terminal.h"

namespace banyan::app {

// "banyan plan [COLLECTIVE] [FABRIC] [OPTION...]".
std::string usage_of(const CommandSyntax& command);
// "-o, --output FILE".
std::string left_of(const OptionSyntax& option);
// The words of `text` in lines that fit between `indent` and `width`. The first line is not indented.
std::string wrapped(const std::string& text, size_t indent, size_t width);
// Words, then the options of the command itself, then the other groups in the order of their declaration.
std::vector<std::string> headings_of(const CommandSyntax& command);

// Lines of at most `width` columns; examples are never broken.
std::string format_help(const CommandSyntax& command, const Terminal& terminal, size_t width);

}  // namespace banyan::app
