// SessionKeys: what the two ends of one connection know after they have shaken hands, and nobody else.
#pragma once

#include <string>

namespace banyan::run {

// 32 bytes each; one end's `sending` is the other's `receiving`. Empty: there is no secret, and both are of this host.
struct SessionKeys {
  std::string sending, receiving;
};

}  // namespace banyan::run
