// LiveReport: what two looks at a running job, a moment apart, say together. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "banyan/run/agent/job_view.h"
#include "banyan/run/record/diagnosis.h"

namespace banyan::app {

struct LiveReport {
  struct Communicator {
    std::string name, id;
    uint32_t size = 0;
    bool moves = false;           // a rank has begun or ended something, or come a step farther
    double calls_per_second = 0;  // of the rank that has begun most
  };
  struct Lane {
    std::string communicator;
    uint32_t rank = 0, peer = 0, lane = 0;                // ranks of the communicator
    double sent_per_second = 0, received_per_second = 0;  // bytes
  };
  struct Rank {
    uint32_t rank = 0;
    std::string process, place;  // see run::JobView
    run::Health health = run::Health::unknown;
    std::string why;  // it has not answered
  };
  struct Doubt {
    uint32_t by = 0;
    run::DoubtView of;
  };

  uint32_t size = 0, asked = 0;  // ranks of the job; who was asked
  std::vector<Communicator> communicators;
  std::vector<Lane> lanes;          // those that carried something, the fastest first
  std::vector<Rank> ranks, absent;  // of the job; and those that have not answered
  std::vector<Doubt> doubts;
  // Covers all ranks, at the second look; its findings are about communicators that do not move.
  run::Diagnosis diagnosis;

  bool is_healthy() const { return absent.empty() && diagnosis.findings.empty(); }
};

LiveReport report_of(const run::JobView& first, const run::JobView& second);

}  // namespace banyan::app
