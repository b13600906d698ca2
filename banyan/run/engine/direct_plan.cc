#include "banyan/run/engine/direct_plan.h"

#include <algorithm>
#include <string>

#include "banyan/base/check.h"
#include "banyan/base/error.h"

namespace banyan::run {
namespace {

RankPlan empty_plan(RankAndSize own) {
  CHECK(own.rank < own.ranks) << "rank " << own.rank << " of " << own.ranks;
  RankPlan plan{.rank = own.rank, .ranks = own.ranks};
  plan.streams_to.assign(own.ranks, 0);
  plan.streams_from.assign(own.ranks, 0);
  return plan;
}

void expand(uint64_t& elements, const Block& block) {
  if (block.count > 0) elements = std::max(elements, block.at + block.count);
}

void add_send(RankPlan& plan, uint32_t peer, const Block& block) {
  expand(plan.input_elements, block);
  plan.roles.push_back({.length = block.count, .input_at = block.at, .out_children = {plan.add_stream_to(peer)}});
}

void add_receive(RankPlan& plan, uint32_t peer, const Block& block) {
  expand(plan.output_elements, block);
  plan.roles.push_back({.length = block.count, .output_at = block.at, .out_parent = plan.add_stream_from(peer)});
}

void add_copy(RankPlan& plan, const Block& from, const Block& to) {
  if (from.count != to.count) {
    throw Error(ErrorCode::invalid_input, "rank " + std::to_string(plan.rank) + " sends itself " +
                                              std::to_string(from.count) + " elements, but expects " +
                                              std::to_string(to.count) + " of itself");
  }
  expand(plan.input_elements, from);
  expand(plan.output_elements, to);
  if (from.count > 0) plan.roles.push_back({.length = from.count, .input_at = from.at, .output_at = to.at});
}

// This rank's place in a tree that reduces nothing, and spreads it.
Role waiting_role(RankPlan& plan, std::span<const uint32_t> children, const uint32_t* parent) {
  Role role;
  for (const uint32_t child : children) {
    // Nothing goes up from all children and down to all again: nobody is through before all have come.
    role.in_children.push_back(plan.add_stream_from(child));
    role.in_children.back().is_windowed = true;
    role.out_children.push_back(plan.add_stream_to(child));
  }
  if (parent != nullptr) {
    role.in_parent = plan.add_stream_to(*parent);
    role.in_parent->is_windowed = true;
    role.out_parent = plan.add_stream_from(*parent);
  }
  return role;
}

}  // namespace

std::vector<Block> equal_blocks(uint32_t ranks, uint64_t count) {
  std::vector<Block> blocks;
  for (uint32_t rank = 0; rank < ranks; ++rank) blocks.push_back({.at = rank * count, .count = count});
  return blocks;
}

RankPlan make_all_to_all_plan(RankAndSize own, std::span<const Block> send, std::span<const Block> receive) {
  CHECK(send.size() == own.ranks && receive.size() == own.ranks) << send.size() << " and " << receive.size();
  RankPlan plan = empty_plan(own);
  plan.shuffles = true;
  add_copy(plan, send[own.rank], receive[own.rank]);
  for (uint32_t distance = 1; distance < own.ranks; ++distance) {  // each rank begins with another peer
    const uint32_t to = (own.rank + distance) % own.ranks, from = (own.rank + own.ranks - distance) % own.ranks;
    add_send(plan, to, send[to]);
    add_receive(plan, from, receive[from]);
  }
  return plan;
}

RankPlan make_gather_plan(RankAndSize own, uint32_t root, uint64_t own_count, std::span<const Block> receive) {
  CHECK(root < own.ranks && (own.rank != root || receive.size() == own.ranks)) << "root " << root;
  RankPlan plan = empty_plan(own);
  // Others have one piece to send; the root receives one of each, and copies its own.
  if (own.rank != root) {
    add_send(plan, root, {.at = 0, .count = own_count});
    return plan;
  }
  add_copy(plan, {.at = 0, .count = own_count}, receive[root]);
  for (uint32_t rank = 0; rank < own.ranks; ++rank) {
    if (rank != root) add_receive(plan, rank, receive[rank]);
  }
  return plan;
}

RankPlan make_scatter_plan(RankAndSize own, uint32_t root, std::span<const Block> send, uint64_t own_count) {
  CHECK(root < own.ranks && (own.rank != root || send.size() == own.ranks)) << "root " << root;
  RankPlan plan = empty_plan(own);
  // Others have one piece to receive; the root sends one to each, and copies its own.
  if (own.rank != root) {
    add_receive(plan, root, {.at = 0, .count = own_count});
    return plan;
  }
  add_copy(plan, send[root], {.at = 0, .count = own_count});
  for (uint32_t rank = 0; rank < own.ranks; ++rank) {
    if (rank != root) add_send(plan, rank, send[rank]);
  }
  return plan;
}

RankPlan make_transfer_plan(RankAndSize own, std::span<const Transfer> transfers) {
  RankPlan plan = empty_plan(own);
  std::vector<Block> sent_to_self, received_from_self;
  for (const Transfer& transfer : transfers) {
    CHECK(transfer.peer < own.ranks) << "peer " << transfer.peer;
    // The k-th piece to a peer meets the k-th one from here: roles keep the order of the calls.
    if (transfer.peer == own.rank) {
      (transfer.is_send ? sent_to_self : received_from_self).push_back(transfer.block);
    } else if (transfer.is_send) {
      add_send(plan, transfer.peer, transfer.block);
    } else {
      add_receive(plan, transfer.peer, transfer.block);
    }
  }
  if (sent_to_self.size() != received_from_self.size()) {
    throw Error(ErrorCode::invalid_usage, "rank " + std::to_string(own.rank) + " sends itself " +
                                              std::to_string(sent_to_self.size()) + " messages and receives " +
                                              std::to_string(received_from_self.size()) +
                                              " of them; call both in one group");
  }
  for (size_t i = 0; i < sent_to_self.size(); ++i) add_copy(plan, sent_to_self[i], received_from_self[i]);
  return plan;
}

// Who is at place p hangs below p without its lowest bit: a tree of height log2(n).
RankPlan make_barrier_plan(RankAndSize own) {
  RankPlan plan = empty_plan(own);
  if (own.ranks == 1) return plan;
  std::vector<uint32_t> children;
  const uint32_t lowest_bit = own.rank == 0 ? own.ranks : own.rank & (~own.rank + 1);
  for (uint32_t bit = 1; bit < lowest_bit && own.rank + bit < own.ranks; bit *= 2) children.push_back(own.rank + bit);
  const uint32_t parent = own.rank - std::min(lowest_bit, own.rank);
  plan.roles.push_back(waiting_role(plan, children, own.rank == 0 ? nullptr : &parent));
  return plan;
}

// Two tell each other. More have a tree with many children: what waits behind data in the queues of a network waits as
// few times as can be.
void add_confirmation(RankPlan& plan, std::span<const uint32_t> members) {
  constexpr size_t kChildren = 32;
  const auto own = static_cast<size_t>(std::find(members.begin(), members.end(), plan.rank) - members.begin());
  CHECK(own < members.size()) << "rank " << plan.rank << " is no member";
  if (members.size() == 1) return;
  if (members.size() == 2) {
    const uint32_t peer = members[1 - own];
    plan.roles.push_back({.out_parent = plan.add_stream_from(peer), .is_confirmation = true});
    plan.roles.push_back({.out_children = {plan.add_stream_to(peer)}, .is_confirmation = true});
    return;
  }
  // Member i hangs below member (i - 1) / 32, all in the order of the list.
  const size_t first = std::min(own * kChildren + 1, members.size());
  const uint32_t* const parent = own == 0 ? nullptr : &members[(own - 1) / kChildren];
  Role role = waiting_role(plan, members.subspan(first, std::min(kChildren, members.size() - first)), parent);
  role.is_confirmation = true;
  plan.roles.push_back(std::move(role));
}

}  // namespace banyan::run
