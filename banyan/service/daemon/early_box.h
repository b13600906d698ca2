// EarlyBox: what comes for sessions that are not open yet: lanes and texts of their peers, whose programs were quicker,
// and word that one of them was refused.
//
// Each belongs to the user on whose behalf the other daemon sends it. There is room for kMost; a user that has
// kMostOfUser there loses its own oldest one to a new one, and when there is no room at all, the user that has most
// does. So nobody's flood pushes out what others wait for. A lane whose caller has hung up is found by sweep().
//
// One thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
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
    std::variant<Lane, Text, Error> what;  // the error: why the communicator never comes about
  };

  void keep(Item item, Time now);
  // What is for this session, in the order in which it came; it is not kept any longer.
  std::vector<Item> take(const Key& key);
  // Why the communicator of this session never comes about, if that is known. It is kept.
  std::optional<Error> refusal_for(const Key& key) const;
  // Drops lanes whose callers have hung up, and what is older than kLongest.
  void sweep(Time now);
  size_t size() const { return items_.size(); }

 private:
  struct Kept {
    Item item;
    Time since;
  };
  using Items = std::list<Kept>;

  Items::iterator drop(Items::iterator item);
  void drop_oldest_of(const std::string& user);

  Items items_;  // the oldest first
  std::map<std::string, size_t> of_user_;
};

}  // namespace banyan::service
