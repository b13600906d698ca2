#include "banyan/run/agent/survivors.h"

#include <charconv>

#include "banyan/base/error.h"

namespace banyan::run {

SurvivorRule SurvivorRule::parse(std::string_view text) {
  if (text == "any") return {};
  if (text == "majority") return {.kind = Kind::majority};
  SurvivorRule rule{.kind = Kind::at_least};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rule.count);
  if (error != std::errc() || end != text.data() + text.size() || rule.count == 0) {
    throw Error(ErrorCode::invalid_input, "'" + std::string(text.substr(0, 40)) +
                                              "' says not who may survive: it is to be 'any', 'majority' (more than "
                                              "half of the last group), or how many ranks there must be at least");
  }
  return rule;
}

uint32_t SurvivorRule::least_of(size_t candidates) const {
  switch (kind) {
    case Kind::any:
      return 1;
    case Kind::majority:
      return static_cast<uint32_t>(candidates / 2 + 1);
    case Kind::at_least:
      break;
  }
  return count;
}

}  // namespace banyan::run
