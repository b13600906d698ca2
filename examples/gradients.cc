// Data-parallel training in small: every rank computes gradients, all add them up while the next layer is computed.
//
//   banyan run -n 4 -- ./build/examples/gradients
//
// or by torchrun, srun or mpirun, on any number of hosts.
#include <banyan/communicator.h>

#include <chrono>
#include <cstdio>
#include <vector>

int main() try {
  banyan::Communicator world = banyan::Communicator::join({.name = "training", .timeout = std::chrono::seconds(30)});
  const int rank = world.rank(), size = world.size();

  constexpr std::size_t kLayers = 8, kWeights = 100'000;
  std::vector<banyan::SharedBuffer<float>> gradients;  // that the other ranks of this host read directly
  std::vector<banyan::Request> sums;
  for (std::size_t layer = 0; layer < kLayers; ++layer) {
    banyan::SharedBuffer<float>& gradient = gradients.emplace_back(kWeights);
    for (std::size_t i = 0; i < kWeights; ++i)
      gradient[i] = static_cast<float>(rank) + static_cast<float>(layer + i % 5);
    sums.push_back(world.start().all_reduce(gradient, banyan::ReduceOp::avg));  // in place, behind the next layer
  }
  for (std::size_t layer = 0; layer < kLayers; ++layer) {
    sums[layer].wait();
    const float expected = static_cast<float>(size - 1) / 2 + static_cast<float>(layer) + 2;
    if (gradients[layer][2] != expected) {
      std::fprintf(stderr, "rank %d, layer %zu: got %g, expected %g\n", rank, layer, gradients[layer][2], expected);
      return 1;
    }
  }
  world.barrier();
  if (rank == 0) std::printf("%d ranks agree on %zu layers\n", size, kLayers);
  world.finalize();
  return 0;
} catch (const banyan::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
