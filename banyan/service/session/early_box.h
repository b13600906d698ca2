// EarlyBox: what comes for sessions that are not open yet: lanes and texts of their peers, whose programs were quicker,
// and word that a communicator never comes about, since one of its ranks was refused.
//
// Each belongs to the user on whose behalf the other daemon sends it. There is room for kMost; a user that has
// kMostOfUser there loses its own oldest one to a new one, and when there is no room at all, the user that has most
// does. So nobody's flood pushes out what others wait for. A lane whose caller has hung up is found by sweep().
//
// Each act but sweep() takes a time that grows with the logarithm of what is kept. One thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/run/join/handshake.h"

namespace banyan::service {

class EarlyBox {
 public:
  using Key = std::pair<std::string, uint32_t>;  // as OpenSessions::Key
  using Time = std::chrono::steady_clock::time_point;
  static constexpr size_t kMost = 4096, kMostOfUser = 1024;
  static constexpr std::chrono::minutes kLongest{10};  // then it is dropped

  struct Lane {
    std::string payload;  // of the greeting
    run::Admitted connection;
  };
  using Text = std::string;
  struct Item {
    Key key;
    std::string user;
    std::variant<Lane, Text, Error> what;  // an Error: why its communicator never comes about
  };

  void keep(Item item, Time now);
  // Why a communicator never comes about. Does nothing where one reason is kept already.
  void keep_refusal(const std::string& communicator, const std::string& user, const Error& why, Time now);
  // Removes and returns the items for this session, in the order in which they came.
  std::vector<Item> take(const Key& key);
  // Why this communicator never comes about, until the box changes. Null: it may come about.
  const Error* refusal_of(const std::string& communicator) const;
  // Drops lanes whose callers have hung up, and what is older than kLongest.
  void sweep(Time now);
  size_t size() const { return by_key_.size(); }

 private:
  struct Kept;
  using Items = std::list<Kept>;
  using ByKey = std::multimap<Key, Items::iterator>;
  struct Kept {
    Item item;
    Time since;
    ByKey::iterator place;
  };
  static constexpr uint32_t kAllRanks = UINT32_MAX;  // in the key of a refusal

  void drop(Items::iterator item);
  void make_room_for(const std::string& user);
  void count(const std::string& user, size_t before, size_t now);

  std::map<std::string, Items> of_user_;            // the oldest of each first
  ByKey by_key_;                                    // the oldest of each first
  std::set<std::pair<size_t, std::string>> sizes_;  // of `of_user_`
};

}  // namespace banyan::service
