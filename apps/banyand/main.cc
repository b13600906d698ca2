// banyand: the service of a host. See docs/service.md.
#include <malloc.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/base/file.h"
#include "banyan/run/record/log.h"
#include "banyan/run/system/cores.h"
#include "banyan/service/daemon/daemon.h"
#include "banyan/service/daemon/service_manager.h"
#include "banyan/service/daemon/succession.h"
#include "banyan/service/daemon/workers.h"
#include "banyan/service/protocol/place.h"

namespace {

using banyan::Error;
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

void describe(CLI::App& app) {
  app.description(
      "banyand carries out the collectives of the processes of this host that attach to it, together with\n"
      "the daemons of the other hosts. Programs use it with BANYAN_TRANSPORT=service.");
  app.footer(
      "Examples:\n"
      "  banyand                                        # this host alone, for this user; root: for all users\n"
      "  banyand --world file:///shared/banyan --secret-file /etc/banyan/secret\n"
      "  BANYAN_SERVICE=unix:/run/banyan/banyand.sock BANYAN_TRANSPORT=service ./program\n"
      "'banyan service upgrade' has the next version take its place while calls go on.\n"
      "It ends at SIGTERM or SIGINT. At SIGHUP it reads the rules again. Under systemd it takes the sockets that are\n"
      "handed to it by the names tenants, operators and http, and tells when it is ready.");
}

// A program has three descriptors here, and each of its ranks some more: the usual limit of 1024 is for programs that
// use select(). Where more is not allowed, quotas of users are smaller.
void allow_many_descriptors() {
  rlimit own{};
  if (getrlimit(RLIMIT_NOFILE, &own) != 0) return;
  own.rlim_cur = own.rlim_max;
  setrlimit(RLIMIT_NOFILE, &own);
}

// What has been large goes back to the system when it is given back: a daemon lives long.
void return_large_memory() {
  constexpr int kLarge = 4 << 20;
  mallopt(M_MMAP_THRESHOLD, kLarge);
  mallopt(M_TRIM_THRESHOLD, 4 * kLarge);
}

banyan::run::Secret secret_from(const std::string& file) {
  if (file.empty()) return {};
  unsetenv("BANYAN_SECRET");  // that of some job
  setenv("BANYAN_SECRET_FILE", file.c_str(), 1);
  return banyan::run::Secret::from_environment();
}

void add_to(HostNames& names, const std::vector<std::string>& more) {
  try {
    for (const std::string& name : more) names.add(name);
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

void make_folder_of(const std::string& socket) {
  const std::filesystem::path folder = std::filesystem::path(socket).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder);
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
void expect_one(const CLI::Option& option, const FileDescriptor& handed) {
  if (!handed.is_open() || option.count() == 0) return;
  throw Error(banyan::ErrorCode::invalid_usage,
              option.get_name() + " is not taken where systemd hands over that socket; leave one out");
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

// What the command line says.
struct Asked {
  Daemon::Options options{.socket = banyan::service::default_socket(), .is_for_all_users = geteuid() == 0};
  std::string secret_file;
  std::optional<std::string> ds_field;
  std::vector<std::string> http_hosts;
  int upgrade_from = -1;
};

void add_network(CLI::App& app, Asked& asked) {
  Daemon::Options& options = asked.options;
  app.add_option("--world", options.world,
                 "where the daemons of all hosts meet: file:///FOLDER, or etcd://HOST:PORT/PREFIX\n"
                 "(etcds:// with ETCDCTL_CACERT, ETCDCTL_CERT, ETCDCTL_KEY); without: this host alone");
  app.add_option("--address", options.address, "where the other daemons reach this one");
  app.add_option("--secret-file", asked.secret_file, "a file with what only the daemons know; programs never see it");
  app.add_option("--fabric", options.planner.fabric,
                 "the network of the cluster, whose ranks are hosts: a file or a spec");
  app.add_option("--routes", options.planner.routes, "which addresses take which path through it: a file");
  app.add_option("--node", options.node, "the rank of the fabric that this host is; without: its host name");
  app.add_option("--payload", options.payload, "the part of a link's bandwidth that is left beside headers")
      ->check(CLI::Range(0.1, 1.0))
      ->capture_default_str();
  app.add_option("--ds-field", asked.ds_field,
                 "high=DSCP,normal=DSCP,low=DSCP: how switches tell classes of tenants apart, such as\n"
                 "high=CS4,low=LE; a class that is left out has CS0. Without: packets are not marked");
}

int run(int count, char** arguments) {
  Asked asked;
  Daemon::Options& options = asked.options;
  options.workers = Workers::fitting(banyan::run::own_cores().size());
  CLI::App app;
  describe(app);
  const CLI::Option* const socket =
      app.add_option("--socket", options.socket, "where programs attach")->capture_default_str();
  add_network(app, asked);
  const CLI::Option* const operators =
      app.add_option("--operators", options.operators,
                     "where operators ask (banyan service); without: operator.sock beside banyand.sock,\n"
                     "x-operator.sock beside x.sock; empty: nowhere");
  const CLI::Option* const http = app.add_option(
      "--http", options.http, "ADDRESS:PORT where everybody may look: a page, and metrics for Prometheus at /metrics");
  app.add_option("--http-host", asked.http_hosts,
                 "what else this host may be called there, beside localhost, its own name and any address:\n"
                 "node3.cluster, or .cluster for all names that end so")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--rules", options.rules, "who gets what: a file; SIGHUP reads it again");
  app.add_option("--workers", options.workers,
                 "how many threads carry out calls, each the calls of some programs;\n"
                 "without: one for every eight cores that it may use, and at least one")
      ->check(CLI::Range(uint32_t{1}, Workers::kMost));
  app.add_flag("--crowded", options.is_oversubscribed, "give up the cores while waiting: programs need them");
  app.add_option("--upgrade-from", asked.upgrade_from,
                 "the descriptor by which a daemon has this one take its place; given by daemons");
  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kBadInput;
  }
  std::shared_ptr<Predecessor> predecessor;  // shared with the daemon
  try {
    if (asked.upgrade_from >= 0) predecessor = std::make_shared<Predecessor>(asked.upgrade_from);
    banyan::run::start_log(banyan::run::LogConfig::from_environment());
    ServiceManager manager;  // while nobody else looks at the environment
    banyan::service::HandedSockets sockets = manager.take_sockets();
    expect_one(*socket, sockets.tenants);
    expect_one(*operators, sockets.operators);
    expect_one(*http, sockets.http);
    if (sockets.operators.is_open()) options.operators.clear();
    options.secret = secret_from(asked.secret_file);
    add_to(options.http_hosts, asked.http_hosts);
    if (asked.ds_field) options.marks = marks_from(*asked.ds_field);
    const bool is_door_handed = sockets.tenants.is_open();
    if (!is_door_handed && !predecessor) make_folder_of(options.socket);
    if (!is_door_handed && !sockets.operators.is_open() && operators->count() == 0) {
      options.operators = banyan::service::operator_socket_beside(options.socket);
    }
    allow_many_descriptors();
    return_large_memory();
    options.program = own_program();
    options.arguments = arguments_of(count, arguments);
    options.keeper = keeper_of(manager);
    options.is_followed_by = [&manager](int process) { manager.is_now(process); };
    const auto daemon = predecessor ? std::make_unique<Daemon>(options, predecessor)
                                    : std::make_unique<Daemon>(options, std::move(sockets));
    predecessor.reset();
    manager.forget_rest();
    std::cout << "banyand listens at " << (is_door_handed ? "the socket of systemd" : "unix:" + options.socket)
              << std::endl;
    serve(*daemon, manager);
    return 0;
  } catch (const std::exception& error) {
    if (predecessor) predecessor->fail(error.what());  // its operator reads it
    std::cerr << "banyand: " << error.what() << "\n";
    return kBadInput;
  }
}

}  // namespace

int main(int count, char** arguments) {
  // Before there are threads, which inherit it.
  const sigset_t signals = served_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return run(count, arguments);
}
