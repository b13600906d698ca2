#include "banyan/base/check.h"
#include "banyan/fabric/json.h"
#include "banyan/testing/fuzz.h"

namespace banyan {
namespace {

// What is accepted must also survive being written and read again.
void read_write_read(std::string_view input) {
  const Fabric fabric = parse_fabric_json(input, "fuzz");
  const std::string text = format_fabric_json(fabric);
  try {
    const Fabric again = parse_fabric_json(text, "again");
    CHECK_EQ(again.fingerprint(), fabric.fingerprint());
    CHECK_EQ(format_fabric_json(again), text);
  } catch (const Error& error) {
    CHECK(false) << "what was written is refused: " << error.what();
  }
}

const testing::Fuzzer kFuzzer("fabric_json", "banyan/fabric/corpus/json", read_write_read);

}  // namespace
}  // namespace banyan
