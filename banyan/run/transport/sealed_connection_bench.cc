// What seals cost: one message of each size after the other, from one process of this machine to another by TCP over
// the loopback, by one connection or by eight in turn; plain, authenticated, encrypted, and as records of TLS.
// Counters: bytes per second, and nanoseconds of processor time that each end spends on a byte, the kernel's included.
#include <benchmark/benchmark.h>
#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/run/system/back_off.h"
#include "banyan/run/system/processes.h"
#include "banyan/run/transport/sealed_connection.h"
#include "banyan/run/transport/tcp_connection.h"
#include "banyan/run/transport/test_exchange.h"
#include "banyan/run/transport/test_sockets.h"
#include "banyan/run/transport/tls_connection_bench.h"

namespace banyan::run {
namespace {

using Clock = std::chrono::steady_clock;

enum Way : int64_t { kPlain, kAuthenticated, kEncrypted, kTls };

// As a thread does that drives calls (BackOff): it looks again for a while before it sleeps.
void wait_for(Connection& connection, BackOff& back_off) {
  if (back_off.pause()) return;
  const short events = connection.before_sleep();
  if (events == 0 || events == Connection::kNoSleep) return;
  pollfd polled{.fd = connection.fd(), .events = events, .revents = 0};
  poll(&polled, 1, 10'000);
  connection.after_sleep();
  back_off.slept();
}

std::unique_ptr<Connection> connection_of(MeetingPoint& place, uint32_t rank, Way way) {
  auto tcp = std::make_unique<TcpConnection>(1 - rank, std::move(place.connect(rank)[1 - rank]));
  if (way == kPlain) return tcp;
  if (way == kTls) {
    auto tls = std::make_unique<TlsConnection>(rank, std::move(tcp));
    while (!tls->shake_hands()) std::this_thread::yield();
    return tls;
  }
  const std::string there(kSessionKeySize, 't'), back(kSessionKeySize, 'b');
  const SessionKeys keys{.sending = rank == 0 ? there : back, .receiving = rank == 0 ? back : there};
  return std::make_unique<SealedConnection>(1 - rank, std::move(tcp), keys,
                                            way == kEncrypted ? Sealing::encrypted : Sealing::authenticated);
}

double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// "<seconds> <seconds of processor time>"
std::string carry(const std::vector<std::unique_ptr<Connection>>& connections, uint32_t rank, size_t size,
                  size_t rounds) {
  const std::vector<std::byte> bytes = bytes_from(0, size);
  std::vector<std::byte> into(size);
  BackOff back_off(false, BackOff::Look::dear);
  Clock::time_point begin = Clock::now();
  double cpu = cpu_seconds();
  for (size_t round = 0; round <= rounds; ++round) {
    Connection& connection = *connections[round % connections.size()];
    if (round == 1) {  // the first one counts for nothing
      begin = Clock::now();
      cpu = cpu_seconds();
    }
    for (size_t done = 0; done < size;) {
      const size_t count = rank == 0 ? connection.write({}, std::span(bytes).subspan(done))
                                     : connection.read(std::span(into).subspan(done));
      done += count;
      if (count > 0) back_off.end();
      if (count == 0) wait_for(connection, back_off);
    }
  }
  for (const auto& connection : connections) {
    while (rank == 0 && connection->has_unsent()) wait_for(*connection, back_off);
  }
  const std::chrono::duration<double> took = Clock::now() - begin;
  cpu = cpu_seconds() - cpu;
  if (rank == 1 && count_wrong(0, into) > 0) throw Error(ErrorCode::io, "wrong bytes arrived");
  return std::to_string(took.count()) + " " + std::to_string(cpu);
}

void stream(benchmark::State& state) {
  const auto size = static_cast<size_t>(state.range(0));
  const auto way = static_cast<Way>(state.range(1));
  const auto links = static_cast<size_t>(state.range(2));
  constexpr size_t kBytes = size_t{1} << 30, kMessages = 400'000;
  const size_t rounds = std::min(kBytes / size, kMessages);
  double cpu[2] = {0, 0}, all = 0, bytes = 0;
  for (auto _ : state) {
    std::deque<MeetingPoint> places;
    while (places.size() < links) places.emplace_back(2);
    const auto reports = run_processes(2, std::chrono::minutes(5), [&](uint32_t rank) {
      std::vector<std::unique_ptr<Connection>> connections;
      for (MeetingPoint& place : places) connections.push_back(connection_of(place, rank, way));
      return carry(connections, rank, size, rounds);
    });
    double took = 0;
    for (const uint32_t rank : {0, 1}) {
      double used = 0;
      if (std::sscanf(reports[rank].c_str(), "%lf %lf", &took, &used) != 2) throw Error(ErrorCode::io, reports[rank]);
      cpu[rank] += used;
    }
    state.SetIterationTime(took);
    all += took;
    bytes += static_cast<double>(size * rounds);
  }
  state.counters["B/s"] = bytes / all;
  state.counters["sender ns/B"] = 1e9 * cpu[0] / bytes;
  state.counters["receiver ns/B"] = 1e9 * cpu[1] / bytes;
  state.counters["messages/s"] = bytes / all / static_cast<double>(size);
  constexpr std::array kNames{"plain", "auth", "full", "tls"};
  state.SetLabel(std::string(kNames.at(way)) + " on " + std::to_string(links));
}

BENCHMARK(stream)
    ->ArgsProduct({{4, 4 << 10, 64 << 10, 4 << 20, 64 << 20, 256 << 20},
                   {kPlain, kAuthenticated, kEncrypted, kTls},
                   {1, 8}})
    ->UseManualTime()
    ->Iterations(1)
    ->Repetitions(7)
    ->ReportAggregatesOnly(false);

}  // namespace
}  // namespace banyan::run

BENCHMARK_MAIN();
