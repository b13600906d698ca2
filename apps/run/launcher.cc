#include "apps/run/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "apps/report.h"
#include "apps/run/group_keeper.h"
#include "apps/run/rank_process.h"
#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/system/system_error.h"

namespace banyan::app {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array kEnding{SIGINT, SIGTERM, SIGHUP, SIGQUIT};
constexpr std::array kOther{SIGUSR1, SIGUSR2};

// While it lives, these signals, and the end of children, are read from a descriptor.
class Signals {
 public:
  Signals() {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : kEnding) sigaddset(&set, signal);
    for (const int signal : kOther) sigaddset(&set, signal);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, &old_);
    fd_ = run::FileDescriptor(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!fd_.is_open()) throw run::system_error("cannot listen to signals");
  }
  ~Signals() { sigprocmask(SIG_SETMASK, &old_, nullptr); }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int fd() const { return fd_.get(); }
  const sigset_t& old_mask() const { return old_; }
  // Zero when there is none.
  int next() const {
    signalfd_siginfo info;
    return read(fd_.get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  sigset_t old_;
  run::FileDescriptor fd_;
};

// The variables that ssh does not pass on to ranks on other hosts: all of Banyan's, except those that hold for one
// host only.
Variables variables_for_others(const run::Secret& secret) {
  Variables variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (!text.starts_with("BANYAN_") || equals == std::string_view::npos) continue;
    const std::string name(text.substr(0, equals));
    const bool is_name = name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == std::string::npos;
    if (!is_name || name.starts_with("BANYAN_SECRET") || name == "BANYAN_ADDRESS" || name == "BANYAN_HOST_ID") continue;
    variables.emplace_back(name, text.substr(equals + 1));
  }
  variables.emplace_back("BANYAN_SECRET", std::string(secret.key()));
  return variables;
}

class Launcher {
 public:
  Launcher(const LaunchPlan& plan, const LaunchOptions& options, const Terminal& terminal)
      : plan_(plan), options_(options), terminal_(terminal), exit_codes_(plan.ranks.size(), 0) {}

  void start_all(const run::Secret& secret) {
    const Variables others = variables_for_others(secret);
    for (uint32_t rank = 0; rank < plan_.ranks.size(); ++rank) {
      const LaunchPlan::Rank& planned = plan_.ranks[rank];
      RankProcess::Start start{.words = plan_.program,
                               .variables = planned.variables,
                               .network_namespace = planned.network_namespace,
                               .reads_our_input = rank == 0 && isatty(STDIN_FILENO) == 0,
                               .collects_output = options_.prefix_lines || options_.json,
                               .signal_mask = signals_.old_mask()};
      if (planned.host.empty()) {
        start.variables.emplace_back("BANYAN_SECRET", std::string(secret.key()));
        start.unset = {"BANYAN_SECRET_FILE"};
      } else {
        start.input = remote_script(plan_, planned, others, std::filesystem::current_path().string());
        start.words = ssh_command(planned.host, start.input->size());
        start.variables.clear();
        start.unset = {"BANYAN_SECRET"};
        start.reads_our_input = false;
      }
      children_.push_back(std::make_unique<RankProcess>(start));
      keeper_.watch(children_.back()->group());
    }
  }

  int supervise() {
    while (std::any_of(children_.begin(), children_.end(), [](const auto& child) { return child->is_running(); })) {
      wait_for_something();
      for (int signal; (signal = signals_.next()) != 0;) heed(signal);
      for (uint32_t rank = 0; rank < children_.size(); ++rank) {
        RankProcess& child = *children_[rank];
        if (!child.is_running()) continue;
        const bool has_ended = child.has_ended();
        pass_on(rank);
        if (has_ended) ended(rank);
      }
      if (kill_at_ && Clock::now() >= *kill_at_) {
        for (const auto& child : children_) child->send(SIGKILL);
        kill_at_.reset();
      }
    }
    const int code = told_to_end_ != 0 ? 128 + told_to_end_ : status_;
    if (options_.json) terminal_.print(as_json(code));
    return code;
  }

