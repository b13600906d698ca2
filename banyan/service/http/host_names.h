// The names of its host that a server answers to (run/system/host_names.h).
#pragma once

#include "banyan/run/system/host_names.h"
#include "banyan/service/http/server.h"

namespace banyan::service {

using run::HostNames;

// Answers 421 instead of `handler` where the caller means another host, and says what would help.
HttpServer::Handler only_for(HostNames names, HttpServer::Handler handler);

}  // namespace banyan::service
