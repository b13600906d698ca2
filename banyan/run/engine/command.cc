#include "banyan/run/engine/command.h"

#include <string>

namespace banyan::run {
namespace {

std::string hexadecimal(uint64_t value) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text(16, '0');
  for (size_t i = 0; i < 16; ++i) text[i] = kDigits[value >> (60 - 4 * i) & 15];
  return text;
}

std::string words(const MismatchError::Side& side) {
  std::string text = hexadecimal(side.signature[0]);
  for (size_t i = 1; i < side.signature.size(); ++i) text += "-" + hexadecimal(side.signature[i]);
  return "operation " + std::to_string(side.sequence) + " (signature " + text + ")";
}

}  // namespace

MismatchError::MismatchError(uint32_t peer, const Side& own, const Side& others)
    : Error(ErrorCode::mismatch,
            "rank " + std::to_string(peer) + " is at " + words(others) + " where this rank is at " + words(own)),
      peer_(peer),
      own_(own),
      others_(others) {}

}  // namespace banyan::run
