// The metrics page of a daemon: a HostView in the text format of Prometheus. docs/service.md lists what is on it.
//
// Labels are hosts, tenants, names of communicators, links and reasons; never ranks or peers. Several communicators of
// one name are summed. The counts of one that ends stay in the sum while another of its name, or of its tenant, is
// open; then the line goes, and begins at 0 when the name comes again, which Prometheus takes for a restart. So no
// value ever falls.
//
// The text is made by prometheus-cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "banyan/service/view/host_view.h"

namespace banyan::service {

// The counts of ranks that the pages before have shown, of one daemon. Sums of them are RankViews of which all else is
// empty. Work of a communicator between the last page and its end is not counted.
class MetricsMemory {
 public:
  // Labels that programs can make up: of tenants (tenant_label.h) and of communicators, of all and of one user. Each is
  // kept while a communicator with it is open. All beyond are summed as "others", of the user where there is room.
  static constexpr size_t kMostTenants = 256, kMostNames = 1000, kMostNamesOfUser = 64;
  using Name = std::pair<std::string, std::string>;  // of a tenant and a communicator, as labels say

  // Takes in what `view` says. O(ranks log ranks).
  void record(const HostView& view);
  const std::map<Name, RankView>& by_name() const { return by_name_; }
  const std::map<std::string, RankView>& by_tenant() const { return by_tenant_; }
  // The label of a communicator of the last view.
  const Name& label_of(const CommunicatorView& communicator) const { return labels_.at(communicator.id); }

 private:
  struct Rank {
    Name name;
    RankView counts;
  };
  void choose_labels(const HostView& view);
  void sum();

  std::map<std::string, Name> labels_;                      // of communicators that are open, by id
  std::map<std::pair<std::string, uint32_t>, Rank> ranks_;  // that are open, by id and rank
  std::map<Name, RankView> ended_by_name_, by_name_;        // by_name_ is of both
  std::map<std::string, RankView> ended_by_tenant_, by_tenant_;
};

// The page. Throws Error{unsupported} where Banyan was built without prometheus-cpp.
std::string metrics_of(const HostView& view, MetricsMemory& memory);

}  // namespace banyan::service
