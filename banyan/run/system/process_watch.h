// ProcessWatch: the end of processes of this host, told by the kernel.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/system/reactor.h"

namespace banyan::run {

// The start time of process `pid`, in clock ticks since the start of the host (field 22 of
// /proc/<pid>/task/<pid>/stat): with it, a process id never means two processes. Nothing when there is no such process.
std::optional<uint64_t> start_time_of(int32_t pid);

// The words behind a field of /proc/<pid>/status, such as "Uid". Empty where nothing can be read.
std::string status_of(int32_t pid, std::string_view field);

// True if process `pid` of this host, which was started then, has ended. False if the kernel lets nobody look.
bool has_ended(int32_t pid, uint64_t start_time);

// The processes that are watched. Their end is reported to the owner that the observer was made for.
class ProcessObserver {
 public:
  ProcessObserver() = default;
  ProcessObserver(const ProcessObserver&) = delete;
  ProcessObserver& operator=(const ProcessObserver&) = delete;
  virtual ~ProcessObserver() = default;
  virtual bool is_watched(uint32_t rank) const = 0;
  virtual void forget(uint32_t rank) = 0;
};

// On the reactor's thread.
class ProcessWatch final : public ProcessObserver {
 public:
  // Called once for a process, never before watch() returns.
  using Ended = std::function<void(uint32_t rank)>;

  ProcessWatch(Reactor& reactor, Ended ended) : reactor_(reactor), ended_(std::move(ended)) {}
  ~ProcessWatch() override;

  // A process that has this id but started at another time is another one, and `rank` has ended. Does nothing if the
  // kernel lets us watch no process, or there are no descriptors left: connections tell too, though later.
  void watch(uint32_t rank, int32_t pid, uint64_t start_time);
  bool is_watched(uint32_t rank) const override { return processes_.contains(rank); }
  void forget(uint32_t rank) override;

 private:
  void end(uint32_t rank);

  Reactor& reactor_;
  Ended ended_;
  std::unordered_map<uint32_t, FileDescriptor> processes_;  // by rank
  std::unordered_map<uint32_t, Reactor::Timer> endings_;    // found to have ended, to be told
};

}  // namespace banyan::run
