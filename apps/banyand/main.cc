// banyand: the service of a host. See docs/service.md.
#include <malloc.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "apps/help.h"
#include "apps/parse.h"
#include "apps/syntax.h"
#include "apps/terminal.h"
#include "banyan/base/error.h"
#include "banyan/base/file.h"
#include "banyan/base/option.h"
#include "banyan/base/text.h"
#include "banyan/run/record/log.h"
#include "banyan/run/system/cores.h"
#include "banyan/run/system/system_error.h"
#include "banyan/service/daemon/daemon.h"
#include "banyan/service/daemon/service_manager.h"
#include "banyan/service/daemon/succession.h"
#include "banyan/service/daemon/workers.h"
#include "banyan/service/protocol/place.h"

namespace {

using banyan::Error;
using banyan::app::CommandSyntax;
using banyan::run::FileDescriptor;
using banyan::service::ClassMarks;
using banyan::service::Daemon;
using banyan::service::HostNames;
using banyan::service::Predecessor;
using banyan::service::ServiceManager;
using banyan::service::Workers;

constexpr int kBadInput = 2;
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

banyan::run::Secret secret_from(const std::string& file) {
  return file.empty() ? banyan::run::Secret() : banyan::run::Secret::from_file(file);
}

void add_to(HostNames& names, const std::vector<std::string>& more) {
  try {
    for (const std::string& some : more) {
      for (const std::string_view name : banyan::split(some, ',')) names.add(std::string(name));
    }
  } catch (const Error& error) {
    throw error.within("--http-host");
  }
}

ClassMarks marks_from(const std::string& text) {
  try {
    return ClassMarks::parse(text);
  } catch (const Error& error) {
    throw error.within("--ds-field");
  }
}

sigset_t served_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  return signals;
}

