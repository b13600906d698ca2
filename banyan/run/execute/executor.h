// Executor: carries out calls in the order in which they are started. One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/run/call/call.h"
#include "banyan/run/host/host_group.h"
#include "banyan/run/system/patience.h"

namespace banyan::run {

class Executor {
 public:
  Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  virtual ~Executor() = default;

  // How many calls may be under way.
  virtual size_t depth() const = 0;
  // Begins a call after those under way. What the call points to must stay until it is over.
  virtual void start(const Call& call, const CallNumbers& numbers) = 0;
  // Goes on as far as possible without waiting; true when the oldest call is over, which is then no more under way.
  // Throws Error when it cannot be: the executor is of no use after that.
  virtual bool advance() = 0;
  // Goes on until the only call is over, asking `watch` now and then whether to wait on. Throws what both throw.
  virtual void finish(Watch& watch) = 0;

  // Messages between two ranks go on beside the calls, any number at a time; those of a pair with the same tag in
  // order. `call` is send or recv. Returns a ticket.
  virtual uint64_t start_message(const Call& call) = 0;
  struct MessageDone {
    uint64_t ticket = 0;
    uint32_t peer = 0;  // where it went, or came from
  };
  // True when something moved; what is done now is appended. Throws as advance() does.
  virtual bool advance_messages(std::vector<MessageDone>& done) = 0;

  // Sleeps until a peer does something, or for a while, unless `try_again`, which is called when nothing can be missed
  // any more, returns true.
  virtual void nap(const std::function<bool()>& try_again) = 0;
  // Ends a nap, or keeps the next one from beginning. Any thread.
  virtual void wake() = 0;
  // How to wait between looks, by advance().
  virtual Patience patience() const = 0;

  // A rank whose sign is missing, after nothing moved.
  virtual uint32_t waiting_for() const = 0;
  // Whether what is under way can end without this rank, which has left: when only receives from any wait for it.
  virtual bool can_do_without(uint32_t rank) const = 0;
  // Grows whenever something moves.
  virtual uint64_t steps() const = 0;
  // How often it has gone on without a link that was lost. Any thread.
  virtual uint32_t reroutes() const = 0;
  // What an executor of another rank, or this one, has told all. Any thread.
  virtual void hear(const std::string& text) = 0;
  // Deals with what it has heard, for when no call is under way that would.
  virtual void attend() = 0;
  // Ends what peers have under way with this error, as far as they can be told. Any thread.
  virtual void break_with(const Error& error) = 0;
  // The error with which a peer has ended everything, if one has. Any thread.
  virtual std::optional<Error> broken() const = 0;
};

}  // namespace banyan::run
