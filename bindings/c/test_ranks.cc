#include "bindings/c/test_ranks.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "banyan/base/check.h"
#include "banyan/run/system/file_descriptor.h"

namespace banyan::c {

namespace {

// With BANYAN_TEST_HOSTS=2, ranks behave as if every second one were on another host.
void move_to_host(int rank) {
  const char* const hosts = std::getenv("BANYAN_TEST_HOSTS");
  if (hosts == nullptr) return;
  setenv("BANYAN_HOST_ID", ("host" + std::to_string(rank % std::atoi(hosts))).c_str(), 1);
}

std::string be_rank(const std::string& url, int size, int rank, const RankBody& body, const banyan_config_t* config) {
  move_to_host(rank);
  banyan_comm_t comm = nullptr;
  if (banyan_comm_init_url(&comm, url.c_str(), size, rank, config) != BANYAN_SUCCESS) {
    return std::string("joining: ") + banyan_last_error(nullptr);
  }
  std::string report = body(comm, rank);
  if (banyan_comm_destroy(comm) != BANYAN_SUCCESS) report += std::string(" leaving: ") + banyan_last_error(nullptr);
  return report;
}

std::string read_all(int fd) {
  std::string text;
  char buffer[4096];
  ssize_t count;
  while ((count = read(fd, buffer, sizeof buffer)) > 0) text.append(buffer, static_cast<size_t>(count));
  return text;
}

}  // namespace

MeetingPlace::MeetingPlace() : folder_(std::filesystem::temp_directory_path() / "banyan-test-XXXXXX") {
  CHECK(mkdtemp(folder_.data()) != nullptr) << folder_;
}

MeetingPlace::~MeetingPlace() { std::filesystem::remove_all(folder_); }

std::vector<std::string> run_processes(int count, const ProcessBody& body) {
  constexpr unsigned kLongest = 120;  // seconds; then the alarm ends the process
  std::vector<pid_t> processes;
  std::vector<run::FileDescriptor> pipes;
  for (int number = 0; number < count; ++number) {
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0) << "pipe";
    const pid_t process = fork();
    CHECK(process >= 0) << "fork";
    if (process == 0) {
      alarm(kLongest);
      const std::string report = body(number);
      const ssize_t written = write(ends[1], report.data(), report.size());
      _exit(written == static_cast<ssize_t>(report.size()) ? 0 : 1);
    }
    close(ends[1]);
    pipes.emplace_back(ends[0]);
    processes.push_back(process);
  }
  std::vector<std::string> reports;
  for (size_t number = 0; number < processes.size(); ++number) {
    reports.push_back(read_all(pipes[number].get()));
    int status = 0;
    CHECK(waitpid(processes[number], &status, 0) == processes[number]) << number;
    if (WIFSIGNALED(status)) reports.back() += "killed by " + std::to_string(WTERMSIG(status));
  }
  return reports;
}

std::vector<std::string> run_ranks(int size, const RankBody& body, const banyan_config_t* config) {
  const MeetingPlace place;
  return run_processes(size, [&](int rank) { return be_rank(place.url(), size, rank, body, config); });
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

}  // namespace banyan::c
