// One answer for all who ask the same at about the same time.
//
// A question to a cluster takes work on all of its hosts. If everybody may ask, a flood of questions must cost no more
// than one now and then, and a large answer no more memory than one.
#pragma once

#include <chrono>
#include <set>
#include <string>

#include "banyan/run/system/reactor.h"
#include "banyan/service/http/server.h"

namespace banyan::service {

// GETs of these paths get the answer to the last one, if that came less than `time` ago or waits for it still; queries
// do not matter. All else goes to `handler`. `reactor` outlives it.
HttpServer::Handler shared_for(run::Reactor& reactor, std::chrono::milliseconds time, std::set<std::string> paths,
                               HttpServer::Handler handler);

}  // namespace banyan::service
