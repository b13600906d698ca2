// Ranks for tests: forked processes that have joined a communicator by a folder of their own.
#pragma once

#include <banyan/banyan.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace banyan::c {

// A folder for one meeting, gone afterwards.
class MeetingPlace {
 public:
  MeetingPlace();
  ~MeetingPlace();
  MeetingPlace(const MeetingPlace&) = delete;
  MeetingPlace& operator=(const MeetingPlace&) = delete;
  const std::string& folder() const { return folder_; }
  std::string url() const { return "file://" + folder_ + "/meeting"; }

 private:
  std::string folder_;
};

// Runs the body in `count` processes at once and returns what each of them returned, or "killed by 9". One that lasts
// longer than two minutes is ended by its alarm clock, unless it sets that itself. An exception gives its text.
using ProcessBody = std::function<std::string(int number)>;
std::vector<std::string> run_processes(int count, const ProcessBody& body);

// The same in processes that have joined. After the body the communicator is destroyed.
using RankBody = std::function<std::string(banyan_comm_t, int rank)>;
std::vector<std::string> run_ranks(int size, const RankBody& body, const banyan_config_t* config = nullptr);

// For the bodies. Ends the body with the text of this thread's last error unless the result is a success.
void require(banyan_result_t result);
// The sum of rank + 1 by an allreduce, or the error.
std::string sum_of_ranks(banyan_comm_t comm);

// The number that a variable of the environment holds, say of runs, or what is usual.
uint64_t setting(const char* variable, uint64_t usual);

// In memory that processes started later share; zero.
std::atomic<int>& shared_counter();
// A minute at most, so that no process stays behind.
void wait_until(const std::atomic<int>& counter, int value);
// Kills the process whose number comes to stand there. (0 would mean the whole process group, the test runner in it.)
void kill_once_known(const std::atomic<int>& process);

}  // namespace banyan::c
