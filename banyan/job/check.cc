#include "banyan/job/check.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/job/dry_run.h"

namespace banyan::job {
namespace {

constexpr size_t kShownRanks = 6;  // of a list

// Says what was found in words; what was found is kept as places until then, since there may be very many.
class Words {
 public:
  explicit Words(const Job& job) : job_(job) {}

  // "'grads' (node 3)"
  std::string node(RankNode place) const {
    const std::string& name = job_.name_of(at(place));
    const std::string number = "node " + std::to_string(place.node);
    return name.empty() ? number : "'" + name.substr(0, 80) + "' (" + number + ")";
  }
  // "allreduce of 8 B", "broadcast of 8 B from rank 3"
  std::string call(RankNode place) const {
    const Node& collective = at(place);
    std::string text(to_string(collective.collective));
    if (collective.collective == CollectiveKind::barrier) return text;
    text += " of " + bytes(collective.bytes);
    if (is_rooted(collective.collective)) {
      text += ", root rank " + std::to_string(job_.groups()[group(place)].ranks[collective.tag]);
    }
    return text;
  }
  // "send of 8 B to rank 1, tag 3"
  std::string message(RankNode place) const {
    const Node& one = at(place);
    const bool is_send = one.kind == NodeKind::send;
    const std::string peer =
        one.slot == Node::kAnyPeer ? "anybody" : "rank " + std::to_string(job_.peer(place.rank, one.slot));
    return std::string(is_send ? "send" : "receive") + " of " + bytes(one.bytes) + (is_send ? " to " : " from ") +
           peer + (one.tag == Node::kAnyTag ? ", any tag" : ", tag " + std::to_string(one.tag));
  }
  std::string what(RankNode place) const {
    return at(place).kind == NodeKind::collective ? call(place) + " on group '" + group_name(group(place)) + "'"
                                                  : message(place);
  }
  std::string group_name(uint32_t number) const { return job_.groups()[number].name.substr(0, 80); }
  uint32_t group(RankNode place) const { return job_.group(place.rank, at(place).slot); }
  static std::string rank(RankNode place) { return "rank " + std::to_string(place.rank); }
  static std::string bytes(uint64_t count) { return std::to_string(count) + " B"; }

 private:
  const Node& at(RankNode place) const { return job_.program(place.rank).nodes[place.node]; }

  const Job& job_;
};

// What ranks would still do if they could go on, of one kind.
struct Rest {
  uint64_t count = 0, awaited = 0;
  RankNode first;  // the lowest of the lowest rank

  void add(RankNode place) {
    if (count++ == 0) first = place;
  }
  // One more waits for it: nothing when it will not come.
  std::optional<RankNode> await() { return awaited++ < count ? std::optional(first) : std::nullopt; }
};

// By what is waited for, the nodes that have not started and would be it.
class Awaited {
 public:
  Awaited(const Job& job, const DryRun& run) : job_(job), run_(run) {}

  void expect_call(uint32_t group, uint32_t rank) { calls_[{group, rank}]; }
  void expect_partner(RankNode message) {
    const MessageKey key = message_key(job_, message);
    if (kind(message) == NodeKind::send) {
      const auto [it, is_new] = receives_.try_emplace(key);
      if (is_new) receives_of_[key.to].push_back(&*it);
    } else if (const auto [it, is_new] = sends_.try_emplace(key); is_new && !key.is_exact()) {
      mixed_sends_to_[key.to].push_back(&*it);
    }
  }
  void look_through_the_rest() {
    for (uint32_t rank = 0; rank < job_.rank_count(); ++rank) {
      for (uint32_t i = 0; i < job_.program(rank).nodes.size(); ++i) {
        if (run_.phase({rank, i}) == DryRun::Phase::waiting) add({rank, i});
      }
    }
  }

  Rest& call(uint32_t group, uint32_t rank) { return calls_[{group, rank}]; }
  Rest& partner(RankNode message) {
    return (kind(message) == NodeKind::send ? receives_ : sends_)[message_key(job_, message)];
  }

 private:
  using Messages = std::unordered_map<MessageKey, Rest, MessageKeyHash>;
  using Mixed = std::unordered_map<uint32_t, std::vector<Messages::value_type*>>;

  NodeKind kind(RankNode place) const { return job_.program(place.rank).nodes[place.node].kind; }

