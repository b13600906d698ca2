// A message of rows: two bytes of width and rows of the shard, the code of the values, then the message. Its digest is
// put right, so that what lies behind it is read.
#include <xxhash.h>

#include <cstring>

#include "banyan/sparse/row_message.h"
#include "banyan/testing/fuzz.h"

namespace banyan::sparse {
namespace {

void read_message(std::string_view input) {
  if (input.size() < 3) return;
  MessageContext context = {.width = 1U + static_cast<uint8_t>(input[0]) % 8, .rows = static_cast<uint8_t>(input[1])};
  const uint32_t code = static_cast<uint8_t>(input[2]) % static_cast<uint32_t>(codec::kValueCodes + 1);
  if (code > 0) context.codec = codec::Codec{.code = static_cast<codec::ValueCode>(code - 1)};
  input.remove_prefix(3);
  std::vector<std::byte> bytes(input.size());
  if (!bytes.empty()) std::memcpy(bytes.data(), input.data(), input.size());
  if (bytes.size() >= 8) {
    const uint64_t digest = XXH3_64bits(bytes.data() + 8, bytes.size() - 8);
    std::memcpy(bytes.data(), &digest, 8);
  }
  const RowMessage message = RowMessage::read(bytes, context, "rank 0");
  if (message.positions().size() != message.entries()) __builtin_trap();
  if (message.kind() == MessageKind::contribution) {
    const RowList sum = sum_of(std::span(&message, 1), context.rows, context.width);
    if (sum.rows.size() != message.entries()) __builtin_trap();
  }
}

const testing::Fuzzer kFuzzer("row_message", "banyan/sparse/corpus/row_message", read_message);

}  // namespace
}  // namespace banyan::sparse
