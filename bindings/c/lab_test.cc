// Communicators over emulated clusters: links that are cut while calls are under way, and ranks that are cut off.
// Skipped by name where network namespaces are refused.
#include "lab/lab.h"

#include <banyan/banyan.h>
#include <sys/mman.h>
#include <unistd.h>

#include "banyan/fabric/read.h"
#include "banyan/run/system/child.h"
#include "banyan/testing/test.h"
#include "banyan/testing/withheld_time.h"
#include "lab/network_namespace.h"

namespace banyan::lab {
namespace {

constexpr int kForever = 100'000;  // calls

class OnLab : public ::testing::Test {
 public:
  struct Shared {
    std::atomic<uint32_t> count;
    std::atomic<bool> is_over;
    char reports[32][512];
  };

 protected:
  void SetUp() override {
    const std::string reason = why_no_lab();
    if (!reason.empty()) GTEST_SKIP() << reason;
  }
  void TearDown() override {
    ranks_.clear();
    if (!IsSkipped()) Lab::down(name_);
  }

  // Sets up the fabric, cuts these cables and starts a process for each rank, in its network. Their reports come from
  // reports().
  void start(const std::string& fabric, const std::function<std::string(banyan_comm_t, int)>& body,
             const std::vector<const char*>& cut = {}) {
    lab_ = Lab::up(name_, fabric::load_fabric({.fabric = fabric}), {});
    for (const char* cable : cut) lab_->fail(lab_->find_cable(cable));
    const auto ranks = static_cast<uint32_t>(lab_->plan().fabric().ranks().size());
    shared_ =
        static_cast<Shared*>(mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      ranks_.emplace_back([&]() -> int { be_rank(rank, body); });
    }
    counts_withheld_.emplace(withheld_);
  }

  std::vector<std::string> reports() {
    for (run::Child& rank : ranks_) rank.reap();
    std::vector<std::string> texts;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) texts.emplace_back(shared_->reports[rank]);
    ranks_.clear();
    return texts;
  }

  // All have gone round lost links so often. Links that are whole may seem lost, too, to ranks that the machine does
  // not let run.
  void expect_lost(size_t times) {
    for (const std::string& report : reports()) {
      if (withheld_ == 0) {
        EXPECT_EQ(report, "lost " + std::to_string(times));
      } else {
        ASSERT_THAT(report, StartsWith("lost "));
        EXPECT_GE(std::stoul(report.substr(5)), times) << "after " << withheld_ << " ms withheld";
      }
    }
  }

  // Until all ranks together have counted so far, or a minute has gone.
  void wait_for_count(uint32_t count) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (shared_->count < count && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(milliseconds(1));
    }
    EXPECT_GE(shared_->count, count);
  }
  // Until all have done some more calls.
  void wait_for_calls() const { wait_for_count(shared_->count + 6 * static_cast<uint32_t>(ranks_.size())); }

  // That a host has sent into a cable so far.
  uint64_t bytes_into(const std::string& host, const std::string& cable) const {
    uint64_t bytes = 0;
    std::thread([&] {
      const InNamespace inside(lab_->namespace_of(lab_->plan().fabric().at(host)));
      const std::string interface = "cable" + std::to_string(lab_->find_cable(cable)) + ":";
      std::ifstream lines("/proc/thread-self/net/dev");
      for (std::string word; lines >> word;) {
        if (word != interface) continue;
        for (int field = 0; field < 9; ++field) lines >> bytes;
      }
    }).join();
    return bytes;
  }

  Shared* shared_ = nullptr;
  std::optional<Lab> lab_;
  std::vector<run::Child> ranks_;

 private:
  [[noreturn]] void be_rank(uint32_t rank, const std::function<std::string(banyan_comm_t, int)>& body) {
    const InNamespace inside(lab_->namespace_of(lab_->plan().fabric().ranks()[rank]));
    for (const auto& [name, value] : lab_->variables(rank)) setenv(name.c_str(), value.c_str(), 1);
    setenv("BANYAN_SECRET", lab_->secret().c_str(), 1);
    banyan_config_t config = BANYAN_CONFIG_INIT;
    config.timeout = 6;
    config.join_timeout = 20;
    banyan_comm_t comm = nullptr;
    std::string report;
    if (banyan_comm_init_env(&comm, &config) != BANYAN_SUCCESS) {
      report = std::string("did not join: ") + banyan_last_error(nullptr);
    } else {
      report = body(comm, static_cast<int>(rank));
      banyan_comm_destroy(comm);
    }
    report.copy(shared_->reports[rank], sizeof shared_->reports[rank] - 1);
    _exit(0);
  }

  const std::string name_ = "c" + std::to_string(getpid());
  std::atomic<int> withheld_ = 0;  // milliseconds
  std::optional<WithheldTime> counts_withheld_;
};

