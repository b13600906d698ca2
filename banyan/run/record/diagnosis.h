// Diagnosis: the dumps of all ranks, taken together, in words.
//
// Pure. Any number of communicators, each with any of its ranks' dumps; a rank that wrote none is evidence too.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "banyan/run/record/dump.h"
#include "banyan/run/record/stall.h"

namespace banyan::run {

struct Finding {
  FindingKind kind = FindingKind::late;
  std::string communicator;            // as CommunicatorReport::title
  std::vector<uint32_t> ranks;         // of it, who is accused; ascending
  uint64_t sequence = 0;               // of the operation in question; 0: of none
  std::string sentence{};              // what is wrong, without a full stop
  std::vector<std::string> because{};  // what makes us think so, and what it led to
};

struct RankReport {
  uint32_t rank = 0;
  Health health = Health::unknown;  // as others saw it; alive when it wrote a dump
  std::string host;                 // empty when it wrote none
  int64_t pid = 0;
  std::string words;  // "in allreduce #17 for 3.1 s, waits for rank 3"
};

struct CommunicatorReport {
  std::string title;  // its name, and its id where two have one name
  uint32_t size = 0;
  std::vector<uint32_t> missing;  // ranks without a dump
  std::vector<RankReport> ranks;  // those with a dump, and those that others know something of
};

struct Diagnosis {
  std::vector<Finding> findings;                  // the likeliest cause first
  std::vector<CommunicatorReport> communicators;  // by name
  size_t older = 0;                               // dumps of runs that were over before, which were left out

  bool is_healthy() const { return findings.empty(); }
};

// A dump that was written before the process of the newest one began is of an older run, and is left out.
Diagnosis diagnose(std::span<const RankDump> dumps);

}  // namespace banyan::run
