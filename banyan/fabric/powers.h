// Powers of switches: to multicast one stream to many outputs, to reduce many into one (NVLink SHARP inside a box,
// SHARP of an InfiniBand switch). A generated fabric declares none of them unless it is asked to.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/fabric/fabric.h"

namespace banyan::fabric {

struct Powers {
  bool multicast = true, reduce = true;
};

// "multicast", "reduce" or "none"; nothing for any other word.
std::optional<Powers> parse_powers(std::string_view word);

// The fabric with other powers of these switches. Symmetries are kept where they still hold.
Fabric with_powers(const Fabric& fabric, const std::vector<NodeId>& switches, Powers powers);
// The fabric whose switches do nothing but forward; the same where they already do no more.
Fabric without_powers(const Fabric& fabric);

// "2 switches multicast and reduce (nvsw0, nvsw1)"; with several kinds of powers, one after the other, by "; ". Empty
// where no switch has any.
std::string describe_powers(const Fabric& fabric);

// A suffix of a spec, as in dgx-h100:8+nvls+sharp: a sign and the switches that get both powers.
struct PowerSuffix {
  std::string_view text;         // "+nvls"
  std::string_view description;  // one line
};
std::vector<PowerSuffix> power_suffixes();

// Takes the suffixes off the end of a spec: "dgx-h100:8", and which. Throws Error{invalid_input} when one stands there
// twice.
struct SpecWithPowers {
  std::string_view spec;
  bool nvls = false;   // the switches inside boxes: NVSwitches
  bool sharp = false;  // the switches of the network
  std::string_view suffix;
};
SpecWithPowers split_powers(std::string_view text);

// Throws Error{invalid_input} where the fabric has no such switch.
Fabric apply_powers(const Fabric& fabric, const SpecWithPowers& asked);

}  // namespace banyan::fabric
