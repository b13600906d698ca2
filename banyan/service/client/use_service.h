// Connects a program's communicators to the service of its host (banyand).
#pragma once

#include <string>

#include "banyan/run/communicator/communicator.h"

namespace banyan::service {

struct ServiceSettings {
  std::string url = {};     // of the daemon; empty: as service/protocol/place.h says
  std::string tenant = {};  // whose communicators they are; empty: this user's
  // If no daemon can be reached, the options stay as they are, and the log says so, once.
  bool falls_back = false;
};
// Attaches this process to the daemon (the first time), and has it carry out the calls of communicators with these
// options, or the daemon that has come in its place when they begin. Throws what Attachment::to throws.
// `pool`: of this process, to the end of it.
void use_service(run::Communicator::Options& options, run::RegionPool& pool, const ServiceSettings& settings);

// The daemon's hints for this user about the links between the hosts of its communicators: JSON, as
// banyan/service/view/hints.h says. Without a url, BANYAN_SERVICE counts. Throws what Attachment::to and
// Attachment::hints throw.
std::string service_hints(run::RegionPool& pool, ServiceSettings settings = {});

}  // namespace banyan::service
