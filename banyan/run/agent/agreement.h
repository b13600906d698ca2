// Agreement: the agreement of survivors.h at one rank and for one epoch, without clocks and sockets.
//
// A state machine. Its inputs are events (the application calls, a message comes, a rank is gone, time passes), its
// outputs are messages to be sent. So a test can drive hundreds of ranks through any order of events. See survivors.h
// for the idea; here is why it is safe.
//
// Words: a *proposal* is a list under a ballot. A rank that has *promised* a ballot takes no part in lower ones. A rank
// has *decided* when it knows that a proposal holds: a follower when it gets `decide` without having promised a higher
// ballot, the proposer when all on the list who live have answered `learned`. Deciding is for ever.
//
// One ballot, from its proposer: prepare -> promise, accept -> accepted, decide -> learned, each from all on the list.
//
// Claim: when X, which lives, decides L, every Y on L that lives and decides, decides L. Everybody on L had accepted L
// before anybody got `decide`. A later proposer P chooses a list of its own only when
//   (1) nobody who answered it has decided (else it adopts that decision), and
//   (2) for the highest proposal H that was accepted by anybody who answered: the proposer of H has answered that it
//       never sent decide; or all on H except the proposer have answered, or are certainly dead.
// Those who answered have not decided, by (1), and by their promise to P never will by H or a lower ballot. Those who
// did not answer cannot have decided, by (2): only the proposer of H sends decide, and it decides itself only when all
// others who live have. If (2) does not hold (the proposer is gone, and another on H is silent), P waits, until the
// deadline if need be: no agreement is better than two.
//
// Dead ranks do not count, if they are: a rank that was only concluded to be dead (suspicion.h), and may live behind
// its fence, is on no list any more, but nobody decides for it. It is waited for in (2) as if it was silent, and a
// proposer that has announced a list with it does not decide without its answer.
//
// Invariants, each of which is checked:
//   1. The ballot that this rank has promised never falls.
//   2. A ballot of this rank prepares, then accepts, then decides: no phase is passed over.
//   3. There is one outcome, a list or an error; while this rank proposes there is none yet.
//   4. The list that is the outcome has this rank on it, and ascends.
//   5. All ranks are gone of whose end this one is certain, and it is not among them itself.
//
// Rules (SurvivorRule). A proposer chooses no list that is shorter than the rule of any rank that promised allows. The
// agreement fails at once when all who may still come are too few.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/run/agent/survivors.h"

namespace banyan::run {

// One thread.
class Agreement {
 public:
  using Clock = std::chrono::steady_clock;
  using Ballot = uint64_t;  // attempt << 32 | rank of the proposer; 0 is none

  struct Proposal {
    Ballot ballot = 0;
    Survivors list;
  };

  struct PaxosMessage {
    enum class Kind : uint8_t {
      prepare = 1,  // proposer: promise me this ballot
      pending,      // my application has not called yet
      promise,      // with proposal: the one accepted last
      rejected,     // ballot: the one promised, higher than yours
      accept,       // proposer: with proposal
      accepted,
      decide,     // proposer: all have accepted
      learned,    // and so I decided
      decided,    // with proposal: it holds already
      abandon,    // proposer: somebody else may propose
      withdrawn,  // my application has given up
      excluded,   // you are not wanted
    };
    Kind kind = Kind::prepare;
    Ballot ballot = 0;
    // Parts of a promise; others have `proposal` alone, or none of these:
    bool has_announced = false;  // sent decide for `proposal`
    bool has_withdrawn = false;
    std::vector<uint32_t> excluded{}, gone{};
    uint32_t least = 0;  // survivors
    std::string card{};
    std::optional<Proposal> proposal{};

    std::string encode() const;
    // Throws Error{invalid_input}: also for a list that does not ascend, and for a ballot that could not be outbid.
    static PaxosMessage parse(std::string_view bytes);
  };

  explicit Agreement(uint32_t own) : own_(own) {}

  // Once.
  void call(SurvivorQuestion question, Clock::time_point now);
  bool has_called() const { return question_.has_value(); }
  void received(uint32_t from, const PaxosMessage& paxos, Clock::time_point now);
  // `rank` is dead, or has left; or is concluded to be dead, which is not certain.
  void gone(uint32_t rank, Clock::time_point now, bool is_certain = true);
  // This rank takes no part any more.
  void give_up(const Error& why);
  void tick(Clock::time_point now);
  // The next moment at which tick() may have something to do; nothing before call() and after the outcome.
  std::optional<Clock::time_point> next_tick() const;

