// banyan topology: which links to build.
#include "apps/command.h"
#include "apps/plan/topology_demand.h"

namespace banyan::app {
namespace {

class TopologyCommand : public Command {
 public:
  CommandSyntax& declare(CommandSyntax& program) override {
    CommandSyntax& command = program.command("topology", "Choose the links of a network.");
    declare_demand_options(command, texts_);
    command.option("-o,--output", &texts_.output, "FILE", "write the topology as a fabric");
    command.flag("--json", texts_.json, "print one JSON object");
    command.examples({"banyan topology --demand matrix.csv --ports 4 --bandwidth 50GB/s",
                      "banyan topology --demand matrix.csv --ports 4 --uncertainty 0.3 -o fabric.json",
                      "banyan topology --demand day.csv --demand night.csv --ports 8 --one-way --json",
                      "banyan topology --demand matrix.csv --ports 8 --direct"});
    return command;
  }

  ExitCode run(const Terminal& terminal) override { return answer_demand_topology(terminal, texts_); }

 private:
  DemandTopologyTexts texts_;
};

}  // namespace

std::unique_ptr<Command> make_topology_command() { return std::make_unique<TopologyCommand>(); }

}  // namespace banyan::app
