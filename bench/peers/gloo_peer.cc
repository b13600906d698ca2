// Gloo over TCP as a contestant: its collectives on unbound buffers, and for allreduce and reduce-scatter also the
// older algorithms on fixed buffers, which work in place and are given a copy of the input each time, as their users
// would.
//
// With --ranks N --meet FOLDER it starts N local ranks over loopback; with --meet FOLDER alone it is one rank, told by
// RANK, WORLD_SIZE and MASTER_ADDR who it is, and uses the local address from which MASTER_ADDR is reached.
#include <arpa/inet.h>
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/peers/measure.h"

namespace {

using Call = peer_call_t;

struct Library {
  int meshes = 0;  // connected so far
  gloo::rendezvous::FileStore store;
  std::shared_ptr<gloo::transport::Device> device;
  std::shared_ptr<gloo::Context> context;
  std::function<void()> prepared;  // what run() does

  Library(const peer_options_t& options, int rank, int size, const std::string& address)
      : store(options.meet),
        device(gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(address.c_str()))),
        context(connect(rank, size)) {}

  int size() const { return context->size; }

  // Collective: new connections between all ranks.
  std::shared_ptr<gloo::Context> connect(int rank, int size) {
    gloo::rendezvous::PrefixStore keys("mesh" + std::to_string(meshes++), store);
    auto result = std::make_shared<gloo::rendezvous::Context>(rank, size);
    result->connectFullMesh(keys, device);
    return result;
  }
  // For algorithms on fixed buffers. Gloo shrinks the kernel's send buffer of a connection to the size of a fixed
  // buffer, for good; what then uses the same connection for larger messages waits for delayed acknowledgements, 40 ms
  // each.
  std::shared_ptr<gloo::Context> connect_anew() { return connect(context->rank, context->size); }
};

Library& of(void* library) { return *static_cast<Library*>(library); }

// Gloo's interface takes pointers to mutable inputs, which it does not write.
float* input(const Call& call) { return const_cast<float*>(call.send); }

void run(void* library, const Call*) { of(library).prepared(); }

double max_over_ranks(void* library, double value) {
  gloo::AllreduceOptions options(of(library).context);
  options.setOutput(&value, 1);
  options.setReduceFunction(static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::max<double>));
  gloo::allreduce(options);
  return value;
}

