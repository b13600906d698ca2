// SessionKeys: what the two ends of one connection know after they have shaken hands, and nobody else.
#pragma once

#include <string>

namespace banyan::run {

// 32 bytes each; one end's `sending` is the other's `receiving`. Empty: nobody has shaken hands here (tests).
struct SessionKeys {
  std::string sending, receiving;
};

}  // namespace banyan::run
