// --max-loss FRACTION: cables that lose more packets are left out of the fabric.
#pragma once

#include <optional>
#include <string>

#include "apps/option_values.h"
#include "banyan/base/utf8.h"
#include "banyan/fabric/loss.h"

namespace banyan::app {

class LossOption {
 public:
  void declare(CommandSyntax& command) {
    const auto parse = [this](const std::string& text) { return fabric::parse_loss(text_ = text); };
    command.option("--max-loss", into(most_, parse), "FRACTION",
                   "leave out cables that lose more packets than this in either direction, such as 1e-5");
  }

  // The fabric without them; as it is where the option was not given.
  Fabric without_lossy(Fabric fabric) const {
    if (!most_) return fabric;
    return parse_option("--max-loss", [&] { return fabric::without_lossy_links(fabric, *most_); });
  }
  // " --max-loss 1e-5" behind the name of the fabric, or nothing.
  std::string described() const { return most_ ? " --max-loss " + harmless(text_) : ""; }

 private:
  std::optional<double> most_;
  std::string text_;  // as it was given
};

}  // namespace banyan::app
