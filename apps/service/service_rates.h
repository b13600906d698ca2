// ServiceRates: what two views of the service, a moment apart, say together: who called and sent how much, and how full
// links were. Pure.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "banyan/service/view/host_view.h"

namespace banyan::app {

struct ServiceRates {
  struct Tenant {
    std::string name;
    std::string sharer;  // whom the weight belongs to
    double weight = 0;   // 0: none, since all its communicators are direct (CommunicatorView)
    service::ShareClass share_class = service::ShareClass::normal;
    size_t communicators = 0, ranks = 0;
    double calls_per_second = 0;
    double payload_per_second = 0, sent_per_second = 0;  // bytes, of all its ranks; sent: to other hosts
    double share = 0;                                    // of what all tenants have sent, 0 to 1
    double idle = 0;  // the part of the time in which its ranks had no call under way, and so wanted nothing; 0 to 1
    double due = 0;   // by the weights of those that have sent anything; a sharer's evenly among its tenants
  };
  struct Communicator {
    double calls_per_second = 0, sent_per_second = 0;
  };
  struct Link {
    std::string name;
    double capacity = 0, per_second = 0;                      // bytes
    std::vector<std::pair<std::string, double>> by_tenant{};  // bytes per second, the most first

    double full() const { return capacity > 0 ? per_second / capacity : 0; }
  };

  double seconds = 0;  // between the two; 0: the clock has not gone on, and there are no rates
  std::vector<Tenant> tenants;
  std::map<std::string, Communicator> communicators;  // by id
  std::vector<Link> links;                            // the fullest first
  std::vector<std::string> newcomers;                 // hosts of the second view only: links may seem too full by them
};

// A rank that only the second view has counts from its beginning if the first view has its host, else not at all. A
// counter that has fallen, since its daemon was restarted, counts as nothing.
ServiceRates rates_between(const service::ClusterView& first, const service::ClusterView& second);

}  // namespace banyan::app
