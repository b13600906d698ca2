#include "banyan/run/record/health.h"

#include <array>

#include "banyan/run/call/names.h"

namespace banyan::run {
namespace {

constexpr std::array<std::string_view, kHealths> kHealthNames = {"unknown", "alive", "silent", "left", "dead"};

}  // namespace

std::string_view to_string(Health health) { return kHealthNames[static_cast<size_t>(health)]; }
Health parse_health(std::string_view text) { return parse_name<Health>(text, "health", kHealthNames); }

}  // namespace banyan::run
