// HintService: answers tenants who ask what others leave of the links between their hosts (view/hints.h).
//
// All hosts are asked for their views, at most every kFresh, however many ask. The answer is made in the background of
// who asks, since it grows with the square of the hosts. All programs of a user that ask within kFresh, or while that
// user's answer is made, share one.
//
// On the reactor's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/compose/planner.h"
#include "banyan/run/execute/background.h"
#include "banyan/run/system/reactor.h"
#include "banyan/service/cluster/lifetime.h"
#include "banyan/service/operate/operator_api.h"

namespace banyan::service {

class HintService {
 public:
  static constexpr std::chrono::milliseconds kFresh{500};
  static constexpr size_t kMostHosts = 128, kMostWaiting = 1000;
  static constexpr size_t kMostUnanswered = 16;  // questions of an account, however many programs ask each
  static constexpr size_t kMostBytes = 200'000;  // of an answer

  struct Parts {
    run::Reactor& reactor;
    std::function<void(const OperatorApi::Seen& seen)> look;  // at all hosts
    std::shared_ptr<const compose::PlannerFiles> files;       // shared with plan sources
    std::vector<double> capacities;                           // by link, of payload; empty: no fabric is known
  };
  explicit HintService(Parts parts) : parts_(std::move(parts)) {}

  struct Asker {
    std::set<std::string> hosts;    // of its communicators, by name
    std::set<std::string> tenants;  // that it is
    run::Background background;
  };
  struct Answer {
    std::string hints;
    std::optional<Error> refusal;
  };
  struct Whose {
    uint32_t account = 0, user = 0;
    uint64_t opened = 0;  // sessions of the daemon so far: who has just opened one gets no older answer
    friend auto operator<=>(const Whose&, const Whose&) = default;
  };
  // Once, at once or later. Refused with Error{unsupported} where no fabric is known, the asker has more than
  // kMostHosts, or more than kMostWaiting or kMostUnanswered wait. `asker` is called where an answer is to be made: it
  // is work.
  using Reply = std::function<void(Answer)>;
  void ask(const Whose& whose, const std::function<Asker()>& asker, Reply reply);

 private:
  using Views = std::shared_ptr<const std::vector<HostView>>;  // shared with tasks in the background

  struct Question {
    run::Reactor::TimePoint asked;
    std::vector<Reply> replies;  // that are to come
    std::optional<Answer> answer;
  };
  struct Waiting {
    Asker asker;
    Reply reply;
  };
  size_t unanswered_of(uint32_t account) const;
  void make_answer(Asker asker, Reply reply);
  void answer(const Waiting& waiting, const Views& views);
  static Answer answer_of(const compose::PlannerFiles& files, const std::vector<double>& capacities, const Asker& asker,
                          const std::vector<HostView>& views);

  const Parts parts_;
  std::map<Whose, Question> questions_;
  std::vector<Waiting> waiting_;  // for the views of all hosts
  Views views_;                   // the last ones
  run::Reactor::TimePoint seen_{};
  const Lifetime lifetime_;
};

}  // namespace banyan::service
