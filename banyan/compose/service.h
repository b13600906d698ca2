// How a program's communicators get to the service of its host (banyand).
#pragma once

#include <string>

#include "banyan/run/communicator/communicator.h"

namespace banyan::compose {

// Attaches this process to the daemon at `url` (the first time; empty: as service/protocol/place.h says), and has the
// daemon carry out the calls of communicators with these options. `falls_back`: where no daemon can be reached, the
// options stay as they are, which is said in the log, once. Throws what Attachment::to throws.
void use_service(run::Communicator::Options& options, const std::string& url, bool falls_back);

}  // namespace banyan::compose
