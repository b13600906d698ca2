#include "apps/compress/packed_text.h"

#include <nlohmann/json.hpp>

#include "apps/compress/compress_text.h"
#include "apps/report.h"
#include "banyan/base/text.h"
#include "banyan/base/units.h"
#include "banyan/base/utf8.h"

namespace banyan::app {
namespace {

double ratio_of(const PackedSummary& summary) {
  return static_cast<double>(summary.bytes) / static_cast<double>(summary.packed_bytes);
}

std::string size_text(uint64_t bytes) { return Bytes(bytes).to_string(); }

// "8 tensors at 3.97 bits a value, the others exactly".
std::string coded_text(const PackedSummary& summary) {
  std::string text = plural(summary.coded, "tensor");
  if (summary.bits > 0) text += " at " + format_decimals(summary.bits, 2) + " bits a value";
  return text + (summary.coded < summary.tensors ? ", the others exactly" : "");
}

}  // namespace

std::string format_packed_text(const PackedAnswer& answer, const Terminal& terminal) {
  const PackedSummary& summary = answer.summary;
  std::string text =
      labelled(terminal, answer.is_unpacked ? "unpacked" : "packed",
               harmless(answer.file) + ": " + plural(summary.tensors, "tensor") + " of a " + summary.kind + " file, " +
                   size_text(summary.bytes) + (answer.is_unpacked ? " from " : " in ") +
                   size_text(summary.packed_bytes) + ", ratio " + format_decimals(ratio_of(summary), 2));
  text += labelled(terminal, "coded", summary.coded == 0 ? "none: all is kept exactly" : coded_text(summary));
  if (summary.bits > 0) {
    text += labelled(terminal, "error",
                     error_text(summary.error) + " root mean square, relative to that of the values that are coded");
  }
  if (summary.not_finite > 0) {
    text += labelled(terminal, "not finite", plural(summary.not_finite, "value") + ", which become NaN");
  }
  return text + written(terminal, answer.output);
}

std::string format_packed_json(const PackedAnswer& answer) {
  const PackedSummary& summary = answer.summary;
  Json object = {{"banyan", answer.is_unpacked ? "decompress/1" : "packed/1"},
                 {"file", answer.file},
                 {"output", answer.output},
                 {"kind", summary.kind},
                 {"tensors", summary.tensors},
                 {"coded", summary.coded},
                 {"bytes", summary.bytes},
                 {"packed_bytes", summary.packed_bytes},
                 {"ratio", ratio_of(summary)}};
  if (!answer.is_unpacked) {
    object["bits"] = summary.bits;
    object["error"] = summary.error;
    object["not_finite"] = summary.not_finite;
  }
  return format_json(object);
}

}  // namespace banyan::app
