// ViewBudget: how much of a user's ranks a view of a host lists (host_view.h).
//
// Programs choose how many communicators they open, and what these are called. The view of a host is made on the thread
// of its daemon and goes to daemons of other hosts, and whoever may see the open page has it made. So of each user it
// lists what takes kMostBytes at most as JSON, of sessions and of ranks without the daemon each; of the rest it says
// how many ranks they are. The listed ones change when one of them ends, and at no other time.
//
// Pure; one thread. take() is O(log n).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "banyan/service/view/view_json.h"

namespace banyan::service {

class ViewBudget {
 public:
  static constexpr size_t kMostBytes = size_t{1} << 20;  // of each user

  // True if the view is to list the only rank of `one`. Ranks of a user are to come in the same order each time.
  bool take(const CommunicatorView& one) {
    const RankView& rank = one.ranks.front();
    size_t& used = used_[rank.user];
    const bool is_new = !listed_.contains(one.id);
    const size_t cost = most_json_bytes(rank) + (is_new ? most_json_bytes(one) : 0);
    if (used + cost > kMostBytes) {
      ++unlisted_[std::to_string(rank.user)];
      return false;
    }
    used += cost;
    if (is_new) listed_.insert(one.id);
    return true;
  }
  // Numbers of ranks that are not listed, by user.
  const std::map<std::string, uint64_t>& unlisted() const { return unlisted_; }

 private:
  std::map<uint32_t, size_t> used_;
  std::set<std::string> listed_;  // by id
  std::map<std::string, uint64_t> unlisted_;
};

}  // namespace banyan::service
