// A port for tests that must name one before anybody listens. Tests only.
#pragma once

#include <cstdint>
#include <random>

#include "banyan/base/error.h"
#include "banyan/run/join/listener.h"

namespace banyan::run {

// Below those that the kernel hands out by itself, for then a visitor that calls too early might be given the very
// port.
inline uint16_t free_port() {
  std::random_device random;
  std::uniform_int_distribution<uint16_t> any(20'000, 31'999);
  for (int tries = 0;; ++tries) {
    try {
      return Listener::on("127.0.0.1", any(random)).port();
    } catch (const Error&) {
      if (tries == 100) throw;
    }
  }
}

}  // namespace banyan::run
