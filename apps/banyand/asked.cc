#include "apps/banyand/asked.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "apps/parse.h"
#include "banyan/base/error.h"
#include "banyan/base/option.h"
#include "banyan/base/text.h"
#include "banyan/run/system/cores.h"
#include "banyan/run/system/file_descriptor.h"
#include "banyan/service/protocol/place.h"
#include "banyan/service/session/workers.h"

namespace banyan::app {
namespace {

void add_network(CommandSyntax& syntax, Asked& asked) {
  service::Daemon::Options& options = asked.options;
  syntax.group("The cluster");
  syntax.option("--world", &options.world, "URL",
                "where the daemons of all hosts meet: file:///FOLDER, or etcd://HOST:PORT/PREFIX (etcds:// with "
                "ETCDCTL_CACERT, ETCDCTL_CERT, ETCDCTL_KEY); without: this host alone");
  syntax.option("--address", &options.address, "ADDRESS",
                "where the other daemons reach this one; waited for where its interface is not up yet");
  syntax.option("--secret-file", &asked.secret_file, "FILE",
                "what only the daemons know, drawn by a machine (openssl rand -hex 16); programs never see it");
  syntax
      .option("--fabric", &options.planner.fabric, "FABRIC",
              "the network of the cluster, whose ranks are hosts: a file or a spec")
      .paths = OptionSyntax::Paths::files;
  syntax.option("--routes", &options.planner.routes, "FILE", "which addresses take which path through it");
  syntax.option("--node", &options.node, "NAME", "the rank of the fabric that this host is (default: its host name)");
  syntax.option("--payload", &asked.payload, "PART",
                "the part of a link's bandwidth that is left beside headers, 0.1 to 1 (default 0.94)");
  syntax.option("--ds-field", &asked.ds_field, "CLASS=DSCP,...",
                "how switches tell classes of tenants apart, such as high=CS4,low=LE; a class that is left out has "
                "CS0. Without: packets are not marked");
}

void add_places(CommandSyntax& syntax, Asked& asked) {
  service::Daemon::Options& options = asked.options;
  syntax.option("--socket", &options.socket, "PATH", "where programs attach (default " + options.socket + ")");
  syntax.flag("--all-users", asked.is_for_all_users,
              "programs of all users of this host may attach there; without: those of this user and of root, and of "
              "all where root runs it");
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

void expect_readable(const std::string& option, const std::string& path) {
  if (path.empty()) return;
  const run::FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.is_open()) return;
  for (const int wrong : {EACCES, EPERM, ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG}) {
    if (errno != wrong) continue;
    throw Error(ErrorCode::invalid_input, "cannot open " + path + ": " + std::strerror(wrong), option);
  }
}

}  // namespace

Asked::Asked() : options{.socket = service::default_socket(), .is_for_all_users = geteuid() == 0} {}

void declare(CommandSyntax& syntax, Asked& asked) {
  syntax.flag("-V,--version", asked.wants_version, "print the version");
  syntax.flag("--check", asked.wants_check,
              "say what is wrong with the other options and the files that they name, a line for each, and serve "
              "nobody; 2: something is");
  syntax.option(
      "--reload", &asked.reload, "PID",
      "have the banyand of this process number read its rules again, as SIGHUP does, and say whether they are "
      "in force; 2: they are refused, and the old ones stay");
  add_places(syntax, asked);
  add_network(syntax, asked);
  syntax.group("Threads");
  syntax.option("--workers", &asked.workers, "N",
                "how many threads carry out calls, each the calls of some programs, 1 to " +
                    std::to_string(service::Workers::kMost) + "; without: one for every eight cores that it may use");
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
       "by the names tenants, operators and http, and tells when it is ready. Exit code 2: what it was told is wrong; "
       "1: something was missing that may come, so start it again."});
}

void Asked::read_payload() {
  if (payload.empty()) return;
  const char* const end = payload.data() + payload.size();
  const auto [behind, trouble] = std::from_chars(payload.data(), end, options.payload);
  if (trouble != std::errc() || behind != end || !(options.payload >= 0.1 && options.payload <= 1)) {
    throw Error(ErrorCode::invalid_input, "is " + payload + "; give a part from 0.1 to 1", "--payload");
  }
}

void Asked::read_workers() {
  constexpr uint64_t kMost = service::Workers::kMost;
  options.workers = workers.empty()
                        ? service::Workers::fitting(run::own_cores().size())
                        : static_cast<uint32_t>(parse_count(workers, "--workers", {.least = 1, .most = kMost}));
}

void Asked::read_ds_field() {
  if (ds_field.empty()) return;
  try {
    options.marks = service::ClassMarks::parse(ds_field);
  } catch (const Error& error) {
    throw error.within("--ds-field");
  }
}

void Asked::read_http_hosts() {
  try {
    for (const std::string& some : http_hosts) {
      for (const std::string_view name : split(some, ',')) options.http_hosts.add(std::string(name));
    }
  } catch (const Error& error) {
    throw error.within("--http-host");
  }
}

void Asked::read_obey() {
  for (const std::string& some : obey) {
    for (const std::string_view host : split(some, ',')) options.obey.emplace_back(host);
  }
}

void Asked::read_texts() {
  read_payload();
  read_workers();
  read_ds_field();
  read_http_hosts();
  read_obey();
  options.is_for_all_users |= is_for_all_users;
}

void Asked::expect_files() const {
  expect_readable("--secret-file", secret_file);
  expect_readable("--rules", options.rules);
  expect_readable("--routes", options.planner.routes);
}

run::Secret Asked::secret() const { return secret_file.empty() ? run::Secret() : run::Secret::from_file(secret_file); }

}  // namespace banyan::app
