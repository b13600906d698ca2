// `banyand --check`: all that is wrong with what it was told, and not only the first of it.
#pragma once

#include <string>
#include <vector>

#include "apps/banyand/asked.h"

namespace banyan::app {

struct Checked {
  std::vector<std::string> wrong;  // with each of these the daemon does not start
  std::vector<std::string> notes;  // with these it does: what may come yet, and what is hardly meant
};
// Opens no socket and makes no folder. Asks nobody over the network.
Checked check(Asked& asked, const CommandSyntax& syntax);

}  // namespace banyan::app