// A thread of its own takes the signals, since stop() may be called by none of their handlers.
void serve(Daemon& daemon, const ServiceManager& manager) {
  manager.ready("serving");  // what comes is answered when run() has begun
  std::thread([&daemon, &manager] {
    const sigset_t signals = served_signals();
    int signal = SIGHUP;
    while (signal == SIGHUP) {
      sigwait(&signals, &signal);
      if (signal != SIGHUP) break;
      manager.reloading("reading the rules again");
      daemon.reload_rules([&manager](const std::string& refusal) {
        manager.ready(refusal.empty() ? "serving by the new rules" : "serving by the old rules: " + refusal);
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
  throw Error(banyan::ErrorCode::invalid_usage,
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

// What the command line says. Its texts are read when all of it is there.
struct Asked {
  Daemon::Options options{.socket = banyan::service::default_socket(), .is_for_all_users = geteuid() == 0};
  std::string secret_file, payload, ds_field, workers, upgrade_from;
  std::vector<std::string> http_hosts, obey;
  bool wants_version = false;
};

void add_network(CommandSyntax& syntax, Asked& asked) {
  Daemon::Options& options = asked.options;
  syntax.group("The cluster");
  syntax.option("--world", &options.world, "URL",
                "where the daemons of all hosts meet: file:///FOLDER, or etcd://HOST:PORT/PREFIX (etcds:// with "
                "ETCDCTL_CACERT, ETCDCTL_CERT, ETCDCTL_KEY); without: this host alone");
  syntax.option("--address", &options.address, "ADDRESS", "where the other daemons reach this one");
  syntax.option("--secret-file", &asked.secret_file, "FILE",
                "what only the daemons know, of 16 bytes or more; programs never see it");
  syntax.option("--fabric", &options.planner.fabric, "FABRIC",
                "the network of the cluster, whose ranks are hosts: a file or a spec");
  syntax.option("--routes", &options.planner.routes, "FILE", "which addresses take which path through it");
  syntax.option("--node", &options.node, "NAME", "the rank of the fabric that this host is (default: its host name)");
  syntax.option("--payload", &asked.payload, "PART",
                "the part of a link's bandwidth that is left beside headers, 0.1 to 1 (default 0.94)");
  syntax.option("--ds-field", &asked.ds_field, "CLASS=DSCP,...",
                "how switches tell classes of tenants apart, such as high=CS4,low=LE; a class that is left out has "
                "CS0. Without: packets are not marked");
}

void add_places(CommandSyntax& syntax, Asked& asked) {
  Daemon::Options& options = asked.options;
  syntax.option("--socket", &options.socket, "PATH", "where programs attach (default " + options.socket + ")");
  syntax
      .option("--operators", &options.operators, "PATH",
              "where operators ask (banyan service); without: operator.sock beside banyand.sock, x-operator.sock "
              "beside x.sock; empty: nowhere")
      .may_be_empty = true;
  syntax.option(
      "--obey", &asked.obey, "HOST,...",
      "hosts whose daemons may command this one, as when an operator there drains all hosts; * stands for any "
      "characters. Without: only who is at the operators' socket of this host may");
  syntax.option("--http", &options.http, "ADDRESS:PORT",
                "where everybody may look: a page, and metrics for Prometheus at /metrics");
  syntax.option("--http-host", &asked.http_hosts, "NAME,...",
                "what else this host may be called there, beside localhost, its own name and any address: "
                "node3.cluster, or .cluster for all names that end so");
  syntax.option("--rules", &options.rules, "FILE", "who gets what; SIGHUP reads it again");
}

void declare(CommandSyntax& syntax, Asked& asked) {
  syntax.flag("-V,--version", asked.wants_version, "print the version");
  add_places(syntax, asked);
  add_network(syntax, asked);
  syntax.group("Threads");
  syntax.option("--workers", &asked.workers, "N",
                "how many threads carry out calls, each the calls of some programs, 1 to " +
                    std::to_string(Workers::kMost) + "; without: one for every eight cores that it may use");
  syntax.flag("--crowded", asked.options.is_oversubscribed, "give up the cores while waiting: programs need them");
  syntax.group("Upgrades");
  syntax.option("--upgrade-from", &asked.upgrade_from, "N",
                "the descriptor by which a daemon has this one take its place; given by daemons");
  syntax.examples({"banyand   # this host alone, for this user; root: for all users",
                   "banyand --world file:///shared/banyan --secret-file /etc/banyan/secret",
                   "BANYAN_SERVICE=unix:/run/banyan/banyand.sock BANYAN_TRANSPORT=service ./program"});
  syntax.notes(
      {"'banyan service upgrade' has the next version take its place while calls go on. It ends at SIGTERM or "
       "SIGINT. At SIGHUP it reads the rules again. Under systemd it takes the sockets that are handed to it "
       "by the names tenants, operators and http, and tells when it is ready."});
}

void read_texts(Asked& asked) {
  Daemon::Options& options = asked.options;
  options.workers = Workers::fitting(banyan::run::own_cores().size());
  if (!asked.payload.empty()) {
    const char* const end = asked.payload.data() + asked.payload.size();
    const auto [behind, trouble] = std::from_chars(asked.payload.data(), end, options.payload);
    if (trouble != std::errc() || behind != end || !(options.payload >= 0.1 && options.payload <= 1)) {
      throw Error(banyan::ErrorCode::invalid_input, "is " + asked.payload + "; give a part from 0.1 to 1", "--payload");
    }
  }
  if (!asked.workers.empty()) {
    options.workers =
        static_cast<uint32_t>(banyan::parse_count(asked.workers, "--workers", {.least = 1, .most = Workers::kMost}));
  }
  if (!asked.ds_field.empty()) options.marks = marks_from(asked.ds_field);
  add_to(options.http_hosts, asked.http_hosts);
  for (const std::string& some : asked.obey) {
    for (const std::string_view host : banyan::split(some, ',')) options.obey.emplace_back(host);
  }
}

// The daemon itself; returns the exit code.
int serve_as_asked(const CommandSyntax& syntax, Asked& asked, std::vector<std::string> arguments) {
  Daemon::Options& options = asked.options;
  std::shared_ptr<Predecessor> predecessor;  // shared with the daemon
  try {
    if (!asked.upgrade_from.empty()) {
      predecessor = std::make_shared<Predecessor>(
          static_cast<int>(banyan::parse_count(asked.upgrade_from, "--upgrade-from", {.least = 0, .most = 1 << 30})));
    }
    read_texts(asked);
    banyan::run::start_log(banyan::run::LogConfig::from_environment());
    ServiceManager manager;  // while nobody else looks at the environment
    banyan::service::HandedSockets sockets = manager.take_sockets();
    expect_one(syntax, "--socket", sockets.tenants);
    expect_one(syntax, "--operators", sockets.operators);
    expect_one(syntax, "--http", sockets.http);
    if (sockets.operators.is_open()) options.operators.clear();
    options.secret = secret_from(asked.secret_file);
    const bool is_door_handed = sockets.tenants.is_open();
    if (!is_door_handed && !predecessor) banyan::service::make_folder_of(options.socket);
    if (!is_door_handed && !sockets.operators.is_open() && !syntax.is_given("--operators")) {
      options.operators = banyan::service::operator_socket_beside(options.socket);
    }
    leave_no_core();
    allow_many_descriptors();
    return_large_memory();
    options.program = own_program();
    options.arguments = std::move(arguments);
    options.keeper = keeper_of(manager);
    options.is_followed_by = [&manager](int process) { manager.is_now(process); };
    const bool is_successor = predecessor != nullptr;
    const auto daemon = is_successor ? std::make_unique<Daemon>(options, predecessor)
                                     : std::make_unique<Daemon>(options, std::move(sockets));
    predecessor.reset();
    manager.forget_rest();
    std::cout << "banyand listens at "
              << (is_door_handed ? "the socket of systemd"
                  : is_successor ? "the sockets of the daemon that was here before"
                                 : "unix:" + options.socket)
              << std::endl;
    serve(*daemon, manager);
    return 0;
  } catch (const std::exception& error) {
    if (predecessor) predecessor->fail(error.what());  // its operator reads it
    std::cerr << "banyand: " << error.what() << "\n";
    return kBadInput;
  }
}

int run(int count, char** arguments) {
  const banyan::app::Terminal terminal = banyan::app::Terminal::detect();
  Asked asked;
  CommandSyntax syntax("banyand",
                       "Carries out the collectives of the programs of this host that attach to it, together with the "
                       "daemons of the other hosts. Programs use it with BANYAN_TRANSPORT=service.");
  declare(syntax, asked);
  try {
    const auto parsed = banyan::app::parse_command_line(syntax, {arguments + 1, arguments + count});
    if (parsed.wants_help) {
      terminal.print(format_help(syntax, terminal, banyan::app::Terminal::width()));
      return 0;
    }
    if (asked.wants_version) {
      terminal.print("banyand " BANYAN_VERSION "\n");
      return 0;
    }
  } catch (const Error& error) {
    terminal.note(std::string("banyand: ") + error.what() + "\n");
    return kBadInput;
  }
  return serve_as_asked(syntax, asked, arguments_of(count, arguments));
}

}  // namespace

int main(int count, char** arguments) {
  // Before there are threads, which inherit it.
  const sigset_t signals = served_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return run(count, arguments);
}
