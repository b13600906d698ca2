// The live screen of `banyan service top`: a terminal, by ncurses, the keys that are pressed, and a thread that asks
// the daemon meanwhile.
#pragma once

#include <chrono>

#include "apps/service/operator_door.h"

namespace banyan::app {

enum class TopEnd { quit, interrupted };  // by q; by Ctrl-C

// Shows the service until its user ends it; asks every `interval`. `first`: a view that was just taken.
// Throws Error{invalid_usage} where standard input or output is no terminal, or TERM names none that is known;
// Error{unsupported} in a build without ncurses. The terminal is as it was before, whatever happens.
TopEnd show_top(const OperatorDoor& door, service::ClusterView first, std::chrono::milliseconds interval);

// Throws Error{invalid_usage} unless standard input and output are terminals, as show_top() does.
void expect_terminal();

}  // namespace banyan::app
