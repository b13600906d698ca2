// Views of the service as `banyan service` prints them. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "apps/report.h"
#include "apps/service/service_rates.h"
#include "apps/terminal.h"
#include "banyan/service/view/host_view.h"

namespace banyan::app {

// Nothing is found wrong, and all hosts have answered.
bool is_well(const service::ClusterView& view);

// Tables with a row for each of them; for `communicators`, the calls per second where rates are given.
Table hosts_table(const service::ClusterView& view);
Table tenants_table(const ServiceRates& rates);
Table communicators_table(const service::ClusterView& view, const ServiceRates* rates, size_t most);
Table links_table(const ServiceRates& rates, size_t most);

// A line for each thing that is wrong, or one that says that nothing is; then the tables.
std::string status_text(const Terminal& terminal, const service::ClusterView& view);
std::string tenants_text(const Terminal& terminal, const ServiceRates& rates);
std::string links_text(const Terminal& terminal, const ServiceRates& rates);

// The hints that the daemon of a host gives a tenant (banyan/service/view/hints.h). Throws what nlohmann throws for
// JSON that holds none.
std::string hints_text(const Terminal& terminal, const Json& hints);

Json tenants_json(const ServiceRates& rates);
Json links_json(const ServiceRates& rates);

// "in allreduce of 4 MiB, 25 %"; "no call for 1.3 s"; "has ended: words".
std::string doing_of(const service::CommunicatorView& communicator);

}  // namespace banyan::app
