// Messenger of an agreement, one after the other, as any peer could send them: four bytes of sender and length, the
// paxos.
#include <algorithm>

#include "banyan/run/agent/agreement.h"
#include "banyan/run/join/wire.h"
#include "banyan/testing/fuzz.h"

namespace banyan::run {
namespace {

void read_letters(std::string_view input) {
  Agreement agreement(1);
  Agreement::Clock::time_point now(std::chrono::hours(1));
  agreement.call({.epoch = 1, .candidates = {0, 1, 2}, .card = "own", .deadline = now + std::chrono::seconds(9)}, now);
  while (input.size() >= 4) {
    WireReader head(input.substr(0, 4));
    const uint32_t from = head.number<uint16_t>() % 4;
    const size_t size = std::min<size_t>(head.number<uint16_t>(), input.size() - 4);
    // Three says that another is gone.
    if (from == 3) {
      agreement.gone(static_cast<uint32_t>(size % 3), now);
    } else if (from != 1) {
      const Agreement::PaxosMessage paxos = Agreement::PaxosMessage::parse(input.substr(4, size));
      if (Agreement::PaxosMessage::parse(paxos.encode()).encode() != paxos.encode()) __builtin_trap();
      agreement.received(from, paxos, now);
    }
    input.remove_prefix(4 + size);
    now += std::chrono::milliseconds(100);
    agreement.tick(now);
    if (agreement.survivors() && agreement.failure()) __builtin_trap();
  }
}

const testing::Fuzzer kFuzzer("agreement", "banyan/run/agent/corpus/agreement", read_letters);

}  // namespace
}  // namespace banyan::run
