#include "banyan/run/record/message_stall.h"

#include <algorithm>
#include <vector>

#include "banyan/base/text.h"

namespace banyan::run {
namespace {

std::string name_of(uint32_t rank) { return "rank " + std::to_string(rank); }

std::string size_of(const MessageRecord& message) { return with_thousands(message.bytes()) + " bytes"; }

std::string tag_of(const MessageRecord& message) { return " (tag " + std::to_string(message.tag) + ")"; }

// What there has been between the rank of `state` and another.
MessagePair pair_with(const RankState& state, uint32_t rank) {
  if (state.messages == nullptr) return {.rank = rank};
  const auto& pairs = state.messages->pairs;
  const auto found = std::ranges::find_if(pairs, [&](const MessagePair& each) { return each.rank == rank; });
  return found == pairs.end() ? MessagePair{.rank = rank} : *found;
}

// The first open message of the rank that passes the test; null: none.
template <typename Test>
const MessageRecord* find_open(const RankState& state, Test test) {
  if (state.messages == nullptr) return nullptr;
  const auto& messages = state.messages->messages;
  const auto found =
      std::ranges::find_if(messages, [&](const MessageRecord& each) { return each.is_open() && test(each); });
  return found == messages.end() ? nullptr : &*found;
}

// A rank and the message that it waits for.
struct Wait {
  const RankState* state = nullptr;
  const MessageRecord* message = nullptr;

  uint32_t rank() const { return state->rank; }
  uint32_t peer() const { return message->peer; }
  // Its number among those of its sender to this rank: the next.
  uint64_t number() const { return pair_with(*state, message->peer).received + 1; }
};

class Search {
 public:
  explicit Search(const StatesByRank& states) : states_(states) {
    for (const auto& [rank, state] : states_) {
      if (const MessageRecord* const message = state->awaited()) waits_.push_back({.state = state, .message = message});
    }
  }

  std::optional<Stall> run() const {
    if (waits_.empty()) return std::nullopt;
    for (const Wait& wait : waits_) {
      if (wait.peer() == wait.rank()) return itself(wait);
    }
    // The rank that has come least far first: what others wait for may follow from that.
    std::optional<Wait> first;
    for (const Wait& wait : waits_) {
      if (!keeps_waiting(wait)) continue;
      if (!first || wait.state->sequence < first->state->sequence) first = wait;
    }
    if (first) return peer_is_elsewhere(*first);
    if (auto found = circle()) return found;
    return from_any();
  }

 private:
  const RankState* state_of(uint32_t rank) const {
    const auto found = states_.find(rank);
    return found == states_.end() ? nullptr : found->second;
  }
  const Wait* wait_of(uint32_t rank) const {
    const auto found = std::ranges::find_if(waits_, [&](const Wait& wait) { return wait.rank() == rank; });
    return found == waits_.end() ? nullptr : &*found;
  }

  // The other half, under way at the peer.
  const MessageRecord* counterpart(const Wait& wait) const {
    return find_open(*state_of(wait.peer()), [&](const MessageRecord& each) {
      const bool is_for_it = each.peer == wait.rank() || (each.peer == kNoRank && !each.is_send);
      return is_for_it && each.is_send != wait.message->is_send && each.tag == wait.message->tag;
    });
  }

  // Whether the peer does nothing of its half, and does not wait for a message itself.
  bool keeps_waiting(const Wait& wait) const {
    const RankState* const peer = state_of(wait.peer());
    if (peer == nullptr || peer->health == Health::unknown || wait_of(wait.peer()) != nullptr) return false;
    if (counterpart(wait) != nullptr) return false;
    // It may be in a call that this rank has been in, too: then that call keeps it.
    if (peer->is_inside() && peer->sequence <= wait.state->sequence) return false;
    return true;
  }

  std::vector<uint32_t> others(const std::vector<uint32_t>& ranks) const {
    std::vector<uint32_t> waiting;
    for (const auto& [rank, state] : states_) {
      const bool waits = state->is_inside() || state->awaited() != nullptr;
      if (waits && !std::ranges::binary_search(ranks, rank)) waiting.push_back(rank);
    }
    return waiting;
  }
  Stall stall(std::vector<uint32_t> ranks, uint64_t sequence, std::string sentence) const {
    std::ranges::sort(ranks);
    return {.kind = FindingKind::message,
            .ranks = ranks,
            .waiting = others(ranks),
            .sequence = sequence,
            .sentence = std::move(sentence)};
  }

  Stall itself(const Wait& wait) const {
    const bool sends = wait.message->is_send;
    return stall({wait.rank()}, 0,
                 name_of(wait.rank()) + " " + words_of_wait(*wait.state) + ", which is itself: a blocking " +
                     (sends ? "send to oneself waits for a receive" : "receive from oneself waits for a send") +
                     " that only another thread can make");
  }

  // "has sent 19", "has no receive open for it".
  std::string part_of(const Wait& wait, const RankState& peer) const {
    const MessageRecord* const other_tag = find_open(peer, [&](const MessageRecord& each) {
      return each.peer == wait.rank() && each.is_send != wait.message->is_send;
    });
    if (wait.message->is_send) {
      if (other_tag != nullptr) return "receives from it with tag " + std::to_string(other_tag->tag);
      return "has no receive open for it";
    }
    const MessagePair pair = pair_with(peer, wait.rank());
    if (other_tag != nullptr) return "sends to it with tag " + std::to_string(other_tag->tag);
    if (pair.sent == 0) return "has sent none";
    std::string text = "has sent " + std::to_string(pair.sent);
    if (pair.sent >= wait.number()) text += ", the last with tag " + std::to_string(pair.last_tag);
    return text;
  }