  std::vector<std::pair<uint32_t, PaxosMessage>> take_messages() { return std::exchange(outbox_, {}); }
  // The outcome for this rank, once it has called.
  const std::optional<Survivors>& survivors() const { return survivors_; }
  const std::optional<Error>& failure() const { return failure_; }

 private:
  enum class Phase : uint8_t { idle, preparing, accepting, deciding };
  struct Promise {
    std::optional<Proposal> accepted;
    bool has_announced = false;
    bool has_withdrawn = false;
    std::string card;
  };
  // The ballot that this rank proposes: how far it is, and who has answered.
  class Round {
   public:
    Phase phase() const { return phase_; }
    bool is_idle() const { return phase_ == Phase::idle; }
    Clock::time_point end() const { return end_; }
    bool is_overdue() const { return is_overdue_; }
    const std::map<uint32_t, Promise>& promises() const { return promises_; }
    const std::set<uint32_t>& pending() const { return pending_; }
    bool is_confirmed(uint32_t rank) const { return confirmed_.contains(rank); }

    void prepare(Clock::time_point end);
    void take_promise(uint32_t from, Promise promise);
    void take_pending(uint32_t from) { pending_.insert(from); }
    void take_confirmation(uint32_t from) { confirmed_.insert(from); }
    // Nobody else is waited for, and still no list can be chosen. `extend` gives it more time.
    void set_overdue() { is_overdue_ = true; }
    void extend(Clock::time_point end);
    // The list is chosen, and is to be accepted; it is, and is to be learned. `own`: this rank has done so already.
    void accept(uint32_t own, Clock::time_point end);
    void decide(uint32_t own);
    void stop() { phase_ = Phase::idle; }

   private:
    Phase phase_ = Phase::idle;
    Clock::time_point end_;
    std::map<uint32_t, Promise> promises_;
    std::set<uint32_t> pending_;    // live but have not called; of earlier ballots, too
    std::set<uint32_t> confirmed_;  // have accepted, or learned
    bool is_overdue_ = false;
  };

  // As acceptor.
  void on_prepare(uint32_t from, const PaxosMessage& paxos, Clock::time_point now);
  void on_accept(uint32_t from, const PaxosMessage& paxos, Clock::time_point now);
  void on_decide(uint32_t from, const PaxosMessage& paxos, Clock::time_point now);
  void on_abandon(uint32_t from, const PaxosMessage& paxos, Clock::time_point now);
  PaxosMessage promise_message() const;
  void set_promised(Ballot ballot);
  void decide(Proposal proposal);
  // As proposer.
  void propose(Clock::time_point now);
  void on_promise(uint32_t from, const PaxosMessage& paxos, Clock::time_point now);
  void choose_if_ready(Clock::time_point now);
  void check_accepted();
  void check_learned();
  void on_withdrawn(uint32_t from, Clock::time_point now);
  void step_down(Clock::time_point now);
  std::vector<uint32_t> missing() const;   // in play, and have not promised
  std::vector<uint32_t> doubtful() const;  // may have decided without the knowledge of those that answered
  bool is_enough(const std::vector<uint32_t>& here) const;

  bool is_settled() const { return survivors_ || failure_; }
  bool is_in_play(uint32_t rank) const { return !gone_.contains(rank) && !out_.contains(rank); }
  bool is_led() const;  // by another that lives
  std::optional<Clock::time_point> turn() const;
  void send(uint32_t to, PaxosMessage paxos);
  void send_all(const PaxosMessage& paxos);
  bool is_possible();
  std::string why_too_few() const;
  void fail(ErrorCode code, const std::string& why);
  void fail_as_left_out();
  void expire();

  uint32_t own_;
  std::optional<SurvivorQuestion> question_;
  Clock::time_point called_at_;
  std::vector<std::pair<uint32_t, PaxosMessage>> outbox_;
  std::optional<Survivors> survivors_;
  std::optional<Error> failure_;

  Ballot promised_ = 0;
  bool is_abandoned_ = false;         // the ballot promised
  Clock::time_point leader_seen_at_;  // the last message of its proposer
  std::optional<Proposal> accepted_;
  Ballot announced_ = 0;  // the last own ballot for which decide was sent
  std::optional<Proposal> decided_;

  std::set<uint32_t> gone_, out_;  // dead or left; excluded or withdrawn
  std::set<uint32_t> certain_;     // of the gone: they have decided nothing that matters any more
  uint32_t least_ = 1;             // survivors, by the rules that are known here
  Round round_;
  Clock::time_point idle_since_;
  Ballot highest_ = 0;       // ever seen
  std::set<uint32_t> late_;  // were waited for once
};

}  // namespace banyan::run