 private:
  void wait_for_something() {
    std::vector<pollfd> polled{{.fd = signals_.fd(), .events = POLLIN, .revents = 0}};
    for (const auto& child : children_) {
      for (const int fd : {child->output_fd(), child->error_fd()}) {
        if (fd >= 0) polled.push_back({.fd = fd, .events = POLLIN, .revents = 0});
      }
    }
    int64_t left = -1;
    if (kill_at_) {
      left = std::max<int64_t>(std::chrono::ceil<std::chrono::milliseconds>(*kill_at_ - Clock::now()).count(), 0);
    }
    const int rc = poll(polled.data(), polled.size(), static_cast<int>(left));
    if (rc < 0 && errno != EINTR) throw run::system_error("cannot wait for the ranks");
  }

  void heed(int signal) {
    if (signal == SIGCHLD) return;
    if (std::find(kOther.begin(), kOther.end(), signal) != kOther.end()) {
      for (const auto& child : children_) child->send(signal);
      return;
    }
    if (told_to_end_ == 0) told_to_end_ = signal;
    for (const auto& child : children_) child->end(signal);
    if (!kill_at_) kill_at_ = Clock::now() + options_.grace;
  }

  std::string as_json(int code) const {
    Json ranks = Json::array();
    for (uint32_t rank = 0; rank < exit_codes_.size(); ++rank) {
      const std::string& host = plan_.ranks[rank].host;
      ranks.push_back({{"rank", plan_.ranks[rank].number},
                       {"host", host.empty() ? Json(nullptr) : Json(host)},
                       {"exit_code", exit_codes_[rank]}});
    }
    return format_json({{"exit_code", code}, {"ranks", std::move(ranks)}});
  }

  // Whole lines, so that those of different ranks do not mix.
  void pass_on(uint32_t rank) {
    if (!options_.prefix_lines && !options_.json) return;
    const std::string prefix = options_.prefix_lines ? "[" + std::to_string(plan_.ranks[rank].number) + "] " : "";
    for (const std::string& line : children_[rank]->output_lines()) {
      options_.json ? terminal_.note(prefix + line + "\n") : terminal_.print(prefix + line + "\n");
    }
    for (const std::string& line : children_[rank]->error_lines()) terminal_.note(prefix + line + "\n");
  }

  void ended(uint32_t rank) {
    const pid_t group = children_[rank]->group();
    const int status = children_[rank]->reap();
    keeper_.forget(group);
    exit_codes_[rank] = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (status == 0 || status_ != 0) return;
    status_ = exit_codes_[rank];
    if (told_to_end_ != 0) return;
    std::string line = "banyan: rank " + std::to_string(plan_.ranks[rank].number);
    const std::string& host = plan_.ranks[rank].host;
    if (!host.empty()) line += " on " + host;
    line += " " + run::format_status(status);
    if (!WIFSIGNALED(status) && !host.empty() && status_ == 255) line += ", or ssh could not connect";
    const auto running =
        std::count_if(children_.begin(), children_.end(), [](const auto& c) { return c->is_running(); });
    if (!options_.keep_going && running > 0) {
      line += "; the " + std::to_string(running) + " that still ran " + (running == 1 ? "is" : "are") + " ended";
      for (const auto& child : children_) child->end(SIGTERM);
      kill_at_ = Clock::now() + options_.grace;
    }
    terminal_.note(line + "\n");
  }

  const LaunchPlan& plan_;
  const LaunchOptions options_;
  const Terminal& terminal_;
  Signals signals_;
  GroupKeeper keeper_;
  std::vector<std::unique_ptr<RankProcess>> children_;  // by rank
  std::vector<int> exit_codes_;                         // by rank, of those that have ended
  int status_ = 0;                                      // of the first that failed
  int told_to_end_ = 0;                                 // the signal
  std::optional<Clock::time_point> kill_at_;
};

}  // namespace

int launch(const LaunchPlan& plan, const run::Secret& secret, const LaunchOptions& options, const Terminal& terminal) {
  Launcher launcher(plan, options, terminal);
  launcher.start_all(secret);
  return launcher.supervise();
}

}  // namespace banyan::app
