// ServiceExecutors: communicators whose calls the daemon of this host carries out. Where all ranks are on one host,
// they exchange directly, since nothing is quicker than shared memory; else each rank's daemon does it.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "banyan/run/communicator/default_executors.h"
#include "banyan/service/client/attachment.h"

namespace banyan::service {

class ServiceExecutors : public run::ExecutorFactory {
 public:
  ServiceExecutors(std::shared_ptr<Attachment> attachment, std::shared_ptr<run::JoinedProcesses> job,
                   run::Communicator::Options options, std::string tenant = {})
      : attachment_(std::move(attachment)),
        job_(std::move(job)),
        options_(std::move(options)),
        tenant_(std::move(tenant)) {}

  // Throws what Attachment::open and DefaultExecutors throw; Error{mismatch} when a rank has not attached to a service;
  // Error{unsupported} for what a service does not do: UCX, encryption of the job's own.
  Made make(run::ExecutorSite site) override;

  // What the card of this process has to say to the others when they meet (JoinedProcesses::Invitation::extras).
  static constexpr const char* kExtra = "service";
  static std::string extra_of(const Attachment& attachment);

 private:
  OpenSession wish_for(const run::ExecutorSite& site, const run::Deadline& deadline) const;

  const std::shared_ptr<Attachment> attachment_;  // shared with the other communicators of the process
  const std::shared_ptr<run::JoinedProcesses> job_;
  const run::Communicator::Options options_;
  const std::string tenant_;  // empty: the user
};

}  // namespace banyan::service
