// banyand: the service of a host. See docs/service.md.
#include <malloc.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <initializer_list>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "apps/banyand/asked.h"
#include "apps/banyand/check.h"
#include "apps/banyand/reload.h"
#include "apps/completion.h"
#include "apps/help.h"
#include "apps/parse.h"
#include "apps/syntax.h"
#include "apps/terminal.h"
#include "banyan/base/error.h"
#include "banyan/base/option.h"
#include "banyan/run/record/log.h"
#include "banyan/run/system/system_error.h"
#include "banyan/service/daemon/daemon.h"
#include "banyan/service/daemon/service_manager.h"
#include "banyan/service/daemon/succession.h"
#include "banyan/service/protocol/place.h"

namespace {

using banyan::Error;
using banyan::ErrorCode;
using banyan::app::Asked;
using banyan::app::CommandSyntax;
using banyan::run::FileDescriptor;
using banyan::run::JournalPriority;
using banyan::service::Daemon;
using banyan::service::Predecessor;
using banyan::service::ServiceManager;

// What it was told is wrong, and would be again; what it needs may come.
constexpr int kBadInput = 2, kFailure = 1;
// Before it ends with the latter under a service manager, which starts it again at once after a crash, and gives up
// after some of them: so it does not give up where something is missing.
constexpr std::chrono::seconds kPause{5};
// With a worker that hangs, until the log says so, where nobody says how much.
constexpr std::chrono::seconds kPatience{30};

// A program has three descriptors here, and each of its ranks some more: the usual limit of 1024 is for programs that
// use select(). Where more is not allowed, quotas of users are smaller.
void allow_many_descriptors() {
  rlimit own{};
  if (getrlimit(RLIMIT_NOFILE, &own) != 0) return;
  own.rlim_cur = own.rlim_max;
  setrlimit(RLIMIT_NOFILE, &own);
}

// The memory of a daemon holds its secret, and what programs of all users send. The limit alone would not count for
// programs to which the kernel pipes cores.
void leave_no_core() {
  const rlimit none{.rlim_cur = 0, .rlim_max = 0};
  if (setrlimit(RLIMIT_CORE, &none) != 0 || prctl(PR_SET_DUMPABLE, 0) != 0) {
    throw banyan::run::system_error("cannot forgo core files");
  }
}

// What has been large goes back to the system when it is given back: a daemon lives long.
void return_large_memory() {
  constexpr int kLarge = 4 << 20;
  mallopt(M_MMAP_THRESHOLD, kLarge);
  mallopt(M_TRIM_THRESHOLD, 4 * kLarge);
}

sigset_t set_of(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

sigset_t served_signals() { return set_of({SIGTERM, SIGINT, SIGHUP}); }

// One of the signals that end it has come before it served.
struct AskedToEnd {};

void sleep_unless_ended(std::chrono::milliseconds time) {
  const sigset_t signals = set_of({SIGTERM, SIGINT});
  const timespec at_most{.tv_sec = time.count() / 1000, .tv_nsec = time.count() % 1000 * 1'000'000};
  if (sigtimedwait(&signals, nullptr, &at_most) > 0) throw AskedToEnd();
}

// On a line of the journal, or of a terminal.
void say(std::ostream& out, int descriptor, JournalPriority priority, const std::string& words) {
  out << banyan::run::journal_mark(priority, descriptor) + words + "\n" << std::flush;
}
void complain(const std::string& words) { say(std::cerr, STDERR_FILENO, JournalPriority::error, "banyand: " + words); }

// A thread of its own takes the signals, since stop() may be called by none of their handlers.
void serve(Daemon& daemon, const ServiceManager& manager) {
  manager.ready(Daemon::kServing);  // what comes is answered when run() has begun
  std::thread([&daemon, &manager] {
    const sigset_t signals = served_signals();
    for (;;) {
      siginfo_t signal{};
      const int number = sigwaitinfo(&signals, &signal);
      if (number < 0) continue;
      if (number != SIGHUP) break;
      manager.reloading("reading the rules again");
      daemon.reload_rules([&manager, signal](const std::string& refusal) {
        manager.ready(refusal.empty() ? "serving by the new rules" : "serving by the old rules: " + refusal);
        banyan::app::answer_reload(signal, refusal);
      });
    }
    manager.stopping();
    daemon.stop();
  }).detach();
  daemon.watch_workers(manager.patience().value_or(kPatience), [&manager] {
    if (manager.patience()) manager.alive();
  });
  daemon.run();
}

banyan::service::SocketKeeper keeper_of(ServiceManager& manager) {
  return {.take = [&manager](const std::string& path) { return manager.take_kept(path); },
          .keep = [&manager](const std::string& path, const FileDescriptor& socket) { manager.keep(path, socket); }};
}

// A socket that is handed over takes the place of one that the daemon opens by itself.
void expect_one(const CommandSyntax& syntax, const char* option, const FileDescriptor& handed) {
  if (!handed.is_open() || !syntax.is_given(option)) return;
  throw Error(ErrorCode::invalid_usage,
              std::string(option) + " is not taken where systemd hands over that socket; leave one out");
}

// Where the next version will be, by an ordinary update of the package. Empty where the system does not say.
std::string own_program() {
  std::error_code trouble;
  return std::filesystem::read_symlink("/proc/self/exe", trouble);
}

// For the next version.
std::vector<std::string> arguments_of(int count, char** arguments) {
  std::vector<std::string> kept;
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    if (argument == "--upgrade-from") ++i;
    if (!argument.starts_with("--upgrade-from")) kept.push_back(argument);
  }
  return kept;
}

std::string described(const Daemon::Places& places) {
  std::string words = "banyand listens at " + places.tenants;
  if (!places.operators.empty()) words += ", to operators at " + places.operators;
  if (!places.http.empty()) words += ", to everybody at " + places.http;
  return words;
}

// All that a daemon is to have. Throws Error for what is wrong.
void prepare(const CommandSyntax& syntax, Asked& asked, ServiceManager& manager,
             const banyan::service::HandedSockets& sockets) {
  Daemon::Options& options = asked.options;
  expect_one(syntax, "--socket", sockets.tenants);
  expect_one(syntax, "--operators", sockets.operators);
  expect_one(syntax, "--http", sockets.http);
  if (sockets.operators.is_open()) options.operators.clear();
  asked.expect_files();
  options.secret = asked.secret();
  const bool is_door_handed = sockets.tenants.is_open();
  const bool is_successor = !asked.upgrade_from.empty();
  if (!is_door_handed && !is_successor) banyan::service::make_folder_of(options.socket);
  if (!is_door_handed && !sockets.operators.is_open() && !syntax.is_given("--operators")) {
    options.operators = banyan::service::operator_socket_beside(options.socket);
  }
  options.program = own_program();
  options.keeper = keeper_of(manager);
  options.is_followed_by = [&manager](int process) { manager.is_now(process); };
  options.tell = [&manager](const std::string& state) { manager.status(state); };
  options.wait = [&manager, told = std::string()](const std::string& why) mutable {
    manager.waiting("waiting: " + why);
    if (std::exchange(told, why) != why) complain(why + "; it is waited for");
    sleep_unless_ended(std::chrono::milliseconds(500));
  };
}

void serve_as_asked(const CommandSyntax& syntax, Asked& asked, ServiceManager& manager,
                    std::shared_ptr<Predecessor>& predecessor) {
  banyan::service::HandedSockets sockets = manager.take_sockets();
  leave_no_core();  // before it has the secret
  prepare(syntax, asked, manager, sockets);
  allow_many_descriptors();
  return_large_memory();
  const auto daemon = predecessor != nullptr ? std::make_unique<Daemon>(asked.options, predecessor)
                                             : std::make_unique<Daemon>(asked.options, std::move(sockets));
  predecessor.reset();
  manager.forget_rest();
  say(std::cout, STDOUT_FILENO, JournalPriority::info, described(daemon->places()));
  serve(*daemon, manager);
}

bool is_wrong(const std::exception& trouble) {
  const auto* const error = dynamic_cast<const Error*>(&trouble);
  if (error == nullptr) return false;
  constexpr std::array kWrong = {ErrorCode::invalid_input, ErrorCode::mismatch, ErrorCode::unsupported,
                                 ErrorCode::not_found, ErrorCode::invalid_usage};
  return std::find(kWrong.begin(), kWrong.end(), error->code()) != kWrong.end();
}

// Returns the exit code.
int run_daemon(const CommandSyntax& syntax, Asked& asked) {
  std::shared_ptr<Predecessor> predecessor;  // shared with the daemon
  std::optional<ServiceManager> manager;
  try {
    if (!asked.upgrade_from.empty()) {
      predecessor = std::make_shared<Predecessor>(
          static_cast<int>(banyan::parse_count(asked.upgrade_from, "--upgrade-from", {.least = 0, .most = 1 << 30})));
    }
    asked.read_texts();
    banyan::run::start_log(banyan::run::LogConfig::from_environment());
    manager.emplace();  // while nobody else looks at the environment
    serve_as_asked(syntax, asked, *manager, predecessor);
    return 0;
  } catch (const AskedToEnd&) {
    return 0;
  } catch (const std::exception& error) {
    if (predecessor) predecessor->fail(error.what());  // its operator reads it
    complain(error.what());
    if (is_wrong(error)) return kBadInput;
    if (predecessor || !manager || !manager->is_there()) return kFailure;
    manager->waiting(std::string("waiting to be started again: ") + error.what());
  }
  try {
    sleep_unless_ended(kPause);
  } catch (const AskedToEnd&) {
    return 0;
  }
  return kFailure;
}

// Returns the exit code.
int check(const CommandSyntax& syntax, Asked& asked) {
  const banyan::app::Checked checked = banyan::app::check(asked, syntax);
  for (const std::string& each : checked.wrong) complain(each);
  for (const std::string& each : checked.notes) {
    say(std::cerr, STDERR_FILENO, JournalPriority::warning, "banyand: note: " + each);
  }
  if (!checked.wrong.empty()) return kBadInput;
  say(std::cout, STDOUT_FILENO, JournalPriority::info, "banyand: nothing is wrong with the options and their files");
  return 0;
}

// Returns the exit code.
int reload(const std::string& process) {
  constexpr std::chrono::seconds kAnswered{20};
  try {
    const auto number = static_cast<pid_t>(banyan::parse_count(process, "--reload", {.least = 1, .most = 1 << 30}));
    const std::string refusal = banyan::app::reload(number, kAnswered);
    if (refusal.empty()) return 0;
    complain("the rules stay as they were: " + refusal);
    return kBadInput;
  } catch (const Error& error) {
    complain(error.what());
    return is_wrong(error) ? kBadInput : kFailure;
  }
}

int run(int count, char** arguments) {
  const banyan::app::Terminal terminal = banyan::app::Terminal::detect();
  Asked asked;
  CommandSyntax syntax("banyand",
                       "Carries out the collectives of the programs of this host that attach to it, together with the "
                       "daemons of the other hosts. Programs use it with BANYAN_TRANSPORT=service.");
  declare(syntax, asked);
  const std::vector<std::string> words(arguments + 1, arguments + count);
  if (const std::optional<std::string> answer = banyan::app::answer_completion(syntax, words)) {
    terminal.print(*answer);
    return 0;
  }
  try {
    const auto parsed = banyan::app::parse_command_line(syntax, words);
    if (parsed.wants_help) {
      terminal.print(format_help(syntax, terminal, banyan::app::Terminal::width()));
      return 0;
    }
    if (asked.wants_version) {
      terminal.print("banyand " BANYAN_VERSION "\n");
      return 0;
    }
  } catch (const Error& error) {
    complain(error.what());
    return kBadInput;
  }
  if (!asked.reload.empty()) return reload(asked.reload);
  if (asked.wants_check) return check(syntax, asked);
  asked.options.arguments = arguments_of(count, arguments);
  return run_daemon(syntax, asked);
}

}  // namespace

int main(int count, char** arguments) {
  // Before there are threads, which inherit it.
  const sigset_t signals = served_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return run(count, arguments);
}
