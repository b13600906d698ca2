// The end of a backward pass whose gradients are reduced bucket by bucket: the model in which choices of codecs are
// searched, since it answers in microseconds. Its choices are simulated as a job before anybody believes them.
//
// Buckets in the order in which the backward pass makes them. An *option* is what may become of a bucket: a row of
// stages, each of which takes a resource for itself for a time that is linear in the bucket's bytes: the links of a
// level (inside boxes, between them), a coder beside the backward pass, or the backward pass itself, whose thread or
// stream then comes later to all that follows. A resource serves what comes first. So a bucket that is encoded, reduced
// and decoded has three stages, and one that is reduced as it is has one.
//
// This is the evaluator F of Espresso (Wang et al., EuroSys 2023, section 4.2), where resources are GPU, CPU, and links
// inside and between machines. Departures: resources are any number, and each serves in the order of arrival.
//
// Pure. Seconds and bytes of gradients.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace banyan::predict {

struct GradientBucket {
  double bytes = 0;
  double backward = 0;  // seconds of the backward pass from the bucket before until this one is there
};

// Only the first stages of an option may be of the backward pass.
constexpr uint32_t kBackwardPass = 0;

struct BucketStage {
  uint32_t resource = 1;
  double fixed = 0, per_byte = 0;

  double seconds(double bytes) const { return fixed + per_byte * bytes; }
};

struct BucketOption {
  std::string name;
  std::vector<BucketStage> stages = {};
  // Further time of the backward pass, which holds up what follows and not the bucket itself: work that is done beside
  // the backward pass with the same cores.
  BucketStage aside = {.resource = kBackwardPass};
};

struct BucketWalk {
  double seconds = 0;                // until the backward pass and all buckets are done
  std::vector<double> begin = {};    // by bucket: when it is there, and encoded where that is the backward pass's
  std::vector<double> end = {};      // by bucket
  std::vector<bool> is_hidden = {};  // by bucket: it leaves what decides the end before that is idle the last time
};

// `choice` by bucket: an option. O(stages log buckets).
BucketWalk walk_buckets(std::span<const GradientBucket> buckets, std::span<const BucketOption> options,
                        std::span<const uint32_t> choice);

}  // namespace banyan::predict
