#include "banyan/service/client/service_link.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/run/record/log.h"

namespace banyan::service {
namespace {

using std::chrono::milliseconds;

// Between two looks for a daemon. A look is two system calls where nobody listens.
constexpr milliseconds kFirstPause{2}, kLongestPause{50};
// That a daemon is given to answer, when it listens; then it is called anew, since it may have been killed meanwhile
// where a supervisor keeps its socket open.
constexpr milliseconds kAnswerTime{5000};

// That a look for a daemon to show records to may take.
constexpr milliseconds kLookTime{100};

bool may_pass(const Error& error) {
  return error.code() == ErrorCode::not_found || error.code() == ErrorCode::peer_lost ||
         error.code() == ErrorCode::timed_out;
}

}  // namespace

ServiceLink::ServiceLink(std::string url, run::RegionPool& pool, const run::Deadline& deadline)
    : url_(std::move(url)),
      pool_(pool),
      attachment_(Attachment::to(url_, pool_, deadline)),
      host_(attachment_->host()),
      capability_(attachment_->capability()),
      records_([this] { return attachment(run::Deadline::after(kLookTime)); }) {}

Capability ServiceLink::new_capability() {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(has_given_capability_, true)) return capability_;
  return random_bits<Capability>();
}

std::shared_ptr<Attachment> ServiceLink::attachment(const run::Deadline& deadline) {
  if (fork_guard_.is_in_child()) {
    throw Error(ErrorCode::unsupported, "this process was forked from one that had attached to the service (" + url_ +
                                            "); it has to join anew");
  }
  for (milliseconds pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    if (std::shared_ptr<Attachment> attachment = try_attaching(deadline)) return attachment;
    if (deadline.has_passed()) {
      throw Error(ErrorCode::timed_out,
                  "the service has gone (" + url_ + "), and has not come back within " + deadline.text());
    }
    std::this_thread::sleep_for(std::min(pause, deadline.next_sleep()));
  }
}

// Null when nobody listens, or nobody answers for a while.
std::shared_ptr<Attachment> ServiceLink::try_attaching(const run::Deadline& deadline) {
  const std::lock_guard lock(mutex_);
  if (!attachment_->has_gone() && !attachment_->is_succeeded()) return attachment_;
  std::shared_ptr<Attachment> next;
  try {
    next = Attachment::to(url_, pool_, deadline.within(kAnswerTime));
  } catch (const Error& error) {
    if (!may_pass(error)) throw;
    return nullptr;
  }
  if (next->host() != host_) {
    has_moved_ = true;
    throw Error(ErrorCode::mismatch, "the service at " + url_ + " has come back as that of host " +
                                         in_quotes(next->host()) + ", and was that of " + in_quotes(host_) +
                                         ": the processes of the job have to join anew");
  }
  BANYAN_LOG(info) << "the service has " << (attachment_->has_gone() ? "come back" : "a newer daemon") << " (" << url_
                   << ")";
  attachment_ = std::move(next);
  return attachment_;
}

}  // namespace banyan::service
