// Rendezvous: the processes of a job find each other.
//
// They agree on a place before they are started: a url, from their launcher (environment.h) or by an id that one of
// them made (UniqueId). Each brings an EndpointRecord; when all have come, each has the cards of all. A process that
// comes late, or twice, or dies meanwhile, is named to all of them.
//
//   const Place place = Place::parse(invitation->url);
//   Rendezvous rendezvous(place, Secret::from_environment(), {.rank = invitation->rank, .job = invitation->job},
//                         deadline);
//   Listener listener = Listener::on(rendezvous.listening_address());
//   EndpointRecord card;
//   card.rank = invitation->rank;
//   card.member = describe_self(listener.port(), rendezvous.own_addresses());
//   const std::vector<EndpointRecord> cards = rendezvous.meet(card, invitation->size, deadline);
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/run/join/deadline.h"
#include "banyan/run/join/endpoint_record.h"
#include "banyan/run/join/secret.h"
#include "banyan/run/join/store.h"
#include "banyan/run/join/store_server.h"

namespace banyan::run {

// The place of a meeting: "tcp://host:port", "tcp://[::1]:port", "tcp://host:port#secret" (an id), or "file:///folder".
struct Place {
  std::string url;               // without the secret
  std::string host;              // of tcp
  uint16_t port = 0;             // of tcp
  std::string folder;            // of file
  std::optional<Secret> secret;  // of an id: its maker hosts the store already

  // Throws Error{invalid_input}, which does not repeat the secret.
  static Place parse(const std::string& text);
};

// Those in BANYAN_ADDRESS, which has addresses, names of hosts or of interfaces: where others are to reach this
// process. None when it is not set. Throws Error{not_found}.
std::vector<std::string> given_addresses();

// Tells all of `size` processes (1 to 2^24) about each other. Returns their cards, indexed by rank. Keys begin with
// `prefix`, so that there may be several meetings in one store. All throw the same Error when it fails: timed_out,
// "ranks 3, 5, 6, 7 have not come to tcp://node0:29501 within 30 s"; mismatch, naming both, when two processes have the
// same rank or see another number of ranks, or when a card has another version; aborted, "rank 2 (...) gave up
// joining", when the deadline of one was stopped; peer_lost, "rank 2 (process 4711 on node7) has ended, ...", within a
// second after one has that was here (not through the store of torchrun, which cannot tell).
//
// With `trouble`, this process says why it cannot take part, and all throw "rank 2 (process 4711 on node7) cannot join:
// ..." with the code of that error, unless the meeting is over already.
std::vector<EndpointRecord> meet(Store& store, const EndpointRecord& own, uint32_t size, const Deadline& deadline,
                                 const std::string& prefix = "", const std::optional<Error>& trouble = {});

// The progress of a meeting, for a process that takes no part in it.
struct MeetingView {
  uint32_t size = 0;                 // ranks that are expected; 0: nobody has come far enough to say
  std::vector<EndpointRecord> here;  // by rank
  std::vector<uint32_t> absent;
};
// Asks for each card, one after the other. Throws what the store throws.
MeetingView look_at_meeting(Store& store, const Deadline& deadline, const std::string& prefix = "");

// After a meeting that failed: returns when as many as were expected have come and may read why, or when nobody has
// come for `patience`, or at the deadline.
void await_latecomers(Store& store, std::chrono::milliseconds patience, const Deadline& deadline,
                      const std::string& prefix = "");

// The meeting that is held at a place now, of whatever job. None when no host answers there at once. Throws
// Error{mismatch} with another secret, Error{invalid_input} as Rendezvous.
std::optional<MeetingView> look_at_meeting(const Place& place, const Secret& secret, const Deadline& deadline);

// One at a time for each place and job. One thread at a time.
class Rendezvous {
 public:
  struct Options {
    uint32_t rank = 0;
    // Visitors of one job do not meet those of another, at the same place. Must differ between meetings that the same
    // processes hold at one place one after the other.
    std::string job{};
  };

  // Rank 0 hosts the store, unless the place has a secret; the others wait for it. `secret` is what the environment
  // gives, and gives way to that of the place. Without any, only this machine is believed: Error{invalid_input} at once
  // when the place is on another. Throws what StoreServer, TcpStore and FileStore throw, naming the place.
  Rendezvous(const Place& place, const Secret& secret, const Options& options, const Deadline& deadline);
  // At the host it waits until the visitors have gone, at most until the deadline of the last meeting, or a second if
  // that is later. So all should end it soon after they have met.
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  Store& store() { return *store_; }
  // The secret by which all connections of the job are made.
  const Secret& secret() const { return secret_; }
  // The addresses at which the others reach this process, the best first: BANYAN_ADDRESS ("10.1.2.3", or several with
  // commas), when it is set; the loopback, without a secret or when they meet on the loopback; else all by which this
  // machine is reached, with that which leads to the place in front.
  std::vector<std::string> own_addresses() const;
  // The address to listen on for that: the loopback, the one address that BANYAN_ADDRESS names, or all ("0.0.0.0",
  // "::").
  std::string listening_address() const;

  // See above. The host of a meeting that failed early waits up to two seconds (half a second when a process has ended)
  // for those still to come, so that they learn why. Besides, Error{mismatch} when they are on several machines without
  // a secret. The message of a deadline says who called and was not let in.
  std::vector<EndpointRecord> meet(const EndpointRecord& own, uint32_t size, const Deadline& deadline,
                                   const std::optional<Error>& trouble = {});

 private:
  void leave();
  bool is_local() const;
  bool is_host() const;
  void open_tcp(const Options& options, const Deadline& deadline);
  void open_folder(const Options& options, const Deadline& deadline);

  Place place_;
  Secret secret_;
  std::unique_ptr<StoreServer> server_;
  std::unique_ptr<Store> store_;
  Deadline last_;
};

// A place that is made on the spot: it is carried to the others by any means (MPI, a file, a socket of their own).
struct UniqueId {
  // "tcp://10.1.2.3:40123#<32 hexadecimal digits>", at most 255 characters. A process that knows it may join.
  std::string text;
  // Answers from now on. To be kept until all have met: finish() waits for that.
  std::unique_ptr<StoreServer> server;
};

// On the loopback when this process has no other address; else where the host is reached, or at BANYAN_ADDRESS. Throws
// Error{io}.
UniqueId make_unique_id();

// A place on the loopback for processes that are forked after it was made. It has a socket and no thread, as
// run_processes() wants it: calls wait until one of the processes serves them.
//
//   ForkedMeeting meeting;
//   run_processes(4, timeout, [&](uint32_t rank) {
//     const auto server = rank == 0 ? meeting.serve() : nullptr;
//     Rendezvous rendezvous(Place::parse(meeting.url()), Secret(), {.rank = rank}, deadline);
//     ...
class ForkedMeeting {
 public:
  // Throws Error{io} when no socket can be had.
  ForkedMeeting();

  const std::string& url() const { return url_; }  // with its secret
  // Answers calls from now on, also those that wait already. To be called once, by one of the processes, which keeps
  // the server until all have met.
  std::unique_ptr<StoreServer> serve();

 private:
  Secret secret_;
  Listener listener_;
  std::string url_;
};

}  // namespace banyan::run
