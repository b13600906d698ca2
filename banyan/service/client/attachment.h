// Attachment: what joins this process to the daemon of its host. One for each daemon, shared by all communicators.
//
// A thread listens to the daemon (control_connection.h), so that its end, and failures that it tells of, are known at
// once. A forked process has no part in it: its calls throw Error{unsupported}, and what it destroys is the parent's
// still.
//
// Any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/run/host/regions.h"
#include "banyan/run/join/deadline.h"
#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/system/shared_memory.h"
#include "banyan/service/client/control_connection.h"
#include "banyan/service/protocol/messages.h"
#include "banyan/service/protocol/rings.h"

namespace banyan::service {

class SessionSlots;

class Attachment : public std::enable_shared_from_this<Attachment> {
 public:
  // `url`: "unix:/run/banyan/banyand.sock". `pool`, which outlives it, is where communicators have their memory. Throws
  // Error{not_found} when nobody listens there, Error{invalid_usage} when a stranger does, Error{timed_out},
  // Error{mismatch} for a daemon of another version, Error{invalid_input} for what is no url, Error{peer_lost},
  // Error{io}.
  static std::shared_ptr<Attachment> to(const std::string& url, run::RegionPool& pool, const run::Deadline& deadline);
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;

  const std::string& url() const { return url_; }
  const std::string& host() const { return greeting_.welcome.host; }             // as the daemon calls it
  const Capability& capability() const { return greeting_.welcome.capability; }  // see Welcome
  bool is_crowded() const { return greeting_.welcome.is_crowded; }               // the same

  bool has_gone() const { return connection_.is_gone(); }  // the daemon, or the connection to it
  // A newer daemon has come, at which new sessions are to be opened. Those that are open go on.
  bool is_succeeded() const { return connection_.is_succeeded(); }
  // The error with which calls end then: "the service has gone (unix:...)".
  const Error& loss() const { return connection_.loss(); }

  // Memory of this process that the daemon has mapped; withdrawn when the last owner lets go. Those of the pool are
  // owned here, too, until a later name() finds that they have been freed.
  class Offered;
  // Names bytes within the pool: the name of the first byte, and the owner of the offer. Nothing if they are in no
  // region, or in one that cannot be offered again (region.h). Quick if the region has been offered before: no system
  // call. Throws what the daemon says, Error{peer_lost}, and Error{timed_out} when it says nothing for half a minute.
  struct Named {
    BufferName name;
    std::shared_ptr<const Offered> offer;
  };
  std::optional<Named> name(const void* begin, size_t bytes);
  // New memory, all pages there and zeroed. Throws Error{io} and as name().
  struct Memory {
    std::byte* data = nullptr;
    BufferName name;
    std::shared_ptr<const Offered> offer;  // keeps it
  };
  Memory allocate(size_t bytes);

  // JSON, as view/hints.h says: how the hosts of this user's communicators hang together, and what others leave of
  // their links. Throws what the daemon says, Error{timed_out}, Error{peer_lost}.
  std::string hints(const run::Deadline& deadline);

  // Shows the daemon the flight record of a rank, whose memory is a sealed memfd, until the result is gone. `record`
  // without its number, which is given here. Does not wait; nothing happens where the daemon has gone.
  std::shared_ptr<const void> show(ShowRecord record, const run::FileDescriptor& memory);

  // The callbacks of a session. The thread of this attachment calls them, maybe before open() has returned. `failed`
  // throws nothing.
  struct Hooks {
    // Its calls fail with this error from now on: the daemon says so, or has gone. That is Error{peer_lost}, "the
    // service has gone (unix:...)". Once. Must not block.
    std::function<void(const Error& error)> failed;
    // The same error, for the other ranks, which cannot know of it. Called after `failed` of all sessions; later news
    // wait for it.
    std::function<void(const Error& error)> fail_peers;
    // is_succeeded() says so from now on. Must not block.
    std::function<void()> succeeded = {};
  };
  // Open until its object is gone; then no hook is called any more.
  class Session;
  // `wish` without its number, session and page, which are given here. Waits until the daemon has opened it. Throws
  // what the daemon says, Error{timed_out}, Error{peer_lost}; Error{unsupported} when too many are open.
  std::unique_ptr<Session> open(OpenSession wish, Hooks hooks, const run::Deadline& deadline);

 private:
  class HookHolder;
  struct OfferedRegion {
    const std::byte* begin = nullptr;
    std::shared_ptr<const Offered> offer;  // null: it was offered to a daemon before, and calls copy
  };

  Attachment(const std::string& url, run::RegionPool& pool, const run::Deadline& deadline);
  ~Attachment();
  std::shared_ptr<const Offered> offer(run::FileDescriptor file, run::SharedMemory memory, uint64_t bytes);
  std::shared_ptr<const Offered> offer_region(run::RegionId region, const std::byte* begin);
  std::optional<std::shared_ptr<const Offered>> find_offer(run::RegionId region) const;
  void forget_freed();
  void ring(uint32_t session);
  void forget_hooks(uint32_t session);
  void session_failed(const SessionFailed& failed);
  void all_failed(const Error& error);
  void all_succeeded();
  std::vector<std::shared_ptr<HookHolder>> all_hooks();

  const std::string url_;
  run::RegionPool& pool_;
  const run::SharedMemory doorbell_;
  Greeting greeting_;
  std::mutex offering_;                     // held by who offers a region of the pool, so that each is offered once
  mutable std::shared_mutex offers_mutex_;  // protects offered_
  std::unordered_map<run::RegionId, OfferedRegion> offered_;
  std::mutex hooks_mutex_;  // protects hooks_
  std::map<uint32_t, std::shared_ptr<HookHolder>> hooks_;
  std::atomic<uint32_t> next_record_{0};
  const std::unique_ptr<SessionSlots> slots_;
  ControlConnection connection_;  // the last: its thread uses the others
};

class Attachment::Session {
 public:
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  SessionPage& page() const { return page_; }
  const std::string& means() const { return means_; }  // SessionOpened
  // The daemon finds something in the rings. Wakes it if it sleeps.
  void ring();
  void report_gone(uint32_t rank);
  // Has the daemon end it, soon. The page stays, and so do the hooks.
  void close();

 private:
  friend class Attachment;
  Session(std::shared_ptr<Attachment> attachment, uint32_t number, SessionPage& page, std::string means);

  const std::shared_ptr<Attachment> attachment_;  // shared with the other sessions
  const uint32_t number_;
  SessionPage& page_;
  const std::string means_;
  std::mutex mutex_;  // protects what follows
  bool is_closed_ = false;
  uint64_t sent_after_ = 0;
};

}  // namespace banyan::service
