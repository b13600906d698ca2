#include "banyan/service/client/use_service.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "banyan/run/record/log.h"
#include "banyan/service/client/service_executors.h"
#include "banyan/service/client/service_link.h"
#include "banyan/service/protocol/place.h"

namespace banyan::service {
namespace {

// A daemon answers within milliseconds when it is there.
constexpr std::chrono::milliseconds kAttachTime{5000};

std::string url_of(const ServiceSettings& settings) {
  return settings.url.empty() ? "unix:" + found_socket() : settings.url;
}

// One for each url, as long as anybody uses it.
std::shared_ptr<ServiceLink> link_to(const std::string& url, run::RegionPool& pool, std::chrono::milliseconds at_most) {
  static auto* const mutex = new std::mutex();  // protects the links; never freed, since threads may outlive main()
  static auto* const links = new std::map<std::string, std::weak_ptr<ServiceLink>>();
  const std::lock_guard lock(*mutex);
  std::weak_ptr<ServiceLink>& known = (*links)[url];
  if (auto link = known.lock(); link && link->is_usable()) return link;
  auto link = std::make_shared<ServiceLink>(url, pool, run::Deadline::after(std::min(at_most, kAttachTime)));
  known = link;
  return link;
}

}  // namespace

void use_service(run::Communicator::Options& options, run::RegionPool& pool, const ServiceSettings& settings) {
  std::shared_ptr<ServiceLink> link;
  try {
    link = link_to(url_of(settings), pool, options.join_timeout);
  } catch (const Error& error) {
    // A stranger who pretends to be the service is no missing service.
    if (!settings.falls_back || error.code() == ErrorCode::invalid_usage) throw;
    static std::once_flag once;
    std::call_once(once, [&] {
      BANYAN_LOG(warning) << "communicators go without the service, as BANYAN_SERVICE_FALLBACK says: " << error.what();
    });
    return;
  }
  options.extras[ServiceExecutors::kExtra] = ServiceExecutors::extra_of(*link);
  options.executors = [link = std::move(link), tenant = settings.tenant](std::shared_ptr<run::JoinedProcesses> job,
                                                                         const run::Communicator::Options& own) {
    return std::make_unique<ServiceExecutors>(link, std::move(job), own, tenant);
  };
}

std::string service_hints(run::RegionPool& pool, ServiceSettings settings) {
  const char* const told = std::getenv("BANYAN_SERVICE");
  if (settings.url.empty() && told != nullptr) settings.url = told;
  const run::Deadline deadline = run::Deadline::after(kAttachTime);
  return link_to(url_of(settings), pool, kAttachTime)->attachment(deadline)->hints(deadline);
}

}  // namespace banyan::service