// Allreduces in place and out of place, of data that depends on rank, call and position, until `calls` are done or
// somebody says that it is over. Says how often links were lost on the way.
std::string reduce_again_and_again(banyan_comm_t comm, int rank, int calls, OnLab::Shared& shared) {
  constexpr size_t kElements = 300'000;
  int size = 0;
  banyan_comm_count(comm, &size);
  std::vector<float> values(kElements), sums(kElements);
  for (int call = 0; call < calls; ++call) {
    for (size_t i = 0; i < kElements; ++i) values[i] = static_cast<float>((i + call) % 97 * (rank + 1));
    values[0] = shared.is_over ? 1 : 0;
    const bool in_place = call % 2 == 1;
    if (in_place) sums = values;
    if (banyan_all_reduce(in_place ? sums.data() : values.data(), sums.data(), kElements, BANYAN_FLOAT32, BANYAN_SUM,
                          comm, nullptr) != BANYAN_SUCCESS) {
      return std::string("call ") + std::to_string(call) + ": " + banyan_last_error(comm);
    }
    for (size_t i = 1; i < kElements; ++i) {
      const auto expected = static_cast<float>((i + call) % 97 * size * (size + 1) / 2);
      if (sums[i] != expected) return "call " + std::to_string(call) + ": wrong at " + std::to_string(i);
    }
    ++shared.count;
    if (sums[0] > 0) break;
  }
  int reroutes = 0;
  banyan_comm_get_reroutes(comm, &reroutes);
  return "lost " + std::to_string(reroutes);
}

struct Loss {
  const char* fabric;
  std::vector<const char*> cables;  // cut one after the other
};

class LostLink : public OnLab, public ::testing::WithParamInterface<Loss> {};

TEST_P(LostLink, IsWalkedRoundAndCounted) {
  constexpr int kCalls = 40;
  start(GetParam().fabric,
        [&](banyan_comm_t comm, int rank) { return reduce_again_and_again(comm, rank, kCalls, *shared_); });
  const auto ranks = static_cast<uint32_t>(ranks_.size());
  uint32_t done = 5;
  for (const char* cable : GetParam().cables) {
    wait_for_count(done * ranks);
    lab_->fail(lab_->find_cable(cable));
    done += 10;
  }
  expect_lost(GetParam().cables.size());
}

INSTANTIATE_TEST_SUITE_P(
    OnLab, LostLink,
    ::testing::Values(Loss{"a <-> b 400Mb/s; b <-> c 400Mb/s; c <-> a 400Mb/s", {"a-b"}},
                      Loss{"a <-> b 400Mb/s; b <-> c 400Mb/s; c <-> d 400Mb/s; d <-> a 400Mb/s;"
                           "a <-> c 400Mb/s",
                           {"a-b", "c-d"}},
                      Loss{"a <-> swl 400Mb/s; b <-> swl 400Mb/s; c <-> swm 400Mb/s; d <-> swm 400Mb/s;"
                           "swl <-> sws 200Mb/s; swl <-> swt 200Mb/s; swm <-> sws 200Mb/s;"
                           "swm <-> swt 200Mb/s",
                           {"swl-sws"}}));

// The planner does not know that it is, and nobody has ever been heard over it.
TEST_F(OnLab, ALinkThatWasCutBeforeIsWalkedRoundToo) {
  start("leaf-spine:leaves=2,hosts=2,spines=2@200Mb/s",
        [&](banyan_comm_t comm, int rank) { return reduce_again_and_again(comm, rank, 3, *shared_); },
        {"leaf0-spine0"});
  expect_lost(1);
}

constexpr const char* kRing = "a <-> b 400Mb/s; b <-> c 400Mb/s; c <-> d 400Mb/s; d <-> a 400Mb/s";

TEST_F(OnLab, AMendedLinkIsUsedAgain) {
  start(kRing, [&](banyan_comm_t comm, int rank) { return reduce_again_and_again(comm, rank, kForever, *shared_); });
  wait_for_calls();
  lab_->fail(lab_->find_cable("a-b"));
  wait_for_calls();
  const uint64_t before = bytes_into("a", "a-b");
  wait_for_calls();
  EXPECT_LT(bytes_into("a", "a-b") - before, 100'000u) << "plans should do without it";
  lab_->heal(lab_->find_cable("a-b"));
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (bytes_into("a", "a-b") < before + 5'000'000 && std::chrono::steady_clock::now() < end) wait_for_calls();
  EXPECT_GE(bytes_into("a", "a-b"), before + 5'000'000);
  shared_->is_over = true;
  EXPECT_THAT(reports(), Each(StartsWith("lost ")));
}

TEST_F(OnLab, ARankThatIsCutOffIsNamed) {
  start("star:4@400Mb/s", [&](banyan_comm_t comm, int rank) -> std::string {
    const auto begin = std::chrono::steady_clock::now();
    const std::string report = reduce_again_and_again(comm, rank, kForever, *shared_);
    const auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (rank == 2) return "cut off";
    return (seconds < 30 ? "in time: " : "late: ") + report;
  });
  wait_for_count(20);
  const Host& host = lab_->plan().host(lab_->plan().fabric().ranks()[2]);
  lab_->fail(host.ports[0].cable);
  const std::vector<std::string> texts = reports();
  for (const int rank : {0, 1, 3}) {
    EXPECT_THAT(texts[static_cast<size_t>(rank)], ::testing::AllOf(HasSubstr("in time"), HasSubstr("rank 2")));
  }
  EXPECT_EQ(texts[2], "cut off");
}

}  // namespace
}  // namespace banyan::lab
