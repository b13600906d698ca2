// UCX beside our own TCP, between two processes of this machine: how long there and back takes, and how much goes one
// way. What arrives is checked.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <string>

#include "banyan/base/error.h"
#include "banyan/run/system/processes.h"
#include "banyan/run/transport/lane_transport.h"
#include "banyan/run/transport/test_exchange.h"
#include "banyan/run/transport/test_sockets.h"
#include "banyan/run/transport/ucx/transport.h"

namespace banyan::run::ucx {
namespace {

using Clock = std::chrono::steady_clock;

void send_all(Transport& transport, uint32_t peer, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const size_t count = transport.write(peer, bytes, {});
    bytes = bytes.subspan(count);
    if (count == 0) transport.wait(std::chrono::seconds(10));
  }
}

void receive_all(Transport& transport, uint32_t peer, std::span<std::byte> into) {
  while (!into.empty()) {
    const size_t count = transport.read(peer, into);
    into = into.subspan(count);
    if (count == 0) transport.wait(std::chrono::seconds(10));
  }
}

// `devices`: of UCX; none: our own TCP.
std::unique_ptr<ChannelTransport> transport_over(const char* devices, MeetingPoint& place, uint32_t rank) {
  if (devices == nullptr) {
    return std::make_unique<LaneTransport>(place.connector(rank),
                                           LaneTransport::Options{.rank = rank, .ranks = 2, .path = {}});
  }
  setenv("UCX_TLS", devices, 1);
  return make_transport(place.connector(rank), {.ranks = 2});
}

// One message there and the same back, `rounds` times, after some that count for nothing.
double ping(Transport& transport, uint32_t rank, size_t size, int rounds) {
  const std::vector<std::byte> bytes = bytes_from(rank, size);
  std::vector<std::byte> into(size);
  Clock::time_point begin;
  for (int round = -rounds / 10; round < rounds; ++round) {
    if (round == 0) begin = Clock::now();
    if (rank == 0) send_all(transport, 1, bytes);
    receive_all(transport, 1 - rank, into);
    if (rank == 1) send_all(transport, 0, bytes);
  }
  const std::chrono::duration<double> took = Clock::now() - begin;
  if (count_wrong(1 - rank, into) > 0) throw Error(ErrorCode::io, "wrong bytes arrived");
  return took.count() / rounds / 2;
}

// Pieces of this size, one way, with a word back when all have arrived.
double pour(Transport& transport, uint32_t rank, size_t size, int rounds) {
  const std::vector<std::byte> bytes = bytes_from(0, size);
  std::vector<std::byte> into(size);
  ping(transport, rank, 8, 10);
  const Clock::time_point begin = Clock::now();
  for (int round = 0; round < rounds; ++round)
    rank == 0 ? send_all(transport, 1, bytes) : receive_all(transport, 0, into);
  if (rank == 1 && count_wrong(0, into) > 0) throw Error(ErrorCode::io, "wrong bytes arrived");
  ping(transport, rank, 8, 1);
  return std::chrono::duration<double>(Clock::now() - begin).count() / rounds;
}

using Measure = double (*)(Transport& transport, uint32_t rank, size_t size, int rounds);

void run(benchmark::State& state, const char* devices, Measure measure) {
  const auto size = static_cast<size_t>(state.range(0));
  const int rounds = size < (size_t{1} << 16) ? 2000 : 200;
  for (auto _ : state) {
    MeetingPoint place(2);
    try {
      const auto seconds = run_processes(2, std::chrono::seconds(60), [&](uint32_t rank) {
        return std::to_string(measure(*transport_over(devices, place, rank), rank, size, rounds) * 1e6);
      });
      state.SetIterationTime(std::stod(seconds[0]) / 1e6);
    } catch (const Error& error) {
      return state.SkipWithError(error.what());
    }
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void pings(benchmark::internal::Benchmark* bench) {
  bench->Arg(8)->Arg(4096)->UseManualTime()->Iterations(5)->Unit(benchmark::kMicrosecond);
}
void pours(benchmark::internal::Benchmark* bench) {
  bench->Arg(64 << 10)->Arg(1 << 20)->UseManualTime()->Iterations(5)->Unit(benchmark::kMicrosecond);
}

constexpr const char* kTcp = "tcp,self";
constexpr const char* kShared = "posix,sysv,cma,self";
BENCHMARK_CAPTURE(run, ping_own_tcp, nullptr, ping)->Apply(pings);
BENCHMARK_CAPTURE(run, ping_ucx_tcp, kTcp, ping)->Apply(pings);
BENCHMARK_CAPTURE(run, ping_ucx_shm, kShared, ping)->Apply(pings);
BENCHMARK_CAPTURE(run, pour_own_tcp, nullptr, pour)->Apply(pours);
BENCHMARK_CAPTURE(run, pour_ucx_tcp, kTcp, pour)->Apply(pours);
BENCHMARK_CAPTURE(run, pour_ucx_shm, kShared, pour)->Apply(pours);

}  // namespace
}  // namespace banyan::run::ucx

BENCHMARK_MAIN();
