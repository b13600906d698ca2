#include "banyan/service/daemon/event_log.h"

#include <chrono>

#include "banyan/run/record/log.h"

namespace banyan::service {

void EventLog::note(std::string words) {
  BANYAN_LOG(info) << words;
  if (words.size() > kMostWords) words = words.substr(0, kMostWords) + "...";
  if (events_.size() == kKept) {
    events_.pop_front();
    ++dropped_;
  }
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  events_.push_back({.at = now.count(), .host = host_, .words = std::move(words)});
}

}  // namespace banyan::service