  void add(RankNode place) {
    switch (kind(place)) {
      case NodeKind::collective: {
        const uint32_t slot = job_.program(place.rank).nodes[place.node].slot;
        if (const auto it = calls_.find({job_.group(place.rank, slot), place.rank}); it != calls_.end())
          it->second.add(place);
        return;
      }
      case NodeKind::send: {
        const MessageKey key = message_key(job_, place);
        if (const auto it = sends_.find(key); it != sends_.end()) it->second.add(place);
        add_to(mixed_sends_to_, key.to, place, [&](const MessageKey& receive) { return receive.takes(key); });
        return;
      }
      case NodeKind::receive: {
        const MessageKey key = message_key(job_, place);
        if (!key.is_exact()) {
          add_to(receives_of_, key.to, place, [&](const MessageKey& send) { return key.takes(send); });
        } else if (const auto it = receives_.find(key); it != receives_.end()) {
          it->second.add(place);
        }
        return;
      }
      default:
        return;
    }
  }
  template <typename Fits>
  static void add_to(const Mixed& mixed, uint32_t rank, RankNode place, Fits&& fits) {
    const auto it = mixed.find(rank);
    if (it == mixed.end()) return;
    for (Messages::value_type* one : it->second) {
      if (fits(one->first)) one->second.add(place);
    }
  }

  const Job& job_;
  const DryRun& run_;
  std::map<std::pair<uint32_t, uint32_t>, Rest> calls_;  // by group and rank
  Messages receives_;                                    // by the key of a send that waits
  Messages sends_;                                       // by the key of a receive that waits
  Mixed receives_of_, mixed_sends_to_;  // by receiving rank: all of receives_; of sends_ those not exact
};

class Checker {
 public:
  Checker(const Job& job, const CheckOptions& options)
      : job_(job),
        words_(job),
        options_(options),
        run_(job, options.eager,
             {.on_differing_call = [this](const DryRun::Call& call) { add_mismatch(call); },
              .on_match = [this](RankNode send, RankNode receive) { compare_lengths(send, receive); }}) {}

  std::vector<Finding> check() && {
    run_.run();
    diagnose_what_is_left();
    std::ranges::stable_sort(found_, {}, &Found::place);
    std::vector<Finding> findings;
    for (const Found& found : found_) {
      if (findings.size() == options_.most_findings) break;
      findings.push_back({found.kind, found.place.rank, text_of(found)});
    }
    return findings;
  }

 private:
  using Kind = Finding::Kind;

  struct Found {
    Kind kind;
    RankNode place;                // where it is shown
    std::vector<RankNode> others;  // what else it is about: see text_of
    uint64_t call = 0;             // its number on its group, from 1
    uint64_t count = 0;            // how many differ, or are missing
  };

  const Node& node(RankNode place) const { return job_.program(place.rank).nodes[place.node]; }

  // Against the lowest rank.
  void add_mismatch(const DryRun::Call& call) {
    std::vector<RankNode> members = call.members;
    std::ranges::sort(members);
    Found found{Kind::collective_mismatch, members.front(), {}, call.number + 1, 0};
    for (const RankNode& member : members) {
      if (DryRun::is_same_call(node(members.front()), node(member))) continue;
      if (found.count++ == 0) found.others.push_back(member);
    }
    found_.push_back(std::move(found));
  }

  // Which of several senders a receive from anybody meets is a matter of time, and so is the length.
  void compare_lengths(RankNode send, RankNode receive) {
    if (node(send).bytes == node(receive).bytes || node(receive).slot == Node::kAnyPeer) return;
    found_.push_back({Kind::length_mismatch, std::min(send, receive), {std::max(send, receive)}});
  }

  void diagnose_what_is_left() {
    const std::vector<const DryRun::Call*> calls = run_.open_calls();
    std::vector<RankNode> messages;
    run_.messages().for_each_waiting([&](RankNode place) { messages.push_back(place); });
    if (calls.empty() && messages.empty()) return;
    std::ranges::sort(messages);
    Awaited awaited(job_, run_);
    for (const DryRun::Call* call : calls) {
      for (const uint32_t rank : job_.groups()[call->group].ranks) awaited.expect_call(call->group, rank);
    }
    for (const RankNode& place : messages) awaited.expect_partner(place);
    awaited.look_through_the_rest();
    for (const DryRun::Call* call : calls) diagnose_call(*call, awaited);
    for (const RankNode& place : messages) diagnose_message(place, awaited);
    find_rings(messages, calls);
  }

  void diagnose_call(const DryRun::Call& call, Awaited& awaited) {
    if (call.differs) add_mismatch(call);
    std::vector<uint32_t> joined;
    for (const RankNode& place : call.members) joined.push_back(place.rank);
    std::ranges::sort(joined);
    Found missing{Kind::missing_member, *std::ranges::min_element(call.members), {}, call.number + 1, 0};
    std::optional<RankNode> next;
    for (const uint32_t rank : job_.groups()[call.group].ranks) {
      if (std::ranges::binary_search(joined, rank)) continue;
      const auto later = awaited.call(call.group, rank).await();
      if (later && !next) next = later;
      if (!later && missing.count++ < kShownRanks) missing.others.push_back({rank, 0});
    }
    if (missing.count > 0) {
      found_.push_back(std::move(missing));
    } else {
      CHECK(next) << "a call that all have joined is over";
      for (const RankNode& place : call.members) awaited_[place] = *next;
    }
  }

