#include "banyan/base/json_line.h"
#include "banyan/service/http/server.h"

namespace banyan::service {

HttpResponse http_error(int status, const std::string& words) {
  return {.status = status, .type = "application/json", .body = JsonLine().add("error", words).take() + "\n"};
}

}  // namespace banyan::service
