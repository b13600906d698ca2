// JobView: what all processes of a running job know, asked of one of them. For programs outside the job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "banyan/run/agent/process_view.h"
#include "banyan/run/join/deadline.h"
#include "banyan/run/join/secret.h"

namespace banyan::run {

struct JobView {
  struct Rank {
    std::string process, place;       // "process 4711 on node7"; "10.1.2.3:40123", where it can be asked, too
    Health health = Health::unknown;  // silent, left, dead: then it has not answered, and `why`, if that is known
    std::optional<ProcessView> view{};
    std::string why{};
  };
  uint32_t asked = 0;       // the rank that was asked
  std::string met;          // where they did: "tcp://node7:29501"
  std::vector<Rank> ranks;  // of the world
};

// The process itself, if it has joined something; else the processes that it has started, directly or not, and that
// have: for `banyan run`, the ranks. In the order of their numbers.
std::vector<int64_t> joined_processes(int64_t pid);

// Asks a process of this host about all worlds that it is in, the oldest first; the kernel must report it as this
// user's, or this user is root. If it has joined nothing, one of the processes that it has started is asked for each
// job. Throws Error{not_found} when there is no such process or none of these has joined anything, Error{io} when it is
// another user's, Error{timed_out}.
std::vector<JobView> look_at_process(int64_t pid, const Deadline& deadline);

// Likewise asks a process of this host that has met others at `url` (JobView::met). None when no such process lets this
// user look. Throws Error{timed_out}.
std::optional<JobView> look_at_job_that_met(const std::string& url, const Deadline& deadline);

// Asks the process that listens at "host:port", which must know the secret. Throws Error{mismatch} when it does not, or
// is none of ours, Error{invalid_input} for no such place, Error{io}, Error{timed_out}.
JobView look_at(const std::string& place, const Secret& secret, const Deadline& deadline);

}  // namespace banyan::run
