// GOAL: jobs of computes, sends and receives as text, exchanged with LogGOPSim and ATLAHS (Hoefler, Siebert, Lumsdaine:
// Group Operation Assembly Language, ICPP 2009). docs/formats/jobs.md says how each part is read.
//
//   num_ranks 2
//   rank 0 {
//     l1: calc 1500 cpu 0               nanoseconds
//     l2: send 4096b to 1 tag 7         bytes
//     l2 requires l1                    l2 starts when l1 has ended (irequires: has started)
//   }
//   rank 1 { recv 4096b from 0 tag 7 }  from -1: anybody, tag -1: any
//
// A rank is a program. CPU c computes one thing at a time: stream "cpu c" of Order::ready. A message waits for its
// partner without holding a CPU: stream "cpu c nic n" of Order::free. The overheads per message (o, O) that other
// simulators charge to a CPU are parameters of theirs, not of the file, and not part of the job; the serial card is the
// fabric's link. A label is the name of its node; nodes without one have the empty name.
#pragma once

#include <string>
#include <string_view>

#include "banyan/job/job.h"

namespace banyan::job::goal {

// All throw Error with file and line: Error{invalid_input} for what is no GOAL, a label that is declared twice or
// never, a rank without a block, a size or time out of range; Error{unsupported} beyond Job's limits. A file is read in
// pieces. Time O(text); memory is that of the job, 8 bytes a label, and what refers to labels that come later in their
// rank.
Job read_job(const std::string& path);
Job parse_job(std::string_view text, const std::string& where);

// Reads back as the same job if it came from GOAL. Things that GOAL has no words for:
//   memory nodes, markers   calc; floating-point operations are left out
//   times                   rounded to whole nanoseconds
//   streams                 Order::program becomes `requires` from node to node; a stream that is not called as above
//                           is the CPU of its number. A message no longer holds a stream of Order::ready
//   names                   labels; when some name of a rank is not a word of its own there, n0, n1, ... by number
// Throws Error{unsupported} that names rank and node for a collective (expand it first), and for computing on a stream
// of Order::free. O(nodes of all ranks + dependencies).
std::string write_job(const Job& job);

}  // namespace banyan::job::goal
