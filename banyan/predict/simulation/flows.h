// JobFlows: what moves over the links while jobs run, and what that puts on each link over time.
//
// A flow belongs to a collective, to one of its messages or to a message of the job (Owner), under which its end is
// reported. Flows go at the weight and priority of their job, on links of kinds (kinds.h). As links change, flows that
// cross a failed one stop, move or bring their job down (OnFailure); what is left of a flow is kept as a fraction of
// it. Deterministic. One thread. Complexity: a fluid event each; a moment at which links change costs the hops of all
// that is under way. Private to job_simulation.cc and its parts.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "banyan/predict/fluid/fluid_network.h"
#include "banyan/predict/fluid/load_series.h"
#include "banyan/predict/simulation/links.h"
#include "banyan/predict/simulation/prediction.h"

namespace banyan::predict {

// The load that one flow puts on links. Borrows its hops.
struct JobLoad {
  std::span<const FluidHop> hops = {};  // by link of the fabric: coefficient / unit bytes for each of the flow's
  double unit = 1;
  double bytes = 0;        // of the flow
  double efficiency = 1;   // of the rate that its links would allow it
  Picoseconds latency{0};  // before the first byte
};
// The load of what puts so many bytes on links (the coefficients). Its flow has as many bytes as the link where it has
// most, fewer at an efficiency above 1 (switches reduce), and competes there like any other flow.
JobLoad load_of(std::span<const FluidHop> bytes_on, double efficiency, Picoseconds latency);

class JobFlows {
 public:
  struct Owner {
    enum class Kind : uint8_t { collective, message, transfer };
    Kind kind = Kind::collective;
    uint32_t number = 0, part = 0;  // of its own
  };
  struct Ended {
    Owner owner;
    Picoseconds begin{0};
  };

  // All outlive it.
  JobFlows(const std::vector<PlacedJob>& jobs, const JobKinds& kinds, JobLinks& links,
           const JobSimulationOptions& options);

  Picoseconds now() const { return network_.now(); }
  Picoseconds next() { return network_.next(); }

  // Lets `alike` equal ones of the job begin to move, of which one is `load`.
  void start(Owner owner, uint32_t job, uint32_t alike, const JobLoad& load);
  // The flows that end then, in a fixed order; good until the next call.
  const std::vector<Ended>& advance(Picoseconds time);
  // The next moment of the links, which is now(). `load_now` says what an owner would put on them from now on; it is
  // asked where flows move and one is held up.
  void change_links(const std::function<JobLoad(Owner)>& load_now);
  // Jobs that have had something on a failed link since this was last asked, where that is their end.
  std::vector<uint32_t> take_failing() { return std::exchange(failing_, {}); }
  // Takes away all flows of a job.
  void stop(uint32_t job);

  bool any_under_way() const { return network_.flow_count() > 0; }
  // True if a flow under way crosses the link.
  bool any_crosses(LinkId link) const;
  // Links, their loads, and what the window made of it.
  void report(const Fabric& fabric, const LinkTimeline& timeline, Prediction& prediction);

 private:
  struct Flow {
    Owner owner;
    uint32_t job = 0, alike = 1;
    Picoseconds begin{0}, moves_from{0};
    FlowId fluid{};
    double efficiency = 1, unit = 1;
    double all = 0;              // bytes, had it gone this way from its beginning
    std::vector<FluidHop> way;   // of one of them, by link of the fabric; kept where links change
    std::vector<FluidHop> hops;  // of all of them, by kind of link
    double bytes = 0, booked = 0;
    Picoseconds booked_until{0};
    bool is_under_way = false;
  };

  uint32_t new_flow();
  void release(uint32_t number);
  void set_out(uint32_t number, const JobLoad& load, double fraction);
  void go_on_along(uint32_t number, const JobLoad& load, double left);
  void book(Flow& flow, double left);

  const std::vector<PlacedJob>& jobs_;
  const JobKinds& kinds_;
  JobLinks& links_;
  const OnFailure on_failure_;
  FluidNetwork network_;
  LoadSeries loads_;
  std::vector<Flow> flows_;
  std::vector<uint32_t> free_, ending_;
  std::vector<Ended> ended_;
  std::vector<uint32_t> failing_;
};

}  // namespace banyan::predict
