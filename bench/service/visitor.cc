// visitor: how long it takes to attach to two daemons, to open a communicator between them and to make its first call,
// for bench/service/isolation.py. It does so again and again, by the code of the client, and writes a line each time: when it
// was done, in seconds of the clock of this machine, and how long it took.
//
//   visitor --first a.sock --second b.sock --begin 1790000000.5 --seconds 5 > visits
//
// Exit status 1: something failed, or a sum was wrong.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include "banyan/base/error.h"
#include "banyan/run/call/call.h"
#include "banyan/run/system/watch.h"
#include "banyan/service/client/service_executor.h"

namespace {

using banyan::run::Call;
using banyan::run::Deadline;
using banyan::service::Attachment;
using banyan::service::OpenSession;
using banyan::service::ServiceExecutor;

constexpr std::chrono::seconds kPatience{30};

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

class PatientWatch : public banyan::run::Watch {
 public:
  void waiting_for(uint32_t rank) override {
    if (deadline_.has_passed()) {
      throw banyan::Error(banyan::ErrorCode::timed_out, "rank " + std::to_string(rank) + " does not come");
    }
  }

 private:
  const Deadline deadline_ = Deadline::after(kPatience);
};

// Whether the sum was right.
bool visit(const std::string& first, const std::string& second) {
  banyan::run::RegionPool pools[2];
  const std::shared_ptr<Attachment> ends[] = {Attachment::to("unix:" + first, pools[0], Deadline::after(kPatience)),
                                              Attachment::to("unix:" + second, pools[1], Deadline::after(kPatience))};
  std::unique_ptr<ServiceExecutor> ranks[2];
  float values[] = {1, 2}, sums[] = {0, 0};
  for (uint32_t rank = 0; rank < 2; ++rank) {
    OpenSession wish;
    wish.capability = ends[0]->capability();
    wish.name = "visit";
    wish.rank = rank;
    wish.members = {0, 1};
    wish.job_size = 2;
    wish.hosts = {ends[0]->host(), ends[1]->host()};
    wish.host_of_rank = {0, 1};
    wish.timeout = wish.join_timeout = 30'000;
    ranks[rank] = std::make_unique<ServiceExecutor>(
        ends[rank], std::move(wish), ServiceExecutor::Options{.rank = rank, .size = 2, .is_oversubscribed = true},
        Deadline::after(kPatience));
  }
  for (uint32_t rank = 0; rank < 2; ++rank) {
    const Call call{.kind = banyan::run::OperationKind::all_reduce,
                    .type = banyan::element::DataType::float32,
                    .send = reinterpret_cast<const std::byte*>(&values[rank]),
                    .recv = reinterpret_cast<std::byte*>(&sums[rank]),
                    .count = 1};
    ranks[rank]->start(call, numbers_of(call));
  }
  for (auto& rank : ranks) {
    PatientWatch watch;
    rank->finish(watch);
  }
  return sums[0] == 3 && sums[1] == 3;
}

}  // namespace

int main(int count, char** arguments) {
  std::string first, second;
  double begin = 0, seconds = 10;
  CLI::App app("Attaches, opens a communicator and calls, again and again; for bench/service.");
  app.add_option("--first", first, "socket of a daemon")->required();
  app.add_option("--second", second, "socket of another")->required();
  app.add_option("--begin", begin, "when to begin, in seconds since 1970");
  app.add_option("--seconds", seconds, "how long to go on");
  CLI11_PARSE(app, count, arguments);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::this_thread::sleep_for(std::chrono::duration<double>(std::max(0.0, begin - seconds_now())));
  try {
    while (seconds_now() < begin + seconds) {
      const double then = seconds_now();
      if (!visit(first, second)) {
        std::fprintf(stderr, "a sum is wrong\n");
        return 1;
      }
      const double now = seconds_now();
      std::printf("%.6f %.6f\n", now, now - then);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  } catch (const banyan::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
