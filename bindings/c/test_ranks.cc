#include "bindings/c/test_ranks.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "banyan/base/check.h"
#include "banyan/run/system/file_descriptor.h"

namespace banyan::c {

namespace {

// A folder for one meeting, gone afterwards.
class MeetingPlace {
 public:
  MeetingPlace() : folder_(std::filesystem::temp_directory_path() / "banyan-test-XXXXXX") {
    CHECK(mkdtemp(folder_.data()) != nullptr) << folder_;
  }
  ~MeetingPlace() { std::filesystem::remove_all(folder_); }
  std::string url() const { return "file://" + folder_ + "/meeting"; }

 private:
  std::string folder_;
};

std::string be_rank(const std::string& url, int size, int rank, const RankBody& body, const banyan_config_t* config) {
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

std::vector<std::string> run_ranks(int size, const RankBody& body, const banyan_config_t* config) {
  constexpr unsigned kLongest = 120;  // seconds; then the alarm ends the process
  const MeetingPlace place;
  std::vector<pid_t> processes;
  std::vector<FileDescriptor> pipes;
  for (int rank = 0; rank < size; ++rank) {
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0) << "pipe";
    const pid_t process = fork();
    CHECK(process >= 0) << "fork";
    if (process == 0) {
      alarm(kLongest);
      const std::string report = be_rank(place.url(), size, rank, body, config);
      const ssize_t written = write(ends[1], report.data(), report.size());
      _exit(written == static_cast<ssize_t>(report.size()) ? 0 : 1);
    }
    close(ends[1]);
    pipes.emplace_back(ends[0]);
    processes.push_back(process);
  }
  std::vector<std::string> reports;
  for (size_t rank = 0; rank < processes.size(); ++rank) {
    reports.push_back(read_all(pipes[rank].get()));
    int status = 0;
    CHECK(waitpid(processes[rank], &status, 0) == processes[rank]) << rank;
    if (WIFSIGNALED(status)) reports.back() += "killed by " + std::to_string(WTERMSIG(status));
  }
  return reports;
}

}  // namespace banyan::c
