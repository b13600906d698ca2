// ClassMarks: which DS code point the packets of a class of tenants bear, by which switches serve one class before
// another where no host alone decides.
//
// As an operator writes it: "high=CS4,low=LE". Code points are CS0 to CS7, AF11 to AF43, EF, VA and LE, as RFC 2474,
// 2597, 3246, 5865 and 8622 name them, or numbers from 0 to 63. Classes that are left out have CS0.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "banyan/service/share/rules.h"

namespace banyan::service {

struct ClassMarks {
  std::array<uint8_t, 3> dscp{};  // by class

  // Throws Error{invalid_input}.
  static ClassMarks parse(std::string_view text);
  uint8_t of(ShareClass share_class) const { return dscp.at(static_cast<size_t>(share_class)); }

  friend bool operator==(const ClassMarks&, const ClassMarks&) = default;
};

}  // namespace banyan::service
