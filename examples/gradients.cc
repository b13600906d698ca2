// Data-parallel training in small: every rank computes gradients, all add them up while the next layer is computed.
//
//   banyan run -n 4 -- ./build/examples/gradients
#include <cstdio>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/run/communicator.h"

using namespace banyan;

int main() try {
  RegionPool pool;  // memory that the other ranks of this host read directly; ordinary memory works too
  Communicator world = Communicator::join(pool, {.name = "training", .timeout = std::chrono::seconds(30)});

  constexpr size_t kLayers = 8, kWeights = 100'000;
  std::vector<float*> gradients;
  std::vector<Request> sums;
  for (size_t layer = 0; layer < kLayers; ++layer) {
    auto* const gradient = reinterpret_cast<float*>(pool.allocate(kWeights * sizeof(float)));
    for (size_t i = 0; i < kWeights; ++i) gradient[i] = static_cast<float>(world.rank() + layer + i % 5);
    auto* const bytes = reinterpret_cast<std::byte*>(gradient);
    sums.push_back(world.start({.kind = OperationKind::all_reduce,  // in place, and behind the next layer
                                .type = DataType::float32,
                                .op = ReduceOp::avg,
                                .send = bytes,
                                .recv = bytes,
                                .count = kWeights}));
    gradients.push_back(gradient);
  }
  for (size_t layer = 0; layer < kLayers; ++layer) {
    sums[layer].wait();
    const float expected = static_cast<float>(world.size() - 1) / 2 + static_cast<float>(layer) + 2;
    if (gradients[layer][2] != expected) {
      std::fprintf(stderr, "rank %u, layer %zu: got %g, expected %g\n", world.rank(), layer, gradients[layer][2],
                   expected);
      return 1;
    }
  }
  world.barrier();
  if (world.rank() == 0) std::printf("%u ranks agree on %zu layers\n", world.size(), kLayers);
  world.finalize();
  return 0;
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
