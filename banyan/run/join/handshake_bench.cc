// What a handshake costs both of its ends together, which take turns on one thread.
#include <benchmark/benchmark.h>
#include <sys/socket.h>

#include <array>

#include "banyan/base/check.h"
#include "banyan/run/join/handshake.h"

namespace banyan::run {
namespace {

using State = Handshake::State;

void shake_hands(benchmark::State& state) {
  const Secret secret = state.range(0) == 0 ? Secret() : Secret::random();
  const Greeting greeting{.purpose = "lane", .payload = std::string(64, 'p'), .from = "3", .to = "5"};
  for (auto _ : state) {
    std::array<int, 2> ends{};
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
    Handshake caller = Handshake::caller(FileDescriptor(ends[0]), secret, greeting);
    Handshake callee = Handshake::callee(FileDescriptor(ends[1]), secret, "5");
    State there = State::wants_read, here = State::wants_read;
    while (there != State::done || here != State::done) {
      there = caller.advance();
      here = callee.advance();
      CHECK(there != State::refused && here != State::refused) << caller.refusal() << callee.refusal();
    }
    benchmark::DoNotOptimize(caller.take());
    benchmark::DoNotOptimize(callee.take());
  }
  state.SetLabel(secret.is_empty() ? "no secret" : "a secret");
}

BENCHMARK(shake_hands)->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace banyan::run

BENCHMARK_MAIN();
