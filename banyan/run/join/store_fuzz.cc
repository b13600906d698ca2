// Whatever members of a job say to a store, in pieces of any size.
#include <map>
#include <optional>
#include <string>

#include "banyan/base/check.h"
#include "banyan/run/join/store_table.h"
#include "banyan/run/join/wire.h"
#include "banyan/testing/fuzz.h"

namespace banyan::run {
namespace {

constexpr size_t kMaxMemory = 4096;

// The input is a conversation: a byte that names one of four clients, and how many bytes it says next (below 64), then
// those bytes. One that says nonsense is dropped, as a server does it.
void talk(std::string_view input) {
  size_t replies = 0;
  StoreTable table(kMaxMemory, [&](uint64_t client, const StoreTable::Reply& reply) {
    CHECK(client < 4);
    const size_t value = reply.value == nullptr ? 0 : reply.value->size();
    CHECK_EQ(WireReader(reply.head).number<uint32_t>(), reply.head.size() - FrameReader::kHead + value);
    ++replies;
  });
  std::map<uint64_t, FrameReader> clients;
  size_t requests = 0;
  for (size_t at = 0; at < input.size();) {
    const auto head = static_cast<unsigned char>(input[at++]);
    const uint64_t client = head & 3u;
    const std::string_view said = input.substr(at, head >> 2u);
    at += said.size();
    try {
      clients[client].append(said);
      while (const std::optional<std::string> frame = clients[client].next()) {
        table.request(client, *frame);
        ++requests;
      }
    } catch (const Error&) {
      table.forget(client);
      clients.erase(client);
    }
  }
  CHECK(replies <= requests && table.memory() <= kMaxMemory && table.waiting() <= 4)
      << replies << " replies to " << requests << " requests";
}

const testing::Fuzzer kFuzzer("store", "banyan/run/join/corpus/store", talk);

}  // namespace
}  // namespace banyan::run
