// Progress: who sees to requests that nobody waits for.
#pragma once

#include <chrono>
#include <cstdint>

namespace banyan::run {

// Threads that make progress are made by the first request. `at_once`: each start() wakes one. `soon`: start() begins a
// small call by itself and wakes nobody, which suits those who wait soon after. A thread looks whether something was
// left alone: within kSoon, and sooner while that happens again and again.
enum class Progress : uint8_t { by_nobody, soon, at_once };
inline constexpr std::chrono::milliseconds kSoon{20};

}  // namespace banyan::run
