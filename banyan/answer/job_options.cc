#include "banyan/answer/job_options.h"

#include "banyan/plan/planner.h"
#include "banyan/predict/train/train_options.h"

namespace banyan::answer {
namespace {

using Names = std::vector<std::string>;
using O = JobOptions;
using S = JobSource;
using Simulation = predict::JobSimulationOptions;
using Reading = job::chakra::Options;

std::vector<std::string>& events(JobOptions& options) { return options.events; }

uint64_t any_number(const OptionValue& value) { return read_count(value, {0, UINT64_MAX}); }

// Peaks per second for nodes that say FLOP and bytes but no time: "312T" is no bandwidth, so both take plain numbers.
double rate(const OptionValue& value) {
  const std::string text = read_text(value);
  try {
    size_t used = 0;
    const double number = std::stod(text, &used);
    if (used == text.size() && number > 0 && number < 1e21) return number;
  } catch (const std::exception&) {
  }
  throw invalid("'" + text.substr(0, 40) + "' is no rate; write it as 3.12e14");
}

std::vector<uint32_t> dimensions(const OptionValue& value) {
  std::vector<uint32_t> sizes;
  for (const std::string& size : read_list(value))
    sizes.push_back(static_cast<uint32_t>(parse_count(size, "", {1, Job::kMaxRanks})));
  return sizes;
}

Names rules() { return {"packed", "random", "round-robin"}; }
Names failures() { return {"stop", "move", "fail"}; }
Names forms() { return {"flow", "messages"}; }
Names devices() { return find_option(predict::train_options(), "gpu")->values(); }

Names algorithms() {
  Names names{"rings"};
  for (const plan::Planner& planner : plan::planners()) names.emplace_back(planner.name);
  return names;
}

constexpr JobOption kJobOptions[] = {
    {"Fabric and placement", "placement", "RULE", "packed, random or round-robin over boxes (default packed)",
     read_into<&O::placement, predict::parse_placement_rule>, nullptr, rules},
    {"Fabric and placement", "seed", "N", "seed of random placement (default 1)", read_into<&O::seed, any_number>},
    {"Links that change", "event", "EVENT",
     "what happens to a cable: '10ms a-b=10GB/s', '10ms a-b fail' or '20ms a-b returns' (repeatable)", nullptr, nullptr,
     nullptr, events},
    {"Links that change", "on-failure", "WHAT",
     "what transfers on a failed cable do: stop until it returns, move to other paths, or fail with their job (default "
     "stop)",
     read_into<&Simulation::on_failure, predict::parse_on_failure>, nullptr, failures},
    {"Collectives and accuracy", "eager", "SIZE",
     "messages up to this size begin before their receive does (default 64KiB)",
     read_into<&Simulation::eager, read_bytes>},
    {"Collectives and accuracy", "costs", "FILE", "measured collectives, as 'predict calibrate' writes them",
     read_into<&O::costs, read_text>},
    {"Collectives and accuracy", "algorithm", "NAME",
     "algorithm of collectives: rings (default), forest, or a baseline of 'plan --compare'",
     read_into<&O::algorithm, read_text>, nullptr, algorithms},
    {"Collectives and accuracy", "collectives", "HOW",
     "flow: a collective is one flow (default); messages: all that its plan sends, which is slower, folds no ranks "
     "and takes no --costs",
     read_into<&Simulation::collectives, predict::parse_collectives_as>, nullptr, forms},
    {"Collectives and accuracy", "window", "TIME",
     "treat flows that end within TIME of each other as ending together: faster, less exact",
     read_into<&Simulation::window, read_duration>},
    {"Collectives and accuracy", "unfolded", "", "simulate every rank, without merging identical ones", nullptr,
     flag_in<&O::unfolded>},
    {"Output", "what-if", "", "simulate again with each resource doubled: what would help", nullptr,
     flag_in<&O::what_if>},
};

constexpr SourceOption kSourceOptions[] = {
    {"Jobs", "jobs", "FILE", "several jobs with places, times and tenants", read_into<&S::jobs, read_text>},
    {"Jobs", "no-check", "", "simulate without looking for mismatches first", nullptr, flag_in<&S::no_check>},
    {"Chakra traces", "chakra", "PREFIX", "Chakra traces PREFIX.0.et, PREFIX.1.et, ...",
     read_into<&S::chakra, read_text>, nullptr, nullptr, nullptr, true},
    {"Chakra traces", "groups", "FILE", "process groups as JSON", read_into<&S::groups, read_text>},
    {"Chakra traces", "data-dependencies-only", "", "leave out control dependencies, as older ASTRA-sim feeders do",
     nullptr, flag_in<&S::data_dependencies_only>},
    {"Chakra traces", "gathered-total", "", "sizes of allgathers are of all shards together", nullptr,
     flag_in<&S::gathered_total>},
    {"Chakra traces", "flops", "RATE", "FLOP/s for nodes without a duration",
     read_into<&Reading::flop_per_second, rate>},
    {"Chakra traces", "memory-bandwidth", "RATE", "bytes/s for nodes without a duration",
     read_into<&Reading::bytes_per_second, rate>},
    {"Chakra traces", "dimensions", "LIST", "sizes of the logical dimensions of old traces, 2,4",
     read_into<&Reading::dimensions, dimensions>},
    {"PyTorch traces", "kineto", "LIST", "PyTorch traces (Kineto), one for each rank", read_into<&S::kineto, read_list>,
     nullptr, nullptr, nullptr, true},
    {"PyTorch traces", "host", "LIST", "PyTorch host traces beside them, in the same order",
     read_into<&S::host, read_list>, nullptr, nullptr, nullptr, true},
    {"Device", "gpu", "NAME", "take link efficiency and message cost from this device (default: full bandwidth, 5 us)",
     read_into<&S::gpu, read_text>, nullptr, devices},
    {"Device", "devices", "FILE", "devices that add to those built in, for --gpu and training steps of --jobs",
     read_into<&S::devices, read_text>},
};

}  // namespace

std::span<const JobOption> job_options() { return kJobOptions; }
std::span<const SourceOption> source_options() { return kSourceOptions; }

}  // namespace banyan::answer
