// ExecutorFactory: where a communicator gets the executor of its calls from.
//
// A communicator knows the order of calls and who drives them; the factory chooses the means by which they move: shared
// memory, plans over connections (communicator/default_executors.h), a service on this host, or a fake of a test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/run/execute/executor.h"

namespace banyan::run {

// The communicator that asks.
struct ExecutorSite {
  uint64_t id = 0;                // equal on all ranks, and of no other communicator of the job
  std::string name;               // in messages
  std::vector<uint32_t> members;  // rank i is process members[i] of the job
  uint32_t rank = 0;              // this process in `members`
  // Both send to the other ranks and may be called by any thread while the executor lives.
  std::function<void(const Error&)> send_failure;     // ends their work in flight with this error
  std::function<void(const std::string&)> send_text;  // to the PlanReviser of all ranks, this one too
};

class ExecutorFactory {
 public:
  ExecutorFactory() = default;
  ExecutorFactory(const ExecutorFactory&) = delete;
  ExecutorFactory& operator=(const ExecutorFactory&) = delete;
  virtual ~ExecutorFactory() = default;

  struct Made {
    std::unique_ptr<Executor> executor;
    std::string means;            // for people: "shared memory", "TCP"
    bool is_on_one_host = false;  // the ranks exchange through shared memory alone
  };
  // Memory for the flight record of this rank, which other processes can read while this one runs:
  // Recorder::kMemoryBytes, kept as long as the communicator. Null: nobody else reads it. Called before make().
  virtual std::shared_ptr<std::byte> record_memory(const std::vector<uint32_t>& /*members*/) { return nullptr; }
  // True if all of these ranks must name the same code in a call. If they need not, none is used: float32 goes as it
  // is, and flight records say so. Called before make().
  virtual bool wants_equal_codes(const std::vector<uint32_t>& /*members*/) const { return true; }

  // Called once by every communicator, in its constructor; may block until the other ranks have come. Throws Error when
  // there is no way to carry out calls.
  virtual Made make(ExecutorSite site) = 0;
};

}  // namespace banyan::run
