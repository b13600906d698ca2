// Lab: a fabric as real hosts on this machine, each in a network namespace of its own.
//
// The kernel's own network stack carries the bytes: a pair of virtual interfaces for each cable, whose rate is that of
// the cable, and hosts that route (lab_plan.h). Latency and loss of links are not emulated. A lab has a name and stays
// until it is taken down; what is known of it stands in /run/banyan/labs/NAME:
//
//   lab.json     "lab/1": scale; hosts, with namespace and addresses; cables, with rates; which are cut
//   fabric.json  the fabric with the rates of the lab, which plans are made on
//   network.json the fabric of the hosts, where they have several ranks each (shared_hosts.h)
//   routes.json  which addresses take which path (fabric/route_book.h)
//   secret       that the ranks prove themselves with; for root only
//
// All calls need root (why_no_lab) and throw Error{io} with what the system refused. One process at a time
// changes a lab: others wait.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "banyan/fabric/fabric.h"
#include "lab/lab_plan.h"
#include "lab/shared_hosts.h"

namespace banyan::lab {

struct Scale {
  uint64_t numerator = 1, denominator = 1;
  // "1/1000", "2", "1". Throws Error{invalid_input}.
  static Scale parse(const std::string& text);
  std::string to_string() const;
};

struct LabOptions {
  std::vector<uint32_t> ranks_per_host = {};  // of each rank of the fabric, which then is a host; empty: one each
  uint32_t classes = 1;                       // of traffic on each link (link_queue.h); 1: none
};

class Lab {
 public:
  // Letters, digits, '_' and '-', at most 20. Throws Error{invalid_input}.
  static void check_name(const std::string& name);

  // Sets up a lab; takes down one of the same name before, unless programs run in it (Error{invalid_usage}). A failure
  // leaves nothing behind. Throws Error{invalid_input} for options that do not go with the fabric.
  static Lab up(const std::string& name, const Fabric& fabric, const Scale& scale, const LabOptions& options = {});
  // One that is up. Throws Error{not_found} naming those that are, Error{invalid_input} for a broken description.
  static Lab open(const std::string& name);
  // Removes what there is of it, also of one that came up in part; ends the programs in it. False when there was none.
  static bool down(const std::string& name);
  // Those that are up. Remains of a killed up() or down() are not among them; both remove these the next time.
  static std::vector<std::string> names();
  // Those that are up, without those that are taken down meanwhile. Throws Error{invalid_input} as open() does.
  static std::vector<Lab> all();

  const std::string& name() const { return name_; }
  const Scale& scale() const { return scale_; }
  const LabPlan& plan() const { return plan_; }                            // its ranks are the hosts
  const SharedHosts& hosts() const { return hosts_; }                      // which ranks are on them
  const Fabric& fabric() const { return hosts_.fabric(); }                 // that plans are made on
  NodeId host_of(uint32_t rank) const { return hosts_.place(rank).host; }  // in plan()
  uint32_t classes() const { return classes_; }
  const std::set<uint32_t>& cut() const { return cut_; }
  std::string folder() const;
  std::string namespace_of(NodeId node) const;
  // The variables of a rank's program, and of one beside the ranks of a host. The secret is not among them.
  std::vector<std::pair<std::string, std::string>> variables(uint32_t rank) const;
  std::vector<std::pair<std::string, std::string>> host_variables(NodeId host) const;
  std::string secret() const;

  // "a0-swa", or a link "a0->swa", which means its cable, too; "a0-swa#1" for the second of several. Throws
  // Error{not_found} with the nearest.
  uint32_t find_cable(const std::string& name) const;
  std::string cable_name(uint32_t cable) const;
  // A cut cable swallows what is sent into it, as one that is pulled behind a port that does not notice. Primary
  // addresses are then reached by another path if there is one; the other addresses stand for their paths.
  void fail(uint32_t cable);
  void heal(uint32_t cable);

  // Processes in the namespace of a host.
  std::vector<int> processes(NodeId node) const;

 private:
  Lab(std::string name, SharedHosts hosts, Scale scale, uint32_t classes, std::set<uint32_t> cut)
      : name_(std::move(name)),
        scale_(scale),
        hosts_(std::move(hosts)),
        plan_(hosts_.network()),
        classes_(classes),
        cut_(std::move(cut)) {}

  void make_hosts() const;
  void make_cables() const;
  void set_addresses() const;
  void set_rates(uint32_t cable) const;
  void set_routes() const;
  void save() const;
  bool is_one_of_several(uint32_t cable) const;

  std::string name_;
  Scale scale_;
  SharedHosts hosts_;
  LabPlan plan_;
  uint32_t classes_;
  std::set<uint32_t> cut_;
};

}  // namespace banyan::lab