  void diagnose_message(RankNode place, Awaited& awaited) {
    if (const auto partner = awaited.partner(place).await()) {
      awaited_[place] = *partner;
    } else {
      const bool is_send = node(place).kind == NodeKind::send;
      found_.push_back({is_send ? Kind::unmatched_send : Kind::unmatched_receive, place, {}});
    }
  }

  // Whoever is under way waits for a node that has not started, which waits for another of its rank, and so on to one
  // that is under way. The walk from any of them ends at something that was found already, or goes round.
  void find_rings(const std::vector<RankNode>& messages, const std::vector<const DryRun::Call*>& calls) {
    std::vector<uint32_t> walk_of(run_.place_count(), 0);
    uint32_t walk = 0;
    const auto follow = [&](RankNode from) {
      ++walk;
      std::vector<RankNode> path;
      for (std::optional<RankNode> at = from; at; at = next(*at)) {
        uint32_t& seen = walk_of[run_.index(*at)];
        if (seen == walk) {
          path.erase(path.begin(), std::ranges::find(path, *at));
          add_ring(path);
        }
        if (std::exchange(seen, walk) != 0) return;
        path.push_back(*at);
      }
    };
    for (const RankNode& place : messages) follow(place);
    for (const DryRun::Call* call : calls) {
      for (const RankNode& place : call->members) follow(place);
    }
  }
  std::optional<RankNode> next(RankNode place) const {
    if (run_.phase(place) == DryRun::Phase::waiting) return RankNode{place.rank, run_.blocker(place)};
    const auto it = awaited_.find(place);
    return it == awaited_.end() ? std::nullopt : std::optional(it->second);
  }
  void add_ring(std::vector<RankNode> path) {
    std::erase_if(path, [this](const RankNode& place) { return run_.phase(place) == DryRun::Phase::waiting; });
    std::rotate(path.begin(), std::ranges::min_element(path), path.end());
    found_.push_back({Kind::deadlock, path.front(), path});
  }

  std::string text_of(const Found& found) const {
    const std::string who = Words::rank(found.place);
    switch (found.kind) {
      case Kind::collective_mismatch:
        return call_of(found) + "differs: " + who + " calls " + called(found.place) + ", " +
               Words::rank(found.others[0]) + " calls " + called(found.others[0]) +
               (found.count > 1 ? ", and " + std::to_string(found.count - 1) + " more differ from " + who : "");
      case Kind::missing_member:
        return call_of(found) + "waits for ever: " + who + " calls " + called(found.place) + ", but " + missing(found) +
               " no such call";
      case Kind::unmatched_send:
        return who + " " + words_.node(found.place) + ": " + words_.message(found.place) + " is never received";
      case Kind::unmatched_receive:
        return who + " " + words_.node(found.place) + ": " + words_.message(found.place) + " is never sent";
      case Kind::length_mismatch: {
        const RankNode other = found.others[0];
        return who + " " + words_.node(found.place) + ": " + words_.message(found.place) + ", but " +
               Words::rank(other) + " " + words_.node(other) + ": " + words_.message(other);
      }
      case Kind::deadlock:
        return ring(found.others);
    }
    return "";
  }
  // "call 3 on group 'dp' "
  std::string call_of(const Found& found) const {
    return "call " + std::to_string(found.call) + " on group '" + words_.group_name(words_.group(found.place)) + "' ";
  }
  std::string called(RankNode place) const { return words_.call(place) + ", " + words_.node(place); }
  static std::string missing(const Found& found) {
    std::string text = found.count == 1 ? "rank " : "ranks ";
    for (size_t i = 0; i < found.others.size(); ++i)
      text += (i == 0 ? "" : ", ") + std::to_string(found.others[i].rank);
    if (found.count > found.others.size())
      text += " and " + std::to_string(found.count - found.others.size()) + " more";
    return text + (found.count == 1 ? " has" : " have");
  }
  std::string ring(const std::vector<RankNode>& places) const {
    std::string text = "deadlock: ";
    for (size_t i = 0; i < places.size(); ++i) {
      if (i == kShownRanks && places.size() > kShownRanks + 1) {
        return text + "; and so on over " + std::to_string(places.size() - i) + " more back to " +
               Words::rank(places[0]);
      }
      const RankNode wanted = awaited_.at(places[i]);
      text += (i == 0 ? "" : "; ") + Words::rank(places[i]) + " waits in " + words_.node(places[i]) + ", " +
              words_.what(places[i]) + ", until " + Words::rank(wanted) + " comes to " + words_.node(wanted);
    }
    return text;
  }

  const Job& job_;
  Words words_;
  const CheckOptions& options_;
  DryRun run_;
  std::vector<Found> found_;
  std::map<RankNode, RankNode> awaited_;  // by node that is under way: who would end it, and has not started
};

}  // namespace

std::vector<Finding> check_job(const Job& job, const CheckOptions& options) { return Checker(job, options).check(); }

}  // namespace banyan::job
