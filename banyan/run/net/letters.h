// Letters: messages between this rank and its peers over streams of a transport. Which receive takes which message,
// receives.h says. A message is read when its receive is posted, or when it stands in the way of what another one may
// wait for; till then it stays in its stream, which holds few bytes.
//
// A letter is a 16-byte header and its bytes. One stream with each peer carries letters and nothing else. Who receives
// from any listens to all of them (Transport::listen): a peer that is gone is then one less to hear from, and an error
// only when it has left in the middle of a letter, or when none is left.
//
// One thread. Nothing waits: advance() is called again and again. It looks at each peer, and takes time for what moves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/run/message/queue.h"
#include "banyan/run/message/receives.h"
#include "banyan/run/transport/transport.h"

namespace banyan::run {

class Letters {
 public:
  static constexpr uint32_t kAnyPeer = Receives::kAnyPeer;

  struct Options {
    uint32_t rank = 0, ranks = 0;
    std::function<uint32_t(uint32_t peer)> channel = {};  // of the transport, for letters; empty: the peer's number
  };
  Letters(Transport& transport, const Options& options);
  Letters(const Letters&) = delete;
  Letters& operator=(const Letters&) = delete;

  // The bytes stay the caller's, and must stay where they are until the letter is over.
  using Ticket = uint64_t;
  struct Sent {
    uint32_t to = 0, tag = 0;
    std::span<const std::byte> bytes;
  };
  Ticket send(const Sent& letter);
  struct Received {
    uint32_t from = kAnyPeer, tag = 0;
    std::span<std::byte> into;
  };
  Ticket receive(const Received& letter);

  // Moves what can be moved; true when something was. Appends what is over: received, or sent, so that it arrives
  // whatever this rank turns to (Transport::has_unsent); the next letter to the same peer begins after that, so that
  // none waits for those behind it. Throws what Receives and the transport throw, and Error{mismatch} when a peer sends
  // what is no letter.
  bool advance(std::vector<MessageEnd>& ended);
  bool is_idle() const { return sends_ == 0 && receives_.is_idle(); }
  // A rank whose sign is missing, when there is something open.
  std::optional<uint32_t> waiting_for() const;
  // Whether nothing open needs this rank, but for receives from any, which others may serve.
  bool can_do_without(uint32_t rank) const { return out_[rank].empty() && receives_.can_do_without(rank); }

 private:
  static constexpr uint64_t kStepsAtATime = 64;  // with one peer, before the next has its turn

  struct Header {
    uint32_t magic = 0, tag = 0;
    uint64_t size = 0;
  };
  struct Sending {
    Ticket ticket = 0;
    std::span<const std::byte> bytes;
    size_t done = 0;  // of header and bytes
    Header header;
  };
  struct Coming {
    Header header;
    size_t read = 0;  // of the header; all, while the letter is arriving
  };

  bool write(uint32_t peer, std::vector<MessageEnd>& ended);
  bool hear(uint32_t peer);
  bool is_engaged(uint32_t peer);
  bool read(uint32_t peer);
  Receives::Arrival* read_header(uint32_t peer);

  Transport& transport_;
  const uint32_t rank_;
  std::vector<uint32_t> channels_;   // by peer, as all that follow
  std::vector<Queue<Sending>> out_;  // the first is on its way
  std::vector<Coming> in_;
  Receives receives_;

  uint32_t first_ = 0;  // peer to look at
  Ticket next_ = 1;
  size_t sends_ = 0;  // open
};

}  // namespace banyan::run
