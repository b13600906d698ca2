// Ports for those who must name one before anybody listens: launchers and tests.
#pragma once

#include <cstdint>
#include <random>

#include "banyan/base/error.h"
#include "banyan/run/join/listener.h"

namespace banyan::run {

// A port from 20000 to 31999 such that it and the `more` after it are free on the loopback. They are below those that
// the kernel hands out by itself, so that nobody gets one by chance before it is used. Throws Error{io}.
inline uint16_t free_port(uint16_t more = 0) {
  constexpr int kTries = 1000;
  std::random_device random;
  std::uniform_int_distribution<uint16_t> any(20'000, static_cast<uint16_t>(31'999 - more));
  for (int tries = 1;; ++tries) {
    const uint16_t first = any(random);
    try {
      for (uint16_t i = 0; i <= more; ++i) Listener::on("127.0.0.1", static_cast<uint16_t>(first + i));
      return first;
    } catch (const Error&) {
      if (tries == kTries) throw;
    }
  }
}

}  // namespace banyan::run
