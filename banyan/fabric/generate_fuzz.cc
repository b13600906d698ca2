#include <cstdint>

#include "banyan/fabric/generate.h"
#include "banyan/testing/fuzz.h"

namespace banyan::fabric {
namespace {

// The product of all numbers in the text, up to a bound: large fabrics are slow to build and find nothing new.
// Digits of names ("mi300x") and of a bandwidth after '@' do not count.
bool asks_for_a_small_fabric(std::string_view spec) {
  constexpr uint64_t kMaxNumber = 16, kMaxProduct = 20'000;
  uint64_t product = 1, number = 0;
  bool counts = false;
  for (const char c : spec) {
    counts = c == ':' || c == ')' || (counts && c != '(' && c != '@');
    const bool is_digit = counts && c >= '0' && c <= '9';
    if (!is_digit && number > 0) product *= number;
    number = is_digit ? number * 10 + static_cast<uint64_t>(c - '0') : 0;
    if (number > kMaxNumber || product > kMaxProduct) return false;
  }
  return true;
}

const testing::Fuzzer kFuzzer("fabric_spec", "banyan/fabric/corpus/spec", [](std::string_view input) {
  if (asks_for_a_small_fabric(input)) generate_fabric(input);
});

}  // namespace
}  // namespace banyan::fabric
