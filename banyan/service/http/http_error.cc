#include "banyan/base/error.h"
#include "banyan/base/json_line.h"
#include "banyan/service/http/server.h"

namespace banyan::service {
namespace {

int status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_input:
      return 400;
    case ErrorCode::not_found:
      return 404;
    case ErrorCode::invalid_usage:
      return 403;
    default:
      return 500;
  }
}

}  // namespace

HttpResponse http_error(int status, const std::string& words) {
  return {.status = status, .type = "application/json", .body = JsonLine().add("error", words).take() + "\n"};
}

HttpResponse http_error(const Error& error) { return http_error(status_of(error.code()), error.what()); }

}  // namespace banyan::service
