// The verbs of a command, such as `up` and `down` of `banyan lab`, each with what it does.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "apps/command.h"
#include "banyan/base/check.h"

namespace banyan::app {

class Verbs {
 public:
  using Action = std::function<ExitCode(const Terminal&)>;

  // The syntax must outlive this object. Returns it.
  CommandSyntax& add(CommandSyntax& verb, Action action) {
    verbs_.emplace_back(&verb, std::move(action));
    return verb;
  }

  // Does what the verb of the command line says. One of the verbs must have been chosen.
  ExitCode run(const Terminal& terminal) const {
    for (const auto& [verb, action] : verbs_) {
      if (verb->was_chosen()) return action(terminal);
    }
    CHECK(false) << "none of " << verbs_.size() << " verbs was chosen";
    return ExitCode::bad_input;
  }

 private:
  std::vector<std::pair<const CommandSyntax*, Action>> verbs_;
};

}  // namespace banyan::app
