// Plans that need no schedule: every rank makes its own from what it was called with.
//
// Pieces go straight from each rank to each, along lane 0. Both ends of a pair make their streams in the same order,
// so the numbers agree. A piece of no elements still costs a message: so the ends notice when they do not agree about
// its size (engine.h), where otherwise one would wait for ever.
//
// Blocks are by rank, and say where a piece stands in this rank's input or output. Ranks, roots and peers must be below
// `ranks`, and there must be one block for each, as CHECK demands. Error{invalid_input} or Error{invalid_usage} says
// that a rank and itself do not agree about a piece.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "banyan/run/engine/rank_plan.h"

namespace banyan::run {

// The rank that makes the plan, and the number of ranks.
struct RankAndSize {
  uint32_t rank = 0, ranks = 1;
};

// One block of `count` elements after the other.
std::vector<Block> equal_blocks(uint32_t ranks, uint64_t count);

// Rank r's send[p] becomes p's receive[r]. May be done in place (send and receive blocks are the same then).
RankPlan make_all_to_all_plan(RankAndSize own, std::span<const Block> send, std::span<const Block> receive);

// The root receives everybody's input, and is one of them; `receive` is of the root only.
RankPlan make_gather_plan(RankAndSize own, uint32_t root, uint64_t own_count, std::span<const Block> receive);

// The root sends everybody a piece, itself too; `send` is of the root only.
RankPlan make_scatter_plan(RankAndSize own, uint32_t root, std::span<const Block> send, uint64_t own_count);

// A piece that a rank sends to another or receives from it; there may be any number. The k-th that rank a sends to b is
// the k-th that b receives from a. Pieces that a rank sends to itself are paired alike.
struct Transfer {
  bool is_send = false;
  uint32_t peer = 0;
  Block block;  // in the input when it is sent, in the output when it is received
};
RankPlan make_transfer_plan(RankAndSize own, std::span<const Transfer> transfers);

// Done at no rank before all have begun: a reduction of nothing along a binomial tree, spread again.
RankPlan make_barrier_plan(RankAndSize own);

// Lets the plan be done at no rank of `members` (who are all that it connects, in an order they share) before all hold
// their results. After a failure, a plan that is done anywhere is then complete everywhere, and one that is done
// nowhere can be repeated, because no caller has got its buffers back: see Engine::suspend. Costs a barrier; between
// two ranks, one message each way.
//
// A caller that cannot wait for that may take a plan for over when this rank has its own result and others need nothing
// but its confirmation (Engine::is_over). A plan that is over here need not be over elsewhere then: until the plan is
// done, this rank must be able to give others what they lack, without the buffers, which are its caller's again.
// NetExecutor does so with small calls, by copies of their results (execute/revision.h). A confirmation between two
// ranks may then wait for the next message on its channel, and costs none of its own.
void add_confirmation(RankPlan& plan, std::span<const uint32_t> members);

}  // namespace banyan::run
