#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "banyan/run/record/message_book.h"
#include "banyan/run/record/recorder.h"
#include "banyan/testing/orders/explorer.h"

namespace banyan::testing::orders {
namespace {

using element::DataType;
using element::ReduceOp;
using run::MessageBook;
using run::MessageRecord;
using run::MessageRecords;
using run::OperationKind;
using run::OperationRecord;
using run::OperationState;
using run::Recorder;

// The first call is long, and so its begin is read from the exact clock.
constexpr int64_t kExact = 7, kCoarse = 6;
const run::RecorderClock kClock{
    .exact = [] { return kExact; }, .coarse = [] { return kCoarse; }, .wall = [] { return kExact; }};

struct Record {
  alignas(64) std::array<std::byte, Recorder::kMemoryBytes> memory{};
  Recorder recorder{memory, kClock};
};

// Two calls that differ in every field that a call has.
const Recorder::Call kFirst{.kind = OperationKind::all_reduce,
                            .type = DataType::float32,
                            .op = ReduceOp::sum,
                            .state = OperationState::running,
                            .other = 1,
                            .count = Recorder::kExactCount,
                            .counts_hash = 11};
const Recorder::Call kSecond{.kind = OperationKind::broadcast,
                             .type = DataType::int64,
                             .op = ReduceOp::max,
                             .state = OperationState::waiting,
                             .other = 2,
                             .count = 20,
                             .counts_hash = 21};
const Recorder::Call kMessage{.kind = OperationKind::send};

void expect_whole(Trial& trial, const OperationRecord& record) {
  const bool is_first = record.ticket == 1;
  const Recorder::Call& call = is_first ? kFirst : kSecond;
  trial.expect(record.kind == call.kind && record.type == call.type && record.op == call.op, "another kind");
  trial.expect(record.other == call.other && record.count == call.count, "another call");
  trial.expect(record.counts_hash == call.counts_hash, "another call");
  trial.expect(record.begin == (is_first ? kExact : kCoarse), "another begin");
  trial.expect(record.sequence == (is_first ? 1 : 2), "another number");
  trial.expect(record.end == (is_first ? kExact : 0), "another end");
  trial.expect(record.state == (is_first ? OperationState::failed : OperationState::waiting), "another state");
  trial.expect(record.step == (is_first ? 3 : 0), "another step");
  trial.expect(record.waits_for == (is_first ? 5 : run::kNoRank), "it waits for another");
}

// The place of a call is taken by another one, while somebody looks at it.
void a_record_is_overwritten(Trial& trial) {
  auto& record = *new Record;
  Recorder::Entry first = record.recorder.begin(kFirst);
  first.wait_for(5);
  first.advance(3);
  first.finish(OperationState::failed);
  for (size_t i = 1; i < Recorder::kOperations; ++i) record.recorder.begin(kMessage);
  trial.thread("writer", [&record] { record.recorder.begin(kSecond); });
  trial.thread("reader", [&record, &trial] {
    const std::optional<OperationRecord> newest = run::current_operation(record.memory);
    if (newest) expect_whole(trial, *newest);
  });
}

// What is over has its end.
void a_call_ends(Trial& trial) {
  auto& record = *new Record;
  auto& entry = *new Recorder::Entry(record.recorder.begin(kFirst));
  trial.thread("writer", [&entry] {
    entry.advance(1);
    entry.wait_for(5);
    entry.finish();
  });
  trial.thread("reader", [&record, &trial] {
    const std::optional<OperationRecord> newest = run::current_operation(record.memory);
    trial.expect(newest.has_value(), "there is a call");
    if (newest->state == OperationState::done) trial.expect(newest->end == kExact, "it has no end");
  });
}

// Who sees that there was another call finds it.
void a_call_begins(Trial& trial) {
  auto& record = *new Record;
  record.recorder.begin(kFirst);
  trial.thread("writer", [&record] { record.recorder.begin(kSecond); });
  trial.thread("reader", [&record, &trial] {
    trial.expect(run::newest_operations(record.memory, 1).size() == 1, "the newest call is not there");
    trial.expect(run::current_operation(record.memory).has_value(), "the newest call for all ranks is not there");
  });
}

TEST(RecorderOrders, AllCount) {
  EXPECT_EQ(every_order_counts({"recorder.cc"}, {a_record_is_overwritten, a_call_ends, a_call_begins}), "");
}

// ---- Messages ----

const MessageBook::Message kSend{.is_send = true, .type = DataType::float32, .peer = 1, .tag = 4, .count = 10};
const MessageBook::Message kReceive{.is_send = false, .type = DataType::int64, .peer = 0, .tag = 5, .count = 20};

void expect_whole(Trial& trial, const MessageRecord& record) {
  const bool is_first = record.number == 1;
  const MessageBook::Message& message = is_first ? kSend : kReceive;
  trial.expect(record.is_send == message.is_send && record.type == message.type, "another kind");
  trial.expect(record.peer == message.peer && record.tag == message.tag, "another message");
  trial.expect(record.count == message.count, "another message");
  trial.expect(record.state == (is_first ? OperationState::failed : OperationState::running), "another state");
  trial.expect(record.awaited_since == (is_first ? 1 : 0), "awaited since another time");
}

void a_message_is_overwritten(Trial& trial) {
  auto& book = *new MessageBook(2);
  for (size_t i = 0; i < MessageBook::kPlaces; ++i) {
    const MessageBook::Place place = book.begin(kSend);
    if (i == 0) book.record_wait(place, 1);
    if (i == 0) book.end(place, true, 1, OperationState::failed);
  }
  trial.thread("writer", [&book] { book.begin(kReceive); });
  trial.thread("reader", [&book, &trial] {
    for (const MessageRecord& record : book.read(2).messages) {
      if (record.number == 1 || record.number > MessageBook::kPlaces) expect_whole(trial, record);
    }
  });
}

// Since when somebody waits, and that he still does.
void a_message_is_awaited(Trial& trial) {
  constexpr int64_t kNow = 5 * MessageBook::kLongestGap;
  auto& book = *new MessageBook(2);
  const MessageBook::Place place = book.begin(kReceive);
  trial.thread("writer", [&book, place] { book.record_wait(place, kNow); });
  trial.thread("reader", [&book, &trial] {
    const MessageRecords records = book.read(kNow);
    trial.expect(records.messages.size() == 1, "the message is not there");
    const int64_t since = records.messages.front().awaited_since;
    trial.expect(since == 0 || since == kNow, "awaited since another time");
  });
}

void a_first_message_comes(Trial& trial) {
  auto& book = *new MessageBook(2);
  trial.thread("writer", [&book] { book.begin(kSend); });
  trial.thread("reader", [&book, &trial] {
    for (const MessageRecord& record : book.read(1).messages) trial.expect(record.count == kSend.count, "another");
  });
}

TEST(MessageBookOrders, AllCount) {
  EXPECT_EQ(
      every_order_counts({"message_book.cc"}, {a_message_is_overwritten, a_message_is_awaited, a_first_message_comes}),
      "");
}

}  // namespace
}  // namespace banyan::testing::orders
