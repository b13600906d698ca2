#include "banyan/run/join/reminder.h"

#include "banyan/run/record/log.h"

namespace banyan::run {

void Reminder::log(const std::string& whom) {
  const auto waited = std::chrono::duration_cast<std::chrono::seconds>(Deadline::Clock::now() - begin_);
  BANYAN_LOG(warning) << "still waiting for " << whom << ", " << waited.count() << " s of " << deadline_.text();
  skip();
}

}  // namespace banyan::run
