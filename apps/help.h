// The help of a command, from its syntax: usage, arguments, options in groups, examples, notes.
#pragma once

#include <string>

#include "apps/syntax.h"
#include "apps/terminal.h"

namespace banyan::app {

// Lines of at most `width` columns; examples are never broken.
std::string format_help(const CommandSyntax& command, const Terminal& terminal, size_t width);

}  // namespace banyan::app
