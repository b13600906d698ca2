#include "bindings/c/test_ranks.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
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
    for (const pid_t daemon : daemons_) kill(daemon, SIGTERM);
    for (const pid_t daemon : daemons_) waitpid(daemon, nullptr, 0);
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
    const pid_t daemon = fork();
    CHECK(daemon >= 0) << "fork";
    if (daemon == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      move_to_host(host);
      const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
      dup2(nowhere, STDOUT_FILENO);
      execl(program, program, "--socket", socket.c_str(), "--world", world.c_str(), "--crowded", nullptr);
      _exit(127);
    }
    daemons_.push_back(daemon);
  }
  void await(int host) const {
    const std::string socket = socket_of(host);
    while (!std::filesystem::exists(socket)) {
      CHECK(waitpid(daemons_[static_cast<size_t>(host)], nullptr, WNOHANG) == 0) << socket << " was never there";
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  const std::string folder_;
  std::vector<pid_t> daemons_;
};

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
  const Daemons daemons(place.folder());
  return run_processes(size, [&](int rank) {
    daemons.use(rank);
    return be_rank(place.url(), size, rank, body, config);
  });
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
