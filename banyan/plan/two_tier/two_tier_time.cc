#include "banyan/plan/two_tier/two_tier_time.h"

#include <algorithm>
#include <vector>

#include "banyan/plan/two_tier/parcels.h"

namespace banyan::plan {
namespace {

// Bytes that ranks send and receive inside their boxes, by step.
class InsideLoads {
 public:
  InsideLoads(TwoTierShape shape, size_t steps) : shape_(shape), sent_(steps * shape.ranks()), received_(sent_) {}

  void add(size_t step, uint32_t box, uint32_t from, uint32_t to, uint64_t bytes) {
    if (from == to) return;
    const size_t first = step * shape_.ranks() + size_t{box} * shape_.gpus;
    sent_[first + from] += bytes;
    received_[first + to] += bytes;
  }

  uint64_t most(size_t step, uint32_t box) const {
    const size_t first = step * shape_.ranks() + size_t{box} * shape_.gpus;
    const auto largest = [&](const std::vector<uint64_t>& loads) {
      return *std::max_element(loads.begin() + first, loads.begin() + first + shape_.gpus);
    };
    return std::max(largest(sent_), largest(received_));
  }

 private:
  TwoTierShape shape_;
  std::vector<uint64_t> sent_, received_;
};

double over(uint64_t bytes, Bandwidth rate) {
  return static_cast<double>(bytes) / static_cast<double>(rate.bytes_per_second());
}

// Bytes that stay in their box, of the rank that sends or receives most of them.
uint64_t most_that_stays(TwoTierShape shape, std::span<const uint64_t> bytes, uint32_t box) {
  InsideLoads loads(shape, 1);
  const size_t ranks = shape.ranks(), first = size_t{box} * shape.gpus;
  for (uint32_t from = 0; from < shape.gpus; ++from)
    for (uint32_t to = 0; to < shape.gpus; ++to)
      loads.add(0, box, from, to, bytes[(first + from) * ranks + first + to]);
  return loads.most(0, box);
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
  std::vector<double> unused(shape.boxes);  // seconds in which the links of a box have nothing to do
  for (size_t step = 0; step < network.size() + 2; ++step) {
    std::vector<double> work(shape.boxes);
    for (uint32_t box = 0; box < shape.boxes; ++box) work[box] = over(inside.most(step, box), rates.inside);
    const double longest = *std::max_element(work.begin(), work.end());
    const bool is_stage = step > 0 && step <= network.size();
    const double stage = is_stage ? over(network[step - 1], rates.between) : 0;
    const double takes = std::max(stage, longest);
    time.network += stage;
    time.seconds += takes;
    (is_stage ? time.waits_inside : step == 0 ? time.first : time.last) += takes - stage;
    for (uint32_t box = 0; box < shape.boxes; ++box) unused[box] += takes - work[box];
  }
  for (uint32_t box = 0; box < shape.boxes; ++box)
    time.stays_inside =
        std::max(time.stays_inside, over(most_that_stays(shape, bytes, box), rates.inside) - unused[box]);
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
