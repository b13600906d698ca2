#include "apps/run/launch_option.h"

#include <utility>

#include "banyan/run/join/free_port.h"

namespace banyan::app {

void LaunchOption::declare(CommandSyntax& command) {
  command.group(kGroup);
  command.option("--hosts", &hosts_, "LIST",
                 "start it on these hosts by ssh; node7:2 is two ranks (default: this host)");
  command.flag("--prefix", options_.prefix_lines, "put the rank in front of each line of output");
  command.flag("--keep-going", options_.keep_going, "let the other ranks run when one has failed");
  command.group("Options");
  command.takes_program();
}

void LaunchOption::take_program(std::vector<std::string> words) {
  if (words.empty()) throw invalid("no program after '--'");
  program_ = std::move(words);
}

ExitCode LaunchOption::run(const Terminal& terminal, uint32_t processes, bool json) const {
  if (hosts_.empty() && processes == 0) throw invalid("how many processes? Give -n, or --hosts");
  const LaunchRequest request{
      .program = program_, .hosts = parse_hosts(hosts_), .processes = processes, .port = run::free_port(1)};
  run::Secret secret = run::Secret::from_environment();
  if (secret.is_empty()) secret = run::Secret::random();
  LaunchOptions options = options_;
  options.json = json;
  return static_cast<ExitCode>(launch(plan_launch(request), secret, options, terminal));
}

}  // namespace banyan::app
