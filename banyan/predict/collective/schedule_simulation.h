// Simulates how long a schedule takes: its trees are carried out slice by slice on a fluid network.
//
// The model: slices pipelined along all trees at once, reduce and spread overlapped; on every tree edge one
// message after the other, in order; each message costs alpha before its first byte and its links' latency after its
// last; links shared max-min fairly. With a codec, slices are shorter and take time of the ranks' cores, one core each
// (transfer_graph.h). Not modelled: reduction time of elements, buffers that run out, routing other than the
// schedule's.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/base/units.h"
#include "banyan/predict/codes/codec_cost.h"
#include "banyan/predict/collective/transfer_graph.h"
#include "banyan/predict/fluid/fluid_network.h"
#include "banyan/schedule/schedule.h"

namespace banyan::predict {

// Hears how a long simulation goes, and may end it: see stop(). Called now and then on the simulating thread.
class SimulationObserver {
 public:
  virtual ~SimulationObserver() = default;
  virtual void progress(double fraction_done, Picoseconds now) = 0;
  virtual bool stop() = 0;  // true: end now, with what is known
};

struct ScheduleSimulation {
  Picoseconds time{0};  // until the last byte is where it belongs
  bool complete = true;
  // Bytes of the elements per second, whatever is on the wire; see schedule/collective.h, busbw as in nccl-tests.
  double algbw = 0, busbw = 0;
  std::vector<double> link_bytes;      // by link of the fabric, as shares of the total: see exact_link_bytes()
  std::vector<Picoseconds> link_full;  // for how long it was a bottleneck
  uint64_t messages = 0;               // of the schedule
  uint64_t messages_simulated = 0;     // what they folded into
  Picoseconds core_busy{0};            // with a codec: the busiest core
  WindowError window;
};

struct ScheduleSimulationOptions {
  Bytes total;  // of the elements
  Bytes slice;  // as it is on the wire
  Picoseconds alpha = std::chrono::microseconds(5);
  Picoseconds window{0};
  bool fold = true;
  std::optional<CodecCost> codec = {};  // of float32
  SimulationObserver* observer = nullptr;
};

// Throws longer_than_time(). Complexity: a fluid event (fluid_network.h) for each message that is simulated.
ScheduleSimulation simulate_schedule(const Schedule& schedule, const ScheduleSimulationOptions& options);

// Error{unsupported}: simulated time ends before the last slice would arrive.
Error longer_than_time();

// Indexed by link of the fabric: the bytes that a real run carries over it. Its chunks end with whole elements, as
// Schedule::element_range says, while the simulation shares the total out to fractions of a byte. So the two differ by
// less than an element for each tree edge that crosses the link, and not at all when every chunk holds a whole number
// of elements.
// O(edges * hops of routes). The product of both numbers must fit a uint64_t.
std::vector<uint64_t> exact_link_bytes(const Schedule& schedule, uint64_t elements, uint64_t element_bytes);

}  // namespace banyan::predict
