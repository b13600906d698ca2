#include "banyan/testing/two_tier_time.h"

#include <algorithm>
#include <vector>

#include "banyan/plan/two_tier/parcels.h"

namespace banyan::plan {
namespace {

// Bytes that ranks send and receive inside their boxes, by step.
class InsideLoads {
 public:
  InsideLoads(TwoTierShape shape, size_t steps) : shape_(shape), loads_(steps * shape.boxes * 2 * shape.gpus) {}

  void add(size_t step, uint32_t box, uint32_t from, uint32_t to, uint64_t bytes) {
    if (from == to) return;
    loads_[first(step, box) + from] += bytes;
    loads_[first(step, box) + shape_.gpus + to] += bytes;
  }

  // What each GPU sends, then what each receives.
  std::span<const uint64_t> of(size_t step, uint32_t box) const {
    return {&loads_[first(step, box)], size_t{2} * shape_.gpus};
  }
  uint64_t most(size_t step, uint32_t box) const {
    const std::span<const uint64_t> loads = of(step, box);
    return *std::max_element(loads.begin(), loads.end());
  }

 private:
  size_t first(size_t step, uint32_t box) const { return (step * shape_.boxes + box) * 2 * shape_.gpus; }

  TwoTierShape shape_;
  std::vector<uint64_t> loads_;
};

double over(uint64_t bytes, Bandwidth rate) {
  return static_cast<double>(bytes) / static_cast<double>(rate.bytes_per_second());
}

// Bytes that stay in their box, as one step.
InsideLoads staying(TwoTierShape shape, std::span<const uint64_t> bytes) {
  InsideLoads loads(shape, 1);
  const size_t ranks = shape.ranks();
  for (uint32_t box = 0; box < shape.boxes; ++box)
    for (uint32_t from = 0; from < shape.gpus; ++from)
      for (uint32_t to = 0; to < shape.gpus; ++to)
        loads.add(0, box, from, to, bytes[(size_t{box} * shape.gpus + from) * ranks + size_t{box} * shape.gpus + to]);
  return loads;
}

// The largest part of `more` that fits beside `loads` in so many seconds.
double part_that_fits(std::span<const uint64_t> loads, std::span<const uint64_t> more, double seconds, Bandwidth rate) {
  double part = 1;
  for (size_t i = 0; i < loads.size(); ++i)
    if (more[i] > 0) part = std::min(part, (seconds - over(loads[i], rate)) / over(more[i], rate));
  return std::max(part, 0.0);
}

// By stage, the most that a GPU sends or receives by its NIC.
std::vector<uint64_t> network_loads(const TwoTierPlan& plan) {
  const uint32_t gpus = plan.shape().gpus;
  std::vector<uint64_t> loads;
  for (size_t stage = 0; stage < plan.stage_count(); ++stage) {
    uint64_t most = 0;
    for (const BoxSend& send : plan.stage(stage)) most = std::max(most, send.bytes);
    loads.push_back((most + gpus - 1) / gpus);
  }
  if (!plan.rest().empty()) loads.push_back((plan.rest_length() + gpus - 1) / gpus);
  return loads;
}

}  // namespace

TwoTierTime two_tier_time(const TwoTierPlan& plan, std::span<const uint64_t> bytes, TwoTierRates rates) {
  const TwoTierShape shape = plan.shape();
  const std::vector<uint64_t> network = network_loads(plan);
  InsideLoads inside(shape, network.size() + 2);
  for (uint32_t from = 0; from < shape.boxes; ++from)
    for (uint32_t to = 0; to < shape.boxes; ++to)
      if (from != to)
        for (const Parcel& parcel : parcels_of(plan, bytes, from, to)) {
          inside.add(parcel.stage, from, parcel.source, parcel.via, parcel.bytes);
          inside.add(parcel.stage + 2, to, parcel.via, parcel.target, parcel.bytes);
        }

  TwoTierTime time;
  const InsideLoads stay = staying(shape, bytes);
  std::vector<double> left(shape.boxes, 1);  // the part of what stays in a box that has found no room
  for (size_t step = 0; step < network.size() + 2; ++step) {
    double longest = 0;
    for (uint32_t box = 0; box < shape.boxes; ++box)
      longest = std::max(longest, over(inside.most(step, box), rates.inside));
    const bool is_stage = step > 0 && step <= network.size();
    const double stage = is_stage ? over(network[step - 1], rates.between) : 0;
    const double takes = std::max(stage, longest);
    time.network += stage;
    time.seconds += takes;
    (is_stage ? time.waits_inside : step == 0 ? time.first : time.last) += takes - stage;
    for (uint32_t box = 0; box < shape.boxes; ++box)
      left[box] -= part_that_fits(inside.of(step, box), stay.of(0, box), takes, rates.inside);
  }
  for (uint32_t box = 0; box < shape.boxes; ++box)
    time.stays_inside = std::max(time.stays_inside, left[box] * over(stay.most(0, box), rates.inside));
  time.seconds += time.stays_inside;
  return time;
}

double fluid_bound(TwoTierShape shape, std::span<const uint64_t> bytes, TwoTierRates rates) {
  const size_t ranks = shape.ranks();
  const double inside = static_cast<double>(rates.inside.bytes_per_second());
  const double between = static_cast<double>(rates.between.bytes_per_second());
  double bound = 0;
  const auto of_rank = [&](uint64_t stays, uint64_t leaves) {
    bound = std::max(
        {bound, static_cast<double>(stays) / inside, static_cast<double>(stays + leaves) / (inside + between)});
  };
  for (uint32_t box = 0; box < shape.boxes; ++box) {
    uint64_t box_sends = 0, box_receives = 0;
    for (size_t rank = size_t{box} * shape.gpus; rank < (size_t{box} + 1) * shape.gpus; ++rank) {
      uint64_t sent[2] = {}, received[2] = {};  // inside the box, between boxes
      for (size_t other = 0; other < ranks; ++other) {
        if (other == rank) continue;
        const size_t tier = other / shape.gpus == box ? 0 : 1;
        sent[tier] += bytes[rank * ranks + other];
        received[tier] += bytes[other * ranks + rank];
      }
      of_rank(sent[0], sent[1]);
      of_rank(received[0], received[1]);
      box_sends += sent[1];
      box_receives += received[1];
    }
    bound = std::max(bound, static_cast<double>(std::max(box_sends, box_receives)) / (shape.gpus * between));
  }
  return bound;
}

}  // namespace banyan::plan
