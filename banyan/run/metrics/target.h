// MetricsTarget: the port or the file at which BANYAN_METRICS asks for the metrics of a process.
//
//   9400, 127.0.0.1:9400     served by HTTP at /metrics; rank r on its host takes the r-th port from there on
//   /run/banyan/%r.prom      a file, written anew every few seconds: %r is the rank, %j the job of the scheduler
//                            ("nojob" where there is none), %h the host, %p the process, %% a percent sign
//   /var/lib/textfile/       a folder that exists: banyan-%j-rank%r.prom in it
#pragma once

#include <cstdint>
#include <string>

#include "banyan/run/communicator/statistics.h"

namespace banyan::run {

struct MetricsTarget {
  std::string address;  // to listen on; empty: all of this host
  uint16_t port = 0;    // of the first rank of a host; 0: `path` counts
  std::string path;

  // Throws Error{invalid_input} naming the mend.
  static MetricsTarget parse(const std::string& text);

  bool is_port() const { return port != 0; }
  // "127.0.0.1:9401": what this process listens on. Throws Error{invalid_input} beyond the last port.
  std::string endpoint(const JobPlace& place) const;
  // The file of this process. If the path has neither %r nor %p, several ranks get their numbers before its last dot:
  // metrics.3.prom.
  std::string file(const JobPlace& place) const;
};

// The job's number as its scheduler tells it by the environment (Slurm, PBS, LSF, Flux, torchrun); empty where none
// does.
std::string scheduler_job();

}  // namespace banyan::run
