// NetOptions: what a NetExecutor (net_executor.h) and its parts take from outside.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "banyan/base/error.h"
#include "banyan/run/call/call.h"
#include "banyan/run/engine/slice_gate.h"
#include "banyan/run/execute/background.h"
#include "banyan/run/execute/plan_source.h"
#include "banyan/run/message/tag_matcher.h"
#include "banyan/run/net/step_budget.h"
#include "banyan/run/transport/channel_transport.h"

namespace banyan::run {

struct NetOptions {
  bool is_oversubscribed = false;
  std::function<void(const Error&)> fail_peers;
  std::function<void(const std::string&)> send;     // a text to all ranks, this one too: to their receive()
  std::function<bool(uint32_t rank)> is_gone = {};  // dead, or has left; empty: nobody is
  // Gate of the owner of several executors, who shares the links among them. Its sequences are the numbers of calls,
  // from 1 in the order of their starts.
  std::shared_ptr<SliceGate> gate = {};
  // Told of each call, by its number as above, when it begins to follow a plan of this source; again when it is
  // repeated by another one.
  std::function<void(uint64_t number, const Call& call, const std::shared_ptr<PlanSource>& source)> begins = {};
  // Budget of one advance() or advance_messages(), for a thread that serves several executors by turns; none: they
  // move what they can.
  std::shared_ptr<const StepBudget> budget = {};
  bool abandons = false;  // what is under way at its end (LaneControl::abandon)
  // Small calls are over here before they are confirmed (revision.h): then poll_at() is to be heeded.
  bool confirms_late = false;
  MemoryKeeper keeper = {};    // of messages that come before their receives, and of results that others may want
  Background background = {};  // for plans; empty: they are made on this executor's thread
  // Makes the transport; `path` gives the path of each lane.
  std::function<std::unique_ptr<ChannelTransport>(std::function<Path(uint32_t peer, uint32_t lane)> path)> transport;
};

}  // namespace banyan::run
