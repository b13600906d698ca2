// What a message between two ranks costs, both of them in one thread, so that no cache line travels: the work that is
// done for it. Arguments: ranks, bytes. Checks what arrives.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "banyan/base/check.h"
#include "banyan/run/host/mailboxes.h"

namespace banyan::run {
namespace {

enum class From : uint8_t { one, any, unexpected };

void send_and_receive(benchmark::State& state, From from) {
  const auto ranks = static_cast<uint32_t>(state.range(0));
  const Segment segment = Segment::make({.ranks = ranks, .block_bytes = 4096});
  const std::vector<std::unique_ptr<PeerRegions>> nobody(ranks);
  RegionPool pool;
  Mailboxes sender(segment, {.rank = 0, .own_regions = &pool, .peers = nobody});
  Mailboxes receiver(segment, {.rank = 1, .own_regions = &pool, .peers = nobody});
  std::vector<std::byte> sent(static_cast<size_t>(state.range(1))), received(sent.size()), other(1);
  std::vector<MessageEnd> ended;
  uint8_t number = 0;
  for (auto _ : state) {
    sent.back() = std::byte{++number};
    const MessageToReceive receive{.from = from == From::any ? kAnyPeer : 0, .tag = 1, .into = received};
    sender.send({.to = 1, .tag = 1, .bytes = sent});
    sender.advance(ended);
    if (from == From::unexpected) {
      receiver.receive({.from = 0, .tag = 2, .into = other});
      receiver.advance(ended);
      sender.send({.to = 1, .tag = 2, .bytes = std::span(sent).first(1)});
      sender.advance(ended);
    }
    receiver.receive(receive);
    receiver.advance(ended);
    CHECK(received.back() == sent.back() && ended.size() == (from == From::unexpected ? 4 : 2)) << ended.size();
    ended.clear();
  }
}
BENCHMARK_CAPTURE(send_and_receive, from_one, From::one)->ArgsProduct({{2, 64}, {8, 100, 1000}});
BENCHMARK_CAPTURE(send_and_receive, from_any, From::any)->ArgsProduct({{2, 64}, {8}});
BENCHMARK_CAPTURE(send_and_receive, through_unexpected, From::unexpected)->ArgsProduct({{2}, {8, 1000}});

}  // namespace
}  // namespace banyan::run

BENCHMARK_MAIN();
