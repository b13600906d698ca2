// Sleeping on a word of memory that several processes share. See futex(2).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace banyan::run {

// A word that is not lock-free would hide a mutex of one process's own.
static_assert(std::atomic<uint32_t>::is_always_lock_free && std::atomic<uint64_t>::is_always_lock_free);

// Sleeps while `word` is `expected`, at most so long. May return early.
void futex_wait(std::atomic<uint32_t>& word, uint32_t expected, std::chrono::milliseconds at_most);
void futex_wake_all(std::atomic<uint32_t>& word);

}  // namespace banyan::run
