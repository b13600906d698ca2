// DefaultExecutors: where all ranks of a communicator are on one host, a HostExecutor; where they are not, or its
// options ask for plans or for a transport, a NetExecutor.
#pragma once

#include <memory>

#include "banyan/run/communicator/communicator.h"
#include "banyan/run/communicator/joined_processes.h"
#include "banyan/run/execute/executor_factory.h"

namespace banyan::run {

class DefaultExecutors : public ExecutorFactory {
 public:
  // The job is shared with the communicators whose calls the executors carry out.
  DefaultExecutors(std::shared_ptr<JoinedProcesses> job, Communicator::Options options)
      : job_(std::move(job)), options_(std::move(options)) {}

  // Throws Error{unsupported} for shared memory between hosts, and without a source of plans; and what
  // JoinedProcesses::meet_on_host and the source throw.
  Made make(ExecutorSite site) override;

 private:
  std::unique_ptr<Executor> make_net_executor(const ExecutorSite& site) const;

  const std::shared_ptr<JoinedProcesses> job_;
  const Communicator::Options options_;
};

}  // namespace banyan::run
