// Health: how a rank does, as far as another one knows. One word for the agents, for the flight recorder and for the
// diagnosis.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace banyan::run {

// In order of weight. unknown: it has said nothing, and nobody has heard of it. silent: stopped, or cut off; a
// suspicion that may be withdrawn. left: it said good-bye and went. dead: its process has ended. Left and dead are for
// ever.
enum class Health : uint8_t { unknown, alive, silent, left, dead };
inline constexpr size_t kHealths = 5;

constexpr bool is_gone(Health health) { return health >= Health::left; }

// "alive", "silent", ... These names stand in records and in messages between agents.
std::string_view to_string(Health health);
// Throws Error{invalid_input} that lists the names.
Health parse_health(std::string_view text);

}  // namespace banyan::run