template <gloo::AllreduceOptions::Algorithm algorithm>
void prepare_allreduce(void* library, const Call* call) {
  auto options = std::make_shared<gloo::AllreduceOptions>(of(library).context);
  options->setAlgorithm(algorithm);
  options->setInput(input(*call), call->count);
  options->setOutput(call->recv, call->count);
  options->setReduceFunction(static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
  of(library).prepared = [options] { gloo::allreduce(*options); };
}

template <template <typename> typename Algorithm>
void prepare_fixed_allreduce(void* library, const Call* call) {
  auto algorithm = std::make_shared<Algorithm<float>>(of(library).connect_anew(), std::vector{call->recv},
                                                      static_cast<int>(call->count));
  of(library).prepared = [algorithm, call = *call] {
    std::memcpy(call.recv, call.send, call.count * sizeof(float));
    algorithm->run();
  };
}

void prepare_fixed_reduce_scatter(void* library, const Call* call) {
  const auto ranks = static_cast<size_t>(of(library).size());
  auto work = std::make_shared<std::vector<float>>(ranks * call->count);
  const std::vector<int> counts(ranks, static_cast<int>(call->count));
  auto algorithm = std::make_shared<gloo::ReduceScatterHalvingDoubling<float>>(
      of(library).connect_anew(), std::vector{work->data()}, static_cast<int>(work->size()), counts);
  of(library).prepared = [algorithm, work, call = *call] {
    std::memcpy(work->data(), call.send, work->size() * sizeof(float));
    algorithm->run();
    std::memcpy(call.recv, work->data(), call.count * sizeof(float));
  };
}

template <typename Options>
auto options_of(void* library, const Call* call, size_t input_count, size_t output_count) {
  auto options = std::make_shared<Options>(of(library).context);
  options->setInput(input(*call), input_count);
  options->setOutput(call->recv, output_count);
  return options;
}

void prepare_others(void* library, const Call* call) {
  const auto ranks = static_cast<size_t>(of(library).size());
  auto& prepared = of(library).prepared;
  if (call->collective == PEER_ALLGATHER) {
    auto options = options_of<gloo::AllgatherOptions>(library, call, call->count, ranks * call->count);
    prepared = [options] { gloo::allgather(*options); };
  } else if (call->collective == PEER_ALLTOALL) {
    auto options = options_of<gloo::AlltoallOptions>(library, call, ranks * call->count, ranks * call->count);
    prepared = [options] { gloo::alltoall(*options); };
  } else if (call->collective == PEER_BROADCAST) {
    auto options = std::make_shared<gloo::BroadcastOptions>(of(library).context);
    options->setOutput(call->recv, call->count);
    options->setRoot(0);
    prepared = [options] { gloo::broadcast(*options); };
  } else if (call->collective == PEER_REDUCE) {
    auto options = options_of<gloo::ReduceOptions>(library, call, call->count, call->count);
    options->setReduceFunction(static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
    options->setRoot(0);
    prepared = [options] { gloo::reduce(*options); };
  } else {
    auto options = std::make_shared<gloo::BarrierOptions>(of(library).context);
    prepared = [options] { gloo::barrier(*options); };
  }
}

// What was prepared before goes, with its connections. Fixed buffers must exist on all ranks before the first message
// to them, and on none after the last.
template <void (*prepare)(void*, const Call*)>
void prepare_together(void* library, const Call* call) {
  max_over_ranks(library, 0);
  of(library).prepared = nullptr;
  prepare(library, call);
  max_over_ranks(library, 0);
}

contestant_t contestant(const char* name, unsigned collectives, void (*prepare)(void*, const Call*)) {
  return {.name = name,
          .collectives = collectives,
          .in_place = 0,
          .most_bytes = 0,
          .allocate = peer_private_allocate,
          .release = peer_private_release,
          .prepare = prepare,
          .run = run};
}

int run_rank(const peer_options_t& options, int rank, int size, const std::string& address) {
  Library library(options, rank, size, address);

  using Algorithm = gloo::AllreduceOptions::Algorithm;
  constexpr unsigned kAllreduce = 1U << PEER_ALLREDUCE, kReduceScatter = 1U << PEER_REDUCE_SCATTER;
  if (options.roots_change) peer_fail("gloo_peer", "what it prepares for calls has the root of the first one");
  constexpr unsigned kRootHasBlocks = 1U << PEER_GATHER | 1U << PEER_SCATTER;
  constexpr unsigned kOthers = ((1U << PEER_COLLECTIVES) - 1) & ~kAllreduce & ~kReduceScatter & ~kRootHasBlocks;
  const std::array contestants{
      contestant("gloo:ring", kAllreduce, prepare_together<prepare_allreduce<Algorithm::RING>>),
      contestant("gloo:bcube", kAllreduce, prepare_together<prepare_allreduce<Algorithm::BCUBE>>),
      contestant("gloo:halving-doubling", kAllreduce,
                 prepare_together<prepare_fixed_allreduce<gloo::AllreduceHalvingDoubling>>),
      contestant("gloo:ring-chunked", kAllreduce,
                 prepare_together<prepare_fixed_allreduce<gloo::AllreduceRingChunked>>),
      contestant("gloo:halving-doubling", kReduceScatter, prepare_together<prepare_fixed_reduce_scatter>),
      contestant("gloo", kOthers, prepare_together<prepare_others>)};
  const peer_job_t job{.library = &library,
                       .rank = rank,
                       .size = size,
                       .max_over_ranks = max_over_ranks,
                       .contestants = contestants.data(),
                       .contestant_count = static_cast<int>(contestants.size())};
  peer_measure(&options, &job);
  max_over_ranks(&library, 0);
  library.prepared = nullptr;
  return 0;
}

int guarded(const peer_options_t& options, int rank, int size, const std::string& address) {
  try {
    return run_rank(options, rank, size, address);
  } catch (const std::exception& error) {
    peer_fail("gloo_peer", error.what());
    return 1;
  }
}

int local_rank(int rank, void* argument) {
  const auto& options = *static_cast<const peer_options_t*>(argument);
  return guarded(options, rank, options.ranks, "127.0.0.1");
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) peer_fail("gloo_peer", "needs --ranks, or RANK, WORLD_SIZE and MASTER_ADDR in the environment");
  return value;
}

// The local address that the kernel takes on the way to `peer`; connecting a datagram socket sends nothing.
std::string address_towards(const std::string& peer) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(9);
  socklen_t length = sizeof address;
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  std::array<char, INET_ADDRSTRLEN> text{};
  if (socket < 0 || inet_pton(AF_INET, peer.c_str(), &address.sin_addr) != 1 ||
      connect(socket, reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
      inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size()) == nullptr) {
    peer_fail("gloo_peer", "MASTER_ADDR is not an IPv4 address that can be reached");
  }
  close(socket);
  return text.data();
}

}  // namespace

int main(int argc, char** argv) {
  peer_options_t options = peer_parse(argc, argv);
  if (options.ranks > 0) return peer_start_ranks(&options, local_rank, &options);
  if (options.meet == nullptr) peer_fail("gloo_peer", "needs --meet FOLDER");
  return guarded(options, std::stoi(environment("RANK")), std::stoi(environment("WORLD_SIZE")),
                 address_towards(environment("MASTER_ADDR")));
}