  // "is in barrier #1", "has called nothing since barrier #1".
  static std::string place_of(const RankState& state) {
    const std::string call =
        state.operation != nullptr ? name(*state.operation) : "call #" + std::to_string(state.sequence);
    if (state.is_inside()) return "is in " + call;
    return state.sequence > 0 ? "is in no call; its last was " + call : "is in no call";
  }

  Stall peer_is_elsewhere(const Wait& wait) const {
    const RankState& peer = *state_of(wait.peer());
    return stall({peer.rank}, peer.is_inside() ? peer.sequence : 0,
                 name_of(wait.rank()) + " " + words_of_wait(*wait.state) + ", which " + part_of(wait, peer) + " and " +
                     place_of(peer));
  }

  // The messages that ranks wait for, one rank after the other, until one comes twice; empty where it is no circle.
  std::vector<Wait> find_circle() const {
    for (const Wait& start : waits_) {
      std::vector<Wait> path;
      for (const Wait* here = &start; here != nullptr && path.size() <= waits_.size(); here = wait_of(here->peer())) {
        const auto seen = std::ranges::find_if(path, [&](const Wait& each) { return each.rank() == here->rank(); });
        if (seen != path.end()) return {seen, path.end()};
        if (counterpart_is_open(*here)) break;
        path.push_back(*here);
      }
    }
    return {};
  }
  bool counterpart_is_open(const Wait& wait) const {
    return state_of(wait.peer()) != nullptr && counterpart(wait) != nullptr;
  }

  std::optional<Stall> circle() const {
    std::vector<Wait> members = find_circle();
    if (members.empty()) return std::nullopt;
    std::rotate(members.begin(),
                std::ranges::min_element(members, [](const Wait& a, const Wait& b) { return a.rank() < b.rank(); }),
                members.end());
    const auto sends =
        static_cast<size_t>(std::ranges::count_if(members, [](const Wait& each) { return each.message->is_send; }));
    std::string sentence = name_of(members.front().rank());
    std::vector<uint32_t> ranks;
    for (size_t i = 0; i < members.size(); ++i) {
      constexpr size_t kShown = 8;
      ranks.push_back(members[i].rank());
      if (i < kShown) sentence += (i == 0 ? " " : ", which ") + words_of_wait(*members[i].state);
      if (i == kShown) sentence += ", and so on in a circle of " + std::to_string(members.size());
    }
    const std::string all = members.size() == 2 ? ": both " : ": all ";
    if (sends == members.size()) sentence += " and has no receive open" + all + "send first";
    if (sends == 0) sentence += all + "receive first";
    if (sends > 0 && sends < members.size()) sentence += ": each waits for the next";
    return stall(std::move(ranks), 0, std::move(sentence));
  }

  // A receive from any rank, where no other wait explains anything.
  std::optional<Stall> from_any() const {
    for (const Wait& wait : waits_) {
      if (wait.peer() != kNoRank) continue;
      const bool comes = std::ranges::any_of(states_, [&](const auto& entry) {
        return find_open(*entry.second, [&](const MessageRecord& each) {
                 return each.is_send && each.peer == wait.rank() && each.tag == wait.message->tag;
               }) != nullptr;
      });
      if (!comes)
        return stall({wait.rank()}, 0,
                     name_of(wait.rank()) + " " + words_of_wait(*wait.state) + ", and none sends it one");
    }
    return on_its_way();
  }

  // Both halves are under way, and yet nothing moves.
  std::optional<Stall> on_its_way() const {
    for (const Wait& wait : waits_) {
      if (wait.peer() == kNoRank || !counterpart_is_open(wait)) continue;
      return stall({std::min(wait.rank(), wait.peer()), std::max(wait.rank(), wait.peer())}, 0,
                   name_of(wait.rank()) + " " + words_of_wait(*wait.state) + ", which " +
                       (wait.message->is_send ? "has a receive open for it" : "sends it") +
                       ": what is between them is late or lost");
    }
    return std::nullopt;
  }

  const StatesByRank& states_;
  std::vector<Wait> waits_;
};

}  // namespace

const MessageRecord* RankState::awaited() const {
  return find_open(*this, [](const MessageRecord& each) { return each.awaited_since != 0; });
}

int64_t RankState::awaited_for() const {
  const MessageRecord* const message = awaited();
  return message == nullptr ? 0 : std::max<int64_t>(1, now - message->awaited_since);
}

std::optional<Stall> diagnose_messages(const StatesByRank& states) { return Search(states).run(); }

std::string words_of_wait(const RankState& state) {
  const MessageRecord* const message = state.awaited();
  if (message == nullptr) return "";
  if (message->is_send)
    return "waits to send " + size_of(*message) + tag_of(*message) + " to " + name_of(message->peer);
  if (message->peer == kNoRank) return "waits for a message of any rank" + tag_of(*message);
  const Wait wait{.state = &state, .message = message};
  return "waits for message " + std::to_string(wait.number()) + " of " + name_of(message->peer) + tag_of(*message);
}

std::string words_of_open_messages(const RankState& state) {
  constexpr size_t kShown = 3;
  std::string text;
  size_t open = 0;
  const MessageRecord* const awaited = state.awaited();
  find_open(state, [&](const MessageRecord& each) {
    if (&each != awaited && ++open <= kShown) text += (open == 1 ? "" : ", ") + describe(each);
    return false;
  });
  if (open > kShown) text += " and " + std::to_string(open - kShown) + " more";
  return open == 0 ? "" : (awaited != nullptr ? "also open: " : "open: ") + text;
}

}  // namespace banyan::run
