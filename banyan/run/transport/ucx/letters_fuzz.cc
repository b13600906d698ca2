// Whatever comes out of the socket of a peer. The first byte says in which pieces.
#include <algorithm>

#include "banyan/base/check.h"
#include "banyan/run/transport/ucx/letters.h"
#include "banyan/testing/fuzz.h"

namespace banyan::run {
namespace {

const testing::Fuzzer kFuzzer("ucx_letters", "banyan/run/transport/ucx/corpus/ucx_letters", [](std::string_view input) {
  if (input.empty()) return;
  UcxLetters letters(2, "rank 1");
  const size_t piece = static_cast<unsigned char>(input[0]) + size_t{1};
  const auto bytes = std::as_bytes(std::span(input.substr(1)));
  for (size_t at = 0; at < bytes.size(); at += piece) {
    letters.take(bytes.subspan(at, std::min(piece, bytes.size() - at)));
    if (!letters.greeting()) continue;
    const UcxGreeting& greeting = *letters.greeting();
    CHECK(!greeting.address.empty() && greeting.address.size() <= UcxGreeting::kMaxAddress);
    // What is accepted is what is written.
    const std::vector<std::byte> again = to_bytes(greeting);
    CHECK(std::equal(again.begin(), again.end(), bytes.begin()));
    if (letters.farewell()) CHECK_EQ(letters.farewell()->size(), 2u);
  }
});

}  // namespace
}  // namespace banyan::run
