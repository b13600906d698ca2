// Fabrics from what `ibnetdiscover` prints of an InfiniBand subnet. docs/formats/site-files.md says what is taken from
// it.
//
// Every channel adapter that is connected is a rank, named by its description ("node7 mlx5_0" becomes
// "node7/mlx5_0") and numbered in the order of the names; every switch is a switch. Cables have the width and speed at
// the end of their lines.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/base/units.h"
#include "banyan/fabric/fabric.h"

namespace banyan::fabric {

struct IbOptions {
  std::optional<Bandwidth> fallback = std::nullopt;  // of cables whose lines have no width and speed
  std::vector<std::string> left_out = {};            // as --remove names adapters and switches, which are not taken
  std::vector<std::string>* met = nullptr;           // those adapters and switches
};

// `where` (a file's name) is put in front of what is wrong, with the line; what was left out is appended to `notes`.
// Throws Error{invalid_input}, which names the parts of a network that is in several.
Fabric parse_ib_topology(std::string_view text, const std::string& where, std::vector<std::string>& notes,
                         const IbOptions& options = {});

// True if a text looks like the output of `ibnetdiscover`.
bool is_ib_topology(std::string_view text);

}  // namespace banyan::fabric
