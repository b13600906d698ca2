// Whatever comes out of the socket of a peer. The first byte says in which pieces.
#include <algorithm>

#include "banyan/base/check.h"
#include "banyan/run/transport/ucx/control.h"
#include "banyan/testing/fuzz.h"

namespace banyan::run::ucx {
namespace {

const testing::Fuzzer kFuzzer("ucx_control", "banyan/run/transport/ucx/corpus/ucx_control", [](std::string_view input) {
  if (input.empty()) return;
  ControlReader control(2, "rank 1");
  const size_t piece = static_cast<unsigned char>(input[0]) + size_t{1};
  const auto bytes = std::as_bytes(std::span(input.substr(1)));
  for (size_t at = 0; at < bytes.size(); at += piece) {
    control.take(bytes.subspan(at, std::min(piece, bytes.size() - at)));
    if (!control.greeting()) continue;
    const Greeting& greeting = *control.greeting();
    CHECK(!greeting.address.empty() && greeting.address.size() <= Greeting::kMaxAddress);
    // What is accepted is what is written.
    const std::vector<std::byte> again = to_bytes(greeting);
    CHECK(std::equal(again.begin(), again.end(), bytes.begin()));
    if (control.farewell()) CHECK_EQ(control.farewell()->size(), 2u);
  }
});

}  // namespace
}  // namespace banyan::run::ucx
