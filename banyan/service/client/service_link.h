// ServiceLink: what joins this process to the service at a url, whichever daemon that is at the time.
//
// A daemon may take the place of another one, which ends when its last communicator does: a communicator opened from
// then on gets an attachment to the newer one. And a daemon may end and another one come. Communicators that the first
// one carried have failed then; the next one opened gets an attachment to the daemon that is there, and waits for it
// where none is. The name of the host and the capability of the job, which the processes have told each other when they
// met, stay valid. A new daemon takes the capability as it is: it is known to those who belong to the job, and to
// nobody else.
//
// A forked process has no part in it.
//
// Any thread.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "banyan/run/host/regions.h"
#include "banyan/run/join/deadline.h"
#include "banyan/run/system/fork_guard.h"
#include "banyan/service/client/attachment.h"
#include "banyan/service/client/shown_records.h"

namespace banyan::service {

class ServiceLink {
 public:
  // Attaches. Throws as Attachment::to(), which has the same arguments.
  ServiceLink(std::string url, run::RegionPool& pool, const run::Deadline& deadline);
  ServiceLink(const ServiceLink&) = delete;
  ServiceLink& operator=(const ServiceLink&) = delete;

  const std::string& url() const { return url_; }
  const std::string& host() const { return host_; }  // as the first daemon has called it
  // For a job of which this process is the first: each has its own. Throws Error{io}.
  Capability new_capability();
  // Not in a forked process, nor once a daemon of another host has come.
  bool is_usable() const { return !fork_guard_.is_in_child() && !has_moved_; }

  // The attachment to the daemon that is there. If it has gone, looks for the next one until the deadline. Throws
  // Error{timed_out} when none has come; Error{mismatch} when it says to be of another host, or is of another version;
  // Error{io}.
  std::shared_ptr<Attachment> attachment(const run::Deadline& deadline);

  // The flight records of communicators that do without the daemon.
  ShownRecords& records() { return records_; }

 private:
  std::shared_ptr<Attachment> try_attaching(const run::Deadline& deadline);

  const run::ForkGuard fork_guard_;
  const std::string url_;
  run::RegionPool& pool_;
  std::mutex mutex_;  // protects what follows; held while a daemon is asked, so that only one thread attaches
  std::shared_ptr<Attachment> attachment_;  // shared with the communicators that it serves
  bool has_given_capability_ = false;       // that of the first daemon
  std::atomic<bool> has_moved_{false};
  const std::string host_;
  const Capability capability_;  // that the first daemon has made
  ShownRecords records_;         // the last: its thread uses the others
};

}  // namespace banyan::service
