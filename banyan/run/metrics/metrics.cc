#include "banyan/run/metrics/metrics.h"

#include <prometheus/exposer.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>

#include "banyan/base/error.h"
#include "banyan/base/file.h"
#include "banyan/run/communicator/statistics.h"
#include "banyan/run/metrics/page.h"
#include "banyan/run/metrics/target.h"
#include "banyan/run/record/log.h"
#include "banyan/run/system/fork_guard.h"

namespace banyan::run {
namespace {

constexpr std::chrono::seconds kBetweenFiles{5};

// While threads are started here: they handle no signal of the program. And the server ignores SIGPIPE for the whole
// process, which is not its business: its threads hold the signal back anyway.
class SignalsAside {
 public:
  SignalsAside() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
    sigaction(SIGPIPE, nullptr, &pipe_);
  }
  ~SignalsAside() {
    sigaction(SIGPIPE, &pipe_, nullptr);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SignalsAside(const SignalsAside&) = delete;
  SignalsAside& operator=(const SignalsAside&) = delete;

 private:
  sigset_t before_;
  struct sigaction pipe_ {};
};

// Shows the page of one process; never freed, since its threads run until the process ends.
class Shown {
 public:
  Shown(const MetricsTarget& target, const JobPlace& place) {
    const SignalsAside signals;
    if (target.is_port()) {
      serve(target.endpoint(place));
    } else {
      path_ = target.file(place);
      std::thread([this] { keep_writing(); }).detach();
    }
  }

  bool is_of_this_process() const { return !fork_guard_.is_in_child(); }

  // At the end of communicators, and of the process. A file that cannot be written is told of once.
  void write() {
    if (path_.empty()) return;
    const std::lock_guard lock(mutex_);
    try {
      write_file(path_, page_->text());
      has_warned_ = false;
    } catch (const std::exception& error) {
      if (!has_warned_) BANYAN_LOG(warning) << "BANYAN_METRICS: the metrics cannot be written: " << error.what();
      has_warned_ = true;
    }
  }

 private:
  void serve(const std::string& endpoint) {
    constexpr size_t kThreads = 2;
    try {
      server_ = std::make_unique<prometheus::Exposer>(endpoint, kThreads);
      server_->RegisterCollectable(page_);
      BANYAN_LOG(info) << "metrics at http://" << endpoint << "/metrics";
    } catch (const std::exception&) {
      BANYAN_LOG(warning) << "BANYAN_METRICS: cannot listen on " << endpoint
                          << ", so there are no metrics of this rank: another process has this port, or the address "
                             "is not of this host";
    }
  }

  [[noreturn]] void keep_writing() {
    for (;;) {
      write();
      std::this_thread::sleep_for(kBetweenFiles);
    }
  }

  const ForkGuard fork_guard_;
  const std::shared_ptr<MetricsPage> page_ = std::make_shared<MetricsPage>();
  std::unique_ptr<prometheus::Exposer> server_;
  std::string path_;  // empty: by HTTP
  std::mutex mutex_;  // held while the file is written
  bool has_warned_ = false;
};

std::atomic<Shown*> shown{nullptr};

void write_at_end() {
  Shown* const last = shown.load();
  if (last != nullptr && last->is_of_this_process()) last->write();
}

class Starter : public StatisticsBoard::Listener {
 public:
  explicit Starter(MetricsTarget target) : target_(std::move(target)) {}

  void began(const JobPlace& place) override {
    const std::lock_guard lock(mutex_);
    Shown* const present = shown.load();
    if (present != nullptr && present->is_of_this_process()) return;
    try {
      shown = new Shown(target_, place);
    } catch (const std::exception& error) {
      BANYAN_LOG(warning) << "there are no metrics: " << error.what();
    }
  }

  void ended() override { write_at_end(); }

 private:
  const MetricsTarget target_;
  std::mutex mutex_;  // of who starts
};

}  // namespace

void start_metrics(const std::string& target) {
  if (target.empty()) return;
  try {
    StatisticsBoard::set_listener(new Starter(MetricsTarget::parse(target)));
    std::atexit(write_at_end);
  } catch (const std::exception& error) {
    BANYAN_LOG(warning) << "there are no metrics: " << error.what();
  }
}

}  // namespace banyan::run
