// Daemons on the hosts of a lab, and ranks that call through them.
#pragma once

#include <sys/mman.h>

#include <chrono>
#include <cstdint>
#include <new>
#include <string>

#include "banyan/base/check.h"
#include "banyan/run/communicator/communicator.h"
#include "banyan/run/host/regions.h"
#include "lab/test_real_lab.h"

namespace banyan::service {

// In memory that the processes of a test share.
template <typename Value>
class SharedAmongProcesses {
 public:
  SharedAmongProcesses() {
    void* const memory = mmap(nullptr, sizeof(Value), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED) << "no memory";
    value_ = new (memory) Value();
  }
  ~SharedAmongProcesses() { munmap(value_, sizeof(Value)); }
  SharedAmongProcesses(const SharedAmongProcesses&) = delete;
  SharedAmongProcesses& operator=(const SharedAmongProcesses&) = delete;

  Value* operator->() const { return value_; }

 private:
  Value* value_;
};

class LabDaemons : public lab::RealLab {
 protected:
  static constexpr std::chrono::seconds kPatience{60};

  LabDaemons();
  ~LabDaemons() override;

  // The command line of the daemon of each host, which operators find at operators().
  std::string daemon(const std::string& options) const;
  std::string operators(const std::string& host) const { return "unix:" + folder_ + "/" + host + ".operators"; }

  struct Seat {
    std::string host, tenant;
    uint32_t rank = 0, size = 0;  // of the tenant's communicator
  };
  // In the process of a rank, which is in the network namespace of its host. The pool outlives the communicator.
  run::Communicator join(const lab::Lab& lab, const Seat& seat, run::RegionPool& pool) const;

  std::string folder_;
};

}  // namespace banyan::service
