// Dumps made by hand, for tests. All processes are of one host unless said otherwise; times are in seconds.
#pragma once

#include <cstdint>
#include <string>

#include "banyan/run/record/dump.h"

namespace banyan::run {

constexpr int64_t seconds(double value) { return static_cast<int64_t>(value * 1e9); }

class SampleDump {
 public:
  // Process 1000 + process of host node0; written at 100 s because of a timeout.
  SampleDump(std::string communicator, uint32_t rank, uint32_t size, int64_t process = -1) {
    dump_.communicator = std::move(communicator);
    dump_.rank = rank;
    dump_.size = size;
    dump_.host = "node0";
    dump_.program = "train";
    dump_.pid = 1000 + (process < 0 ? rank : process);
    dump_.thread = dump_.pid;
    dump_.time = seconds(100);
    dump_.wall_offset = seconds(1e9);
    dump_.reason = DumpReason::timeout;
  }

  struct Op {
    OperationKind kind = OperationKind::all_reduce;
    uint64_t count = 1024;
    element::DataType type = element::DataType::float32;
    element::ReduceOp op = element::ReduceOp::sum;
    uint32_t other = kNoRank;
  };
  // The next collective; done at `end` if one is given, else under way.
  SampleDump& add(const Op& op, double begin, double end = 0) {
    OperationRecord record;
    record.ticket = record.sequence = ++dump_.begun;
    record.kind = op.kind;
    record.type = op.type;
    record.op = op.op;
    record.other = op.other;
    record.count = op.count;
    record.begin = seconds(begin);
    record.end = seconds(end);
    record.state = end > 0 ? OperationState::done : OperationState::running;
    dump_.operations.push_back(record);
    return *this;
  }
  // `count` allreduces, one per second, the last done at `until`.
  SampleDump& add_done(uint64_t count, double until) {
    for (uint64_t i = 0; i < count; ++i) {
      const double end = until - static_cast<double>(count - 1 - i);
      add({}, end - 0.5, end);
    }
    return *this;
  }
  SampleDump& waits_for(uint32_t rank, uint32_t step = 0) {
    dump_.waits_for = dump_.operations.back().waits_for = rank;
    dump_.operations.back().step = step;
    return *this;
  }
  SampleDump& fail(double end) {
    dump_.operations.back().state = OperationState::failed;
    dump_.operations.back().end = seconds(end);
    return *this;
  }
  SampleDump& sees(uint32_t rank, Health health, uint64_t sequence = 0) {
    dump_.peers.push_back({.rank = rank, .health = health, .sequence = sequence});
    return *this;
  }
  SampleDump& says(DumpReason reason, std::string message = "") {
    dump_.reason = reason;
    dump_.message = std::move(message);
    return *this;
  }
  SampleDump& at(double time) {
    dump_.time = seconds(time);
    return *this;
  }
  SampleDump& on(std::string host, double clock_offset = 1e9) {
    dump_.host = std::move(host);
    dump_.wall_offset = seconds(clock_offset);
    return *this;
  }
  SampleDump& with_id(std::string id) {
    dump_.id = std::move(id);
    return *this;
  }

  const RankDump& get() const { return dump_; }
  operator RankDump() const { return dump_; }

 private:
  RankDump dump_;
};

}  // namespace banyan::run
