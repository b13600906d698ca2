// A submission as any client could write it, beside memory that is filled by the input, too. Four bytes of rules and
// mends, the submission, the numbers of its lists. A mend puts something in order, so that the input gets past the
// first looks more often.
#include <algorithm>
#include <array>
#include <cstring>

#include "banyan/base/check.h"
#include "banyan/service/protocol/test_call_model.h"
#include "banyan/testing/fuzz.h"

namespace banyan::service {
namespace {

struct Head {
  uint8_t size = 0, rank = 0, limit = 0, mends = 0;
};

// The regions of a client, one of which has taken the place of another.
struct Client {
  RegionTable table{{}};
  std::array<OfferedMemory, 4> regions;

  Client() {
    const OfferedMemory first = offer_memory(table, 512);
    table.withdraw(first.place);
    const uint64_t sizes[] = {4096, 100, 8232, 64};
    std::transform(std::begin(sizes), std::end(sizes), regions.begin(),
                   [&](uint64_t size) { return offer_memory(table, size); });
  }
};

void mend(Submission& submission, const Client& client, const SessionRules& rules, uint8_t mends) {
  const auto has = [&](int bit) { return (mends >> bit & 1) != 0; };
  if (has(0)) {
    submission.version = kProtocolVersion;
    submission.flags %= 2;
    submission.zero = 0;
    std::fill(std::begin(submission.zeros), std::end(submission.zeros), uint8_t{0});
  }
  if (has(1)) submission.sequence = rules.next_sequence;
  if (has(2)) {
    submission.kind %= 14;
    submission.type %= element::kDataTypes;
    submission.op %= element::kReduceOps;
  }
  for (BufferName* const name : {&submission.send, &submission.recv, &submission.counts}) {
    if (!has(3)) continue;
    const OfferedMemory& region = client.regions[name->region % client.regions.size()];
    *name = region.at(name->offset % (has(4) ? 128 : region.size));
  }
  if (has(3)) submission.counts = client.regions[0].at(submission.counts.offset % 64 / 8 * 8);
  if (has(5)) submission.other %= rules.size;
  if (has(6)) submission.count %= 64;
}

void read_submission(std::string_view input) {
  static Client client;
  Head head;
  Submission submission;
  const auto read = [&](void* into, size_t bytes) {
    const size_t there = std::min(bytes, input.size());
    std::memcpy(into, input.data(), there);
    input.remove_prefix(there);
  };
  read(&head, sizeof head);
  read(&submission, sizeof submission);
  constexpr uint64_t kLimits[] = {uint64_t{1} << 40, 64, 4096, UINT64_MAX};
  SessionRules rules{.size = head.size % 9u + 1, .next_sequence = 5, .most_bytes = kLimits[head.limit % 4]};
  rules.rank = head.rank % rules.size;
  mend(submission, client, rules, head.mends);

  std::byte* const numbers = client.regions[0].data;
  std::memset(numbers, 0, 1024);
  read(numbers, 1024);
  for (size_t i = 0; (head.mends & 0x80) != 0 && i < 1024; i += 8) std::memset(numbers + i + 1, 0, 7);

  const std::string wrong = disagreement(submission, rules, client.table, client.regions);
  CHECK(wrong.empty()) << wrong;
}

const testing::Fuzzer kFuzzer("validate", "banyan/service/protocol/corpus/validate", read_submission);

}  // namespace
}  // namespace banyan::service
