// One HTTP request to a daemon, by libcurl. For the command line and tests: it waits.
#pragma once

#include <chrono>
#include <string>

#include "banyan/service/http/server.h"

namespace banyan::service {

// `url`: "unix:/run/banyan/operator.sock" or "http://127.0.0.1:9420"; `target`: path and query, "/v1/cluster?x=1".
// Returns any answer, whatever its status. Throws Error{not_found} when nobody listens there, naming the url and the
// mend, Error{invalid_usage} where the socket may not be used by this user or is a stranger's
// (run/system/socket_owner.h), Error{timed_out}, Error{io}, Error{invalid_input} for what is no url, Error{unsupported}
// where Banyan was built without libcurl. Any thread.
HttpResponse http_ask(const std::string& url, const std::string& method, const std::string& target,
                      const std::string& body, std::chrono::milliseconds at_most);

}  // namespace banyan::service
