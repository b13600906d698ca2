#include "bindings/c/test_ranks.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/run/system/child.h"

namespace banyan::c {

namespace {

std::string host_of(int rank) { return "host" + std::to_string(rank % std::atoi(std::getenv("BANYAN_TEST_HOSTS"))); }

// With BANYAN_TEST_HOSTS=2, ranks behave as if every second one were on another host.
void move_to_host(int rank) {
  if (std::getenv("BANYAN_TEST_HOSTS") != nullptr) setenv("BANYAN_HOST_ID", host_of(rank).c_str(), 1);
}

// With BANYAN_TEST_SERVICE, a path of banyand, each of these hosts has a daemon, which carries out what goes between
// them.
class Daemons {
 public:
  explicit Daemons(const std::string& folder) : folder_(folder) {
    const char* const program = std::getenv("BANYAN_TEST_SERVICE");
    if (program == nullptr) return;
    const int hosts = std::atoi(std::getenv("BANYAN_TEST_HOSTS"));
    for (int host = 0; host < hosts; ++host) start(program, host);
    for (int host = 0; host < hosts; ++host) await(host);
  }
  ~Daemons() {
    for (const run::Child& daemon : daemons_) daemon.send(SIGTERM);
    for (run::Child& daemon : daemons_) daemon.reap();
  }
  Daemons(const Daemons&) = delete;
  Daemons& operator=(const Daemons&) = delete;

  // For a rank, in its process.
  void use(int rank) const {
    if (daemons_.empty()) return;
    setenv("BANYAN_SERVICE", ("unix:" + socket_of(rank % static_cast<int>(daemons_.size()))).c_str(), 1);
  }

 private:
  std::string socket_of(int host) const { return folder_ + "/service" + std::to_string(host); }
  void start(const char* program, int host) {
    const std::string socket = socket_of(host), world = "file://" + folder_ + "/service_world";
    daemons_.push_back(run::Child({.words = {program, "--socket", socket, "--world", world, "--crowded"},
                                   .variables = {{"BANYAN_HOST_ID", host_of(host)}},
                                   .output = run::Program::kNothing}));
  }
  void await(int host) const {
    const std::string socket = socket_of(host);
    while (!std::filesystem::exists(socket)) {
      CHECK(!daemons_[static_cast<size_t>(host)].has_ended()) << socket << " was never there";
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  const std::string folder_;
  std::vector<run::Child> daemons_;
};

std::string report_of(const std::function<std::string()>& body) {
  try {
    return body();
  } catch (...) {
    return current_error().what();
  }
}

std::string be_rank(const std::string& url, int size, int rank, const RankBody& body, const banyan_config_t* config) {
  move_to_host(rank);
  banyan_comm_t comm = nullptr;
  if (banyan_comm_init_url(&comm, url.c_str(), size, rank, config) != BANYAN_SUCCESS) {
    return std::string("joining: ") + banyan_last_error(nullptr);
  }
  std::string report = report_of([&] { return body(comm, rank); });
  if (banyan_comm_destroy(comm) != BANYAN_SUCCESS) report += std::string(" leaving: ") + banyan_last_error(nullptr);
  return report;
}

}  // namespace

MeetingPlace::MeetingPlace() : folder_(std::filesystem::temp_directory_path() / "banyan-test-XXXXXX") {
  CHECK(mkdtemp(folder_.data()) != nullptr) << folder_;
}

MeetingPlace::~MeetingPlace() { std::filesystem::remove_all(folder_); }

std::vector<std::string> run_processes(int count, const ProcessBody& body) {
  constexpr unsigned kLongest = 120;  // seconds; then the alarm ends the process
  std::vector<run::ReportingChild> processes;
  for (int number = 0; number < count; ++number) {
    processes.emplace_back([&] {
      alarm(kLongest);
      return report_of([&] { return body(number); });
    });
  }
  std::vector<std::string> reports;
  for (run::ReportingChild& each : processes) {
    reports.push_back(each.read_all());
    const int status = each.process().reap();
    if (WIFSIGNALED(status)) reports.back() += "killed by " + std::to_string(WTERMSIG(status));
  }
  return reports;
}

std::vector<std::string> run_ranks(int size, const RankBody& body, const banyan_config_t* config) {
  const MeetingPlace place;
  const Daemons daemons(place.folder());
  return run_processes(size, [&](int rank) {
    daemons.use(rank);
    return be_rank(place.url(), size, rank, body, config);
  });
}

void require(banyan_result_t result) {
  if (result != BANYAN_SUCCESS) throw std::runtime_error(banyan_last_error(nullptr));
}

uint64_t setting(const char* variable, uint64_t usual) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : usual;
}

std::string sum_of_ranks(banyan_comm_t comm) {
  int rank = 0;
  banyan_comm_user_rank(comm, &rank);
  int32_t sum = rank + 1;
  const banyan_result_t result = banyan_all_reduce(&sum, &sum, 1, BANYAN_INT32, BANYAN_SUM, comm, nullptr);
  return result == BANYAN_SUCCESS ? std::to_string(sum) : banyan_last_error(comm);
}

std::atomic<int>& shared_counter() {
  return *new (mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
      std::atomic<int>(0);
}

void wait_until(const std::atomic<int>& counter, int value) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (counter < value && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void kill_once_known(const std::atomic<int>& process) {
  wait_until(process, 1);
  CHECK(process > 0) << "nobody has said whom to kill";
  kill(process, SIGKILL);
}

}  // namespace banyan::c
