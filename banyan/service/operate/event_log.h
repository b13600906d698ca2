// EventLog: what has happened on this host, for operators: the last events, in words, and how often what was
// refused.
//
// Each is written to the log of the process, too. One thread: the reactor's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "banyan/service/view/host_view.h"

namespace banyan::service {

class EventLog {
 public:
  static constexpr size_t kKept = 200;
  static constexpr size_t kMostWords = 500;  // bytes of one; the rest is cut off, as are its line breaks

  // `host`: by which people know this one.
  explicit EventLog(std::string host) : host_(std::move(host)) {}

  void record(std::string words);
  // The same, as a warning in the log: somebody has to do something about it.
  void warn(std::string words);
  std::vector<EventView> last() const { return {events_.begin(), events_.end()}; }
  uint64_t dropped() const { return dropped_; }
  // Something was refused, for such a reason.
  void count_refusal(const std::string& reason) { ++refused_[reason]; }
  const std::map<std::string, uint64_t>& refused() const { return refused_; }  // by reason

 private:
  void keep(std::string words);

  const std::string host_;
  std::deque<EventView> events_;
  uint64_t dropped_ = 0;
  std::map<std::string, uint64_t> refused_;
};

}  // namespace banyan::service
