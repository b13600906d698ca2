// ServiceExecutors: communicators whose calls the daemon of this host carries out. If all ranks are on one host, they
// exchange directly, since nothing is quicker than shared memory, and the daemon is shown what they do
// (shown_records.h); else each rank's daemon does it. If a newer daemon follows it, they go over to that one
// (moving_executor.h).
//
// A communicator that begins when the daemon has gone waits for the next one (service_link.h), as long as it may take
// to join; so does one whose peers' daemons are missing, if they had come before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "banyan/run/communicator/default_executors.h"
#include "banyan/service/client/moving_executor.h"
#include "banyan/service/client/service_executor.h"
#include "banyan/service/client/service_link.h"

namespace banyan::service {

class ServiceExecutors : public run::ExecutorFactory {
 public:
  ServiceExecutors(std::shared_ptr<ServiceLink> link, std::shared_ptr<run::JoinedProcesses> job,
                   run::Communicator::Options options, std::string tenant = {})
      : link_(std::move(link)), job_(std::move(job)), options_(std::move(options)), tenant_(std::move(tenant)) {}

  std::shared_ptr<std::byte> record_memory(const std::vector<uint32_t>& members) override;
  // Daemons use no code.
  bool wants_equal_codes(const std::vector<uint32_t>& members) const override { return are_all_here(members); }
  // Throws what ServiceLink::attachment, Attachment::open and DefaultExecutors throw; Error{mismatch} when a rank has
  // not attached to a service; Error{unsupported} for what a service does not do: UCX, encryption of the job's own.
  Made make(run::ExecutorSite site) override;

  // Text for the card of this process, which tells the others of its service when they meet
  // (JoinedProcesses::Invitation::extras). Once for each meeting.
  static constexpr const char* kExtra = "service";
  static std::string extra_of(ServiceLink& link);

 private:
  struct Record;  // a flight record in memory that the daemon is shown
  bool are_all_here(const std::vector<uint32_t>& members) const;
  Made make_direct(run::ExecutorSite site);
  void show_record(ShowRecord show);
  static std::unique_ptr<ServiceExecutor> open(ServiceLink& link, const OpenSession& wish,
                                               const ServiceExecutor::Options& options, const run::Deadline& deadline);
  OpenSession wish_for(const run::ExecutorSite& site, const run::Deadline& deadline) const;

  const std::shared_ptr<ServiceLink> link_;  // shared with the other communicators of the process
  const std::shared_ptr<run::JoinedProcesses> job_;
  const run::Communicator::Options options_;
  const std::string tenant_;        // empty: the user
  std::shared_ptr<Record> record_;  // of a communicator that does without the daemon, which shares it
};

}  // namespace banyan::service
