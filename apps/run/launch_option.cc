#include "apps/run/launch_option.h"

#include <utility>

#include "apps/run/launch_plan.h"
#include "apps/run/launcher.h"
#include "banyan/run/join/free_port.h"

namespace banyan::app {

void LaunchOption::declare(CommandSyntax& command) {
  command.group(kGroup);
  command.option("--hosts", &hosts_, "LIST",
                 "start it on these hosts by ssh; node7:2 is two ranks (default: this host)");
  command.flag("--prefix", prefix_, "put the rank in front of each line of output");
  command.flag("--keep-going", keep_going_, "let the other ranks run when one has failed");
  command.group("Options");
  command.takes_program();
}

void LaunchOption::take_program(std::vector<std::string> words) {
  if (words.empty()) throw Error(ErrorCode::invalid_input, "no program after '--'");
  program_ = std::move(words);
}

ExitCode LaunchOption::run(const Terminal& terminal, uint32_t processes, bool json) const {
  LaunchRequest request{.program = program_, .hosts = {}, .processes = processes, .port = run::free_port(1)};
  if (!hosts_.empty()) {
    request.hosts = parse_hosts(hosts_);
  } else if (processes == 0) {
    throw Error(ErrorCode::invalid_input, "how many processes? Give -n, or --hosts");
  }
  run::Secret secret = run::Secret::from_environment();
  if (secret.is_empty()) secret = run::Secret::random();
  const LaunchOptions options{.prefix_lines = prefix_, .json = json, .keep_going = keep_going_};
  return static_cast<ExitCode>(launch(plan_launch(request), secret, options, terminal));
}

}  // namespace banyan::app
