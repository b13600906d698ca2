#include "banyan/predict/codes/bucket_walk.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>

#include "banyan/base/check.h"

namespace banyan::predict {
namespace {

// What a resource has served since it was last idle.
struct Resource {
  double free_at = 0;
  double idle_from = 0;  // its last idle time began then; what ended there by then is hidden
};

}  // namespace

BucketWalk walk_buckets(std::span<const GradientBucket> buckets, std::span<const BucketOption> options,
                        std::span<const uint32_t> choice) {
  CHECK_EQ(buckets.size(), choice.size());
  BucketWalk walk;
  walk.end.resize(buckets.size());
  using Arrival = std::tuple<double, size_t, size_t>;  // when, bucket, stage
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> arrivals;
  double now = 0;
  for (size_t bucket = 0; bucket < buckets.size(); ++bucket) {
    now += buckets[bucket].backward;
    const std::vector<BucketStage>& stages = options[choice[bucket]].stages;
    size_t stage = 0;
    for (; stage < stages.size() && stages[stage].resource == kBackwardPass; ++stage) {
      now += stages[stage].seconds(buckets[bucket].bytes);
    }
    walk.begin.push_back(now);
    walk.end[bucket] = now;
    if (stage < stages.size()) arrivals.emplace(now, bucket, stage);
    now += options[choice[bucket]].aside.seconds(buckets[bucket].bytes);
  }
  walk.seconds = now;
  uint32_t last = kBackwardPass;  // what ends last
  std::vector<Resource> resources;
  std::vector<std::tuple<uint32_t, size_t, double>> served;  // resource, bucket, end
  while (!arrivals.empty()) {
    const auto [time, bucket, number] = arrivals.top();
    arrivals.pop();
    const BucketStage& stage = options[choice[bucket]].stages[number];
    CHECK(stage.resource != kBackwardPass) << options[choice[bucket]].name;
    if (stage.resource >= resources.size()) resources.resize(stage.resource + 1);
    Resource& resource = resources[stage.resource];
    if (time > resource.free_at) resource.idle_from = resource.free_at;
    resource.free_at = std::max(time, resource.free_at) + stage.seconds(buckets[bucket].bytes);
    served.emplace_back(stage.resource, bucket, resource.free_at);
    walk.end[bucket] = resource.free_at;
    if (number + 1 < options[choice[bucket]].stages.size()) arrivals.emplace(resource.free_at, bucket, number + 1);
    if (resource.free_at >= walk.seconds) {
      walk.seconds = resource.free_at;
      last = stage.resource;
    }
  }
  walk.is_hidden.assign(buckets.size(), last == kBackwardPass);
  for (const auto& [resource, bucket, end] : served) {
    if (resource == last && end <= resources[last].idle_from) walk.is_hidden[bucket] = true;
  }
  return walk;
}

}  // namespace banyan::predict
