// Daemons on the hosts of a lab, and ranks that call through them.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "banyan/run/communicator/communicator.h"
#include "banyan/run/host/regions.h"
#include "banyan/testing/temporary_folder.h"
#include "lab/test_real_lab.h"

namespace banyan::service {

class LabDaemons : public lab::RealLab, protected testing::TemporaryFolder {
 protected:
  static constexpr std::chrono::seconds kPatience{60};

  LabDaemons();

  // The command line of the daemon of each host, which operators find at operators().
  std::string daemon(const std::string& options) const;
  std::string operators(const std::string& host) const { return "unix:" + folder_ + "/" + host + ".operators"; }

  struct Seat {
    std::string host, tenant;
    uint32_t rank = 0, size = 0;  // of the tenant's communicator
  };
  // In the process of a rank, which is in the network namespace of its host. The pool outlives the communicator.
  run::Communicator join(const lab::Lab& lab, const Seat& seat, run::RegionPool& pool) const;
};

}  // namespace banyan::service
