// CommOperators: what the operators of one rank say of communications. Several lie within each other for one call
// (c10d::allreduce_, record_param_comms, nccl:all_reduce), each knows a part, and the host trace's node of one knows
// another. A call is returned once: the first to ask for it takes it, with all operators around it.
//
// Complexity: constant time a question besides what it gives, since operators are looked at at most 64 levels outwards;
// O(operators log operators) to begin with.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "banyan/job/kineto/comm.h"
#include "banyan/job/kineto/reading.h"

namespace banyan::job::kineto {

constexpr std::string_view kParamComms = "record_param_comms";

// The known facts of one call.
struct CommFacts {
  uint32_t event = kNoIndex;  // the operator that tells of it; kNoIndex: only the host trace has it
  uint32_t node = kNoIndex;   // of the host trace; kNoIndex: none
  bool by_host = false;       // the operator's own args say nothing
  CommCall call;
};

class CommOperators {
 public:
  // The reading is borrowed.
  explicit CommOperators(const RankReading& reading);

  // The facts from the operators at and around `operator_event`, or from the host's nodes around it if Kineto dropped
  // some.
  std::optional<CommFacts> around(uint32_t operator_event);
  // The calls of a thread that nothing took and that began before one of its events: what it gathered (ncclGroupEnd).
  // Asked for with ascending events of a thread.
  std::vector<CommFacts> gathered_before(uint32_t event);
  // All that nothing took, as they began.
  std::vector<CommFacts> rest();

 private:
  struct Operator {
    uint32_t event;
    bool taken = false;
  };
  // The calls that a thread may gather: its record_param_comms.
  struct Pending {
    std::vector<uint32_t> places;  // ascending, into operators_
    size_t next = 0;
  };

  std::optional<CommCall> call_of(uint32_t operator_event) const;
  bool is_param_comms(uint32_t event) const { return reading_.name(event) == kParamComms; }
  void take(uint32_t operator_event);
  // Takes the candidate, if it says what it communicates and is not taken yet.
  void take_call(Operator& candidate, std::vector<CommFacts>& calls);
  CommFacts facts_of(uint32_t operator_event, CommCall call) const;

  const RankReading& reading_;
  std::vector<Operator> operators_;                // as they began
  std::unordered_map<uint32_t, uint32_t> place_;   // by event
  std::unordered_map<uint32_t, Pending> pending_;  // by track
};

}  // namespace banyan::job::kineto
