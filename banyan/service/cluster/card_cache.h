// CardCache: the cards of the daemons of all hosts, as their directory gave them last, for the reactor's thread.
//
// A directory may be a server that takes seconds, and whoever asks it waits. So a thread of the cache's own asks, one
// question at a time, and all who have come meanwhile share the next one: nobody's wish costs others more than that.
// While the directory does not answer, hosts are taken to be where they were last: daemons that know each other need it
// for nothing else, and must go on opening communicators and answering operators. Its answers count again from the
// first one on.
//
// On the reactor's thread.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "banyan/run/system/reactor.h"
#include "banyan/service/cluster/host_directory.h"

namespace banyan::service {

class CardCache {
 public:
  // The greatest age of a look for callers that need no newer one; the longest wait for a look, after which what is
  // known has to do; the pause until a publication that failed is tried again.
  static constexpr std::chrono::milliseconds kOld{2000}, kPatience{1000}, kAgain{2000};
  // Up to so many hosts are asked for one by one. For more, all cards are.
  static constexpr size_t kFew = 16;

  struct Hooks {
    std::function<void(const HostCard& card)> found;       // each that is read; one may be older than what is known
    std::function<void(const std::string& words)> record;  // it ceases to answer, or answers again
  };
  // `name`: of the directory, for people: "etcd".
  CardCache(run::Reactor& reactor, std::unique_ptr<HostDirectory> directory, std::string name, Hooks hooks);
  // Waits for a question that is under way, and for the directory's own end.
  ~CardCache();
  CardCache(const CardCache&) = delete;
  CardCache& operator=(const CardCache&) = delete;

  // The card of a host, as far as it is known; null: none is. It lasts until the next look.
  const HostCard* find(const std::string& host) const;
  // Cards by host, as daemons call it. Some of the hosts may be gone again.
  const std::map<std::string, HostCard>& cards() const { return cards_; }
  // Hosts whose cards cannot be read, by what stands in the directory, and why.
  const std::map<std::string, std::string>& unread() const { return unread_; }
  // "etcd does not answer: ...": to the last question; empty: it has answered it.
  const std::string& trouble() const { return trouble_; }

  using Then = std::function<void()>;
  // Calls `then` once the cards of these hosts (all, where none are named) are as the directory had them after this
  // call; where it does not answer, after kPatience at most. Never before this returns.
  void look(const std::vector<std::string>& hosts, Then then);
  // The same for all hosts, but content with what is younger than kOld; at once, then.
  void look_if_old(const Then& then);

  // This host's card, which is known from now on. Tried again and again until the directory has it.
  void publish(const HostCard& card);
  // The card that was published belongs to another daemon now, which keeps it.
  void leave();
  // Before the reactor runs, when nobody waits: publishes it, and reads all cards, on this thread. A directory that
  // does not answer is a trouble, as later. Throws Error{invalid_input}.
  void begin(const HostCard& card);

 private:
  struct Answer;
  struct Thread;

  void ask();
  void receive(const Answer& answer);
  void take(const Answer& answer);
  void put();
  void call_back(std::vector<Then> waiting);
  void be_overdue();
  void record_unread(const std::map<std::string, std::string>& unread);
  void be_in_trouble(const std::string& why);

  run::Reactor& reactor_;
  const std::string name_;
  const Hooks hooks_;
  std::map<std::string, HostCard> cards_;      // by host
  std::map<std::string, std::string> unread_;  // by host
  std::string trouble_;
  // The question under way, or the next one.
  struct Question {
    run::Reactor::TimePoint begun;
    std::set<std::string> hosts;
    bool is_for_all = false;
    std::vector<Then> waiting;
  };
  std::optional<Question> asked_, next_;
  std::optional<run::Reactor::Timer> overdue_, again_;
  std::optional<run::Reactor::TimePoint> looked_at_;  // all of them
  std::optional<HostCard> own_;                       // none after leave()
  bool is_put_ = true;                                // own_
  const std::unique_ptr<Thread> thread_;
};

// The directory at this url, in words for people: "etcd", "the folder /shared/banyan".
std::string name_of_directory(const std::string& url);

}  // namespace banyan::service
