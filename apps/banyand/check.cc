#include "apps/banyand/check.h"

#include <unistd.h>

#include <filesystem>
#include <functional>

#include "banyan/base/error.h"
#include "banyan/base/file.h"
#include "banyan/compose/planner.h"
#include "banyan/run/join/listener.h"
#include "banyan/run/record/log.h"
#include "banyan/service/cluster/host_directory.h"
#include "banyan/service/daemon/door.h"
#include "banyan/service/operate/rule_book.h"
#include "banyan/service/protocol/place.h"

namespace banyan::app {
namespace {

class Check {
 public:
  // Does `task`; what it throws is wrong. `option`: empty where the errors name it.
  void that(const std::string& option, const std::function<void()>& task) {
    try {
      task();
    } catch (const Error& error) {
      found_.wrong.push_back(option.empty() ? error.what() : error.within(option).what());
    }
  }
  void note(std::string words) { found_.notes.push_back(std::move(words)); }
  Checked found() { return std::move(found_); }

 private:
  Checked found_;
};

// A folder that is missing is made, where that is possible.
void expect_place_for(const std::string& socket) {
  service::expect_path_of_socket(socket);
  std::filesystem::path folder = std::filesystem::absolute(socket).parent_path();
  std::error_code trouble;
  while (!std::filesystem::exists(folder, trouble) && folder.has_relative_path()) folder = folder.parent_path();
  if (access(folder.c_str(), W_OK | X_OK) == 0) return;
  throw invalid("user " + std::to_string(geteuid()) + " may make nothing in " + folder.string());
}

void look_for_address(Check& check, const std::string& option, const std::string& address) {
  check.that(option, [&] {
    if (!run::Listener::can_be_on(address)) {
      check.note(option + ": no interface of this host has the address " + address + " (yet); the daemon waits for it");
    }
  });
}

void check_network(Check& check, const Asked& asked) {
  const service::Daemon::Options& options = asked.options;
  check.that("--world", [&] { service::HostDirectory::at(options.world); });
  constexpr std::string_view kFolder = "file://";
  if (options.world.starts_with(kFolder) && access(options.world.substr(kFolder.size()).c_str(), F_OK) != 0) {
    check.note("--world: there is no folder " + options.world.substr(kFolder.size()) + " (yet)");
  }
  if (!options.address.empty()) look_for_address(check, "--address", options.address);
  check.that("--secret-file", [&] { asked.secret(); });
  std::shared_ptr<const compose::PlannerFiles> files;
  check.that("", [&] { files = compose::read_files(options.planner); });
  if (files && fabric_of(*files) && !options.node.empty()) {
    check.that("--node", [&] { compose::expect_rank(*files, options.node); });
  }
}

}  // namespace

Checked check(Asked& asked, const CommandSyntax& syntax) {
  Check check;
  service::Daemon::Options& options = asked.options;
  check.that("", [&] { asked.read_payload(); });
  check.that("", [&] { asked.read_workers(); });
  check.that("", [&] { asked.read_ds_field(); });
  check.that("", [&] { asked.read_http_hosts(); });
  check.that("", [] { run::LogConfig::from_environment(); });
  if (syntax.is_given("--socket")) {
    check.that("--socket", [&] {
      service::expect_safe_folder_of(options.socket);
      expect_place_for(options.socket);
    });
  }
  if (!options.operators.empty()) check.that("--operators", [&] { expect_place_for(options.operators); });
  if (!options.http.empty()) {
    check.that("--http", [&] {
      const service::HttpPlace place = service::HttpPlace::parse(options.http);
      look_for_address(check, "--http", place.address);
    });
  }
  check_network(check, asked);
  if (!options.rules.empty()) {
    check.that("--rules", [&] {
      const service::RuleBook rules(options.rules);
      for (const std::string& each : rules.warnings()) check.note("--rules: " + each);
    });
  }
  return check.found();
}

}  // namespace banyan::app
