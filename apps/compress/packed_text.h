// The result of packing or unpacking a file, as text and as JSON.
#pragma once

#include <string>

#include "apps/compress/packed_file.h"
#include "apps/terminal.h"

namespace banyan::app {

struct PackedAnswer {
  std::string file, output;
  bool is_unpacked = false;  // else packed
  PackedSummary summary = {};
};

std::string format_packed_text(const PackedAnswer& answer, const Terminal& terminal);
std::string format_packed_json(const PackedAnswer& answer);

}  // namespace banyan::app
