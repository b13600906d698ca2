#include "banyan/run/metrics/metrics.h"

#include <CivetServer.h>
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
#include "banyan/base/text.h"
#include "banyan/run/communicator/statistics.h"
#include "banyan/run/metrics/page.h"
#include "banyan/run/metrics/target.h"
#include "banyan/run/record/log.h"
#include "banyan/run/system/fork_guard.h"
#include "banyan/run/system/host_names.h"

namespace banyan::run {
namespace {

constexpr std::chrono::seconds kBetweenFiles{5};

// What this host may be called by those who ask. Written before the server's threads start, and never freed, since they
// run until the process ends.
const HostNames* names_shown = nullptr;

HostNames names_from(const std::string& list) {
  HostNames names;
  try {
    names.add_own();
    for (const std::string_view name : split(list, ',')) {
      if (!trim(name).empty()) names.add(std::string(trim(name)));
    }
  } catch (const Error& error) {
    throw error.within("BANYAN_METRICS_HOSTS");
  }
  return names;
}

// 0: the server is to answer.
int answer_who_means_another_host(mg_connection* connection) {
  const char* const host = mg_get_header(connection, "Host");
  if (host == nullptr || *host == '\0' || names_shown->has(host)) return 0;
  try {
    const std::string words = misdirected(host, "name it in BANYAN_METRICS_HOSTS:") + "\n";
    mg_printf(connection,
              "HTTP/1.1 %d Misdirected Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %zu\r\n"
              "Connection: close\r\n\r\n%s",
              kMisdirected, words.size(), words.c_str());
  } catch (const std::exception&) {  // no memory for words
  }
  return kMisdirected;
}

// While threads are started here: they handle no signal of the program.
class SignalsAside {
 public:
  SignalsAside() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsAside() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsAside(const SignalsAside&) = delete;
  SignalsAside& operator=(const SignalsAside&) = delete;

 private:
  sigset_t before_;
};

// Each thread of the server ignores SIGPIPE when it starts, which holds for the whole process and is not its business:
// it holds the signal back anyway. So what the program has done with the signal is put back once all have started.
class PipeSignal {
 public:
  PipeSignal() {
    sigaction(SIGPIPE, nullptr, &before_);
    is_ours_ = before_.sa_handler != SIG_IGN;
    if (is_ours_) mark();
  }
  ~PipeSignal() {
    if (is_ours_) sigaction(SIGPIPE, &before_, nullptr);
  }
  PipeSignal(const PipeSignal&) = delete;
  PipeSignal& operator=(const PipeSignal&) = delete;

  // Two that start at the same time may be seen as one; then this takes kMost.
  void wait_for(size_t threads) {
    constexpr std::chrono::milliseconds kMost{250};
    constexpr std::chrono::microseconds kPause{100};
    const auto end = std::chrono::steady_clock::now() + kMost;
    while (is_ours_ && threads > 0 && std::chrono::steady_clock::now() < end) {
      struct sigaction now {};
      sigaction(SIGPIPE, nullptr, &now);
      if (now.sa_handler == SIG_IGN) {
        mark();
        --threads;
      } else {
        std::this_thread::sleep_for(kPause);
      }
    }
  }

 private:
  static void mark() {
    struct sigaction marked {};
    marked.sa_handler = [](int) {};
    marked.sa_flags = SA_RESTART;
    sigaction(SIGPIPE, &marked, nullptr);
  }

  struct sigaction before_ {};
  bool is_ours_ = false;
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
      write_file_unsynced(path_, page_->text());
      has_warned_ = false;
    } catch (const std::exception& error) {
      if (!has_warned_) BANYAN_LOG(warning) << "BANYAN_METRICS: the metrics cannot be written: " << error.what();
      has_warned_ = true;
    }
  }

 private:
  void serve(const std::string& endpoint) {
    constexpr size_t kThreads = 2;  // and one that accepts
    PipeSignal pipe;
    try {
      CivetCallbacks callbacks;  // is copied
      callbacks.begin_request = answer_who_means_another_host;
      server_ = std::make_unique<prometheus::Exposer>(endpoint, kThreads, &callbacks);
      pipe.wait_for(kThreads + 1);
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

std::atomic<Shown*> on_show{nullptr};

void write_at_end() {
  Shown* const last = on_show.load();
  if (last != nullptr && last->is_of_this_process()) last->write();
}

class Starter : public StatisticsBoard::Listener {
 public:
  explicit Starter(MetricsTarget target) : target_(std::move(target)) {}

  void began(const JobPlace& place) override {
    const std::lock_guard lock(mutex_);
    Shown* const present = on_show.load();
    if (present != nullptr && present->is_of_this_process()) return;
    try {
      on_show = new Shown(target_, place);
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

void start_metrics(const MetricsWish& wish) {
  if (wish.target.empty()) return;
  try {
    names_shown = new HostNames(names_from(wish.hosts));
    StatisticsBoard::set_listener(new Starter(MetricsTarget::parse(wish.target)));
    std::atexit(write_at_end);
  } catch (const std::exception& error) {
    BANYAN_LOG(warning) << "there are no metrics: " << error.what();
  }
}

}  // namespace banyan::run
