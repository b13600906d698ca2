// What a tenant may do to those who share two daemons with it: the twenty attacks that bench/service/isolation.py
// measures. Each goes on until its time is over; what the daemons refuse it is counted, and not an error.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "bench/service/raw_client.h"

namespace bench {

struct Attack {
  std::string first, second;  // sockets of the daemons
  double seconds = 10;
  std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();
  std::mt19937_64 random{1};
  uint64_t refused = 0, acts = 0;
  bool has_begun = false;

  bool is_over() const { return std::chrono::steady_clock::now() - begun >= std::chrono::duration<double>(seconds); }
  RawTeam::Options team(size_t buffer = 4096, uint32_t most_sessions = 64) const {
    return {.first = first, .second = second, .buffer = buffer, .most_sessions = most_sessions};
  }
  // Once what it needs is there, for who waits for it: writes "begun".
  void say_begun() {
    if (std::exchange(has_begun, true)) return;
    std::puts("begun");
    std::fflush(stdout);
  }
  // Runs `body` until the time is over; what is thrown counts as a refusal, and `body` begins anew.
  void repeat(const std::function<void()>& body);
};

struct NamedAttack {
  const char* name;
  void (*run)(Attack& attack);
  bool prepares = false;  // and says itself when it has begun
};
// Number n is attack n + 1.
const std::vector<NamedAttack>& attacks();

// By calls that are allowed.
void flood_links(Attack& attack);
void storm_of_small_calls(Attack& attack);
void never_read(Attack& attack);
void leave_peers_waiting(Attack& attack);
void read_slowly(Attack& attack);
void ask_for_many_plans(Attack& attack);
void have_many_names(Attack& attack);
void beat_in_time(Attack& attack);
void poison_sums(Attack& attack);
// By what is not.
void jump_in_rings(Attack& attack);
void submit_nonsense(Attack& attack);
void take_memory_away(Attack& attack);
void wake_in_vain(Attack& attack);
void guess_capabilities(Attack& attack);
// By control.
void come_and_go(Attack& attack);
void take_all_connections(Attack& attack);
void churn_regions(Attack& attack);
void die_anywhere(Attack& attack);
// Beside the daemons.
void flood_beside(Attack& attack);
void hog_memory(Attack& attack);

}  // namespace bench
