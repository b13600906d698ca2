#include "apps/predict_job.h"

#include <deque>
#include <set>

#include "apps/predict_train.h"
#include "banyan/base/file.h"
#include "banyan/fabric/read.h"
#include "banyan/predict/job/chakra.h"
#include "banyan/predict/job/check.h"
#include "banyan/predict/job/goal.h"
#include "banyan/predict/job/kineto.h"
#include "banyan/predict/placement.h"
#include "banyan/predict/train/generate.h"

namespace banyan::app {
namespace {

constexpr uint64_t kMaxJobsFile = 64 << 20;
constexpr size_t kMostJobs = 10'000;
constexpr size_t kFindingsShown = 5;

// Links as they are, and a usual cost of a message, where no device is named.
constexpr LinkEfficiency kPlainLinks{.scale_up = 1, .network = 1, .latency = std::chrono::microseconds(5)};

Error in_jobs_file(const std::string& place, const std::string& message) {
  return Error(ErrorCode::invalid_input, place + ": " + message);
}

uint64_t seed_of(const JobTexts& texts) {
  return texts.seed.empty() ? 1 : parse_count(texts.seed, "--seed", {0, UINT64_MAX});
}

// Peaks per second for nodes that say FLOP and bytes but no time: "312T" is no bandwidth, so both take plain numbers.
double rate(const std::string& text, const char* option) {
  if (text.empty()) return 0;
  try {
    size_t used = 0;
    const double value = std::stod(text, &used);
    if (used == text.size() && value > 0 && value < 1e21) return value;
  } catch (const std::exception&) {
  }
  throw Error(ErrorCode::invalid_input, "'" + text.substr(0, 40) + "' is no rate; write it as 3.12e14", option);
}

ChakraOptions chakra_options(const TracedJobTexts& traced) {
  std::vector<uint32_t> dimensions;
  if (!traced.dimensions.empty()) {
    for (const std::string& size : split_list(traced.dimensions, "--dimensions")) {
      dimensions.push_back(static_cast<uint32_t>(parse_count(size, "--dimensions", {1, Job::kMaxRanks})));
    }
  }
  return {.control_dependencies = !traced.no_control,
          .gather_size = traced.gathered_total ? ChakraOptions::GatherSize::total : ChakraOptions::GatherSize::shard,
          .flop_per_second = rate(traced.flops, "--flops"),
          .bytes_per_second = rate(traced.memory, "--memory-bandwidth"),
          .dimensions = std::move(dimensions)};
}

LinkEfficiency links_of(const TracedJobTexts& traced) {
  if (traced.gpu.empty()) return kPlainLinks;
  return parse_option("--gpu", [&] { return DeviceTable::builtin().at(traced.gpu).links; });
}

Job read_kineto(const TracedJobTexts& traced, std::string& notes) {
  const std::vector<std::string> kineto = split_list(traced.kineto, "--kineto");
  const std::vector<std::string> host =
      traced.host.empty() ? std::vector<std::string>() : split_list(traced.host, "--host");
  if (!host.empty() && host.size() != kineto.size()) {
    throw Error(ErrorCode::invalid_input,
                std::to_string(host.size()) + " files, but --kineto has " + std::to_string(kineto.size()) +
                    "; give one for each rank",
                "--host");
  }
  std::vector<RankTraces> ranks;
  for (size_t i = 0; i < kineto.size(); ++i) {
    ranks.push_back({.kineto = kineto[i], .host = host.empty() ? "" : host[i]});
  }
  KinetoJob read = read_kineto_job(ranks);
  for (const std::string& line : read.report.lines()) notes += line + "\n";
  return std::move(read.job);
}

Job read_job(const TracedJobTexts& traced, std::string& notes) {
  const int given = !traced.goal.empty() + !traced.chakra.empty() + !traced.kineto.empty() + !traced.jobs.empty();
  if (given != 1) {
    throw Error(ErrorCode::invalid_input,
                "give one of TRACE.goal, --chakra, --kineto and --jobs; see 'banyan predict job --help'");
  }
  if (!traced.goal.empty()) return read_goal(traced.goal);
  if (!traced.chakra.empty())
    return read_chakra(find_chakra_files(traced.chakra), traced.groups, chakra_options(traced));
  return read_kineto(traced, notes);
}

void expect_sound(const Job& job, const std::string& name) {
  const std::vector<JobFinding> findings = check_job(job);
  if (findings.empty()) return;
  std::string text = "cannot be carried out: ";
  for (size_t i = 0; i < std::min(findings.size(), kFindingsShown); ++i) text += (i > 0 ? "; " : "") + findings[i].text;
  if (findings.size() > kFindingsShown) text += "; and " + std::to_string(findings.size() - kFindingsShown) + " more";
  throw Error(ErrorCode::invalid_input, text, name);
}

// ---- Several jobs

// The keys of an object, and nothing else.
class Fields {
 public:
  Fields(const Json& json, std::string place, std::set<std::string> known) : json_(json), place_(std::move(place)) {
    if (!json.is_object()) throw in_jobs_file(place_, "is no object");
    for (const auto& [key, value] : json.items()) {
      if (known.count(key) == 0) throw in_jobs_file(place_, "key '" + key.substr(0, 40) + "' is not known");
    }
  }
  bool has(const std::string& key) const { return json_.contains(key); }
  std::string text(const std::string& key, const std::string& otherwise) const {
    if (!has(key)) return otherwise;
    if (!json_[key].is_string()) throw in_jobs_file(at(key), "is no text");
    return json_[key].get<std::string>();
  }
  double number(const std::string& key, double least, double most, double otherwise) const {
    if (!has(key)) return otherwise;
    if (json_[key].is_number() && json_[key].get<double>() >= least && json_[key].get<double>() <= most) {
      return json_[key].get<double>();
    }
    throw in_jobs_file(at(key), "is no number from " + format_decimals(least, 3) + " to " + format_decimals(most, 0));
  }
  const Json& operator[](const std::string& key) const { return json_[key]; }
  std::string at(const std::string& key) const { return place_ + "." + key; }

 private:
  const Json& json_;
  const std::string place_;
};

// {"model": "gpt3-175b", "tp": 8, "sequence-parallel": true} is `train --model gpt3-175b --tp 8 --sequence-parallel`.
TrainSetup train_setup_of(const Json& options, const std::string& place) {
  if (!options.is_object()) throw in_jobs_file(place, "is no object of options of 'banyan predict train'");
  CLI::App command("train", "train");
  TrainTexts texts;
  declare_train_options(command, texts);
  std::vector<std::string> words;
  for (const auto& [key, value] : options.items()) {
    if (value.is_boolean()) {
      if (value.get<bool>()) words.push_back("--" + key);
      continue;
    }
    words.push_back("--" + key);
    words.push_back(value.is_string() ? value.get<std::string>() : value.dump());
  }
  std::reverse(words.begin(), words.end());  // as CLI11 wants them
  try {
    command.parse(words);
  } catch (const CLI::ParseError& error) {
    throw in_jobs_file(place, error.what());
  }
  try {
    return make_train_setup(texts);
  } catch (const Error& error) {
    throw error.within(place);
  }
}

// Jobs must stay where they are while they are simulated.
struct JobsFile {
  std::deque<Job> jobs;
  std::vector<PlacedJob> placed;
  LinkEfficiency links = kPlainLinks;
};

std::vector<NodeId> place_one(const Fields& fields, const Fabric& fabric, Placement& placement, const Job& job,
                              const JobTexts& texts) {
  if (!fields.has("ranks")) {
    const PlacementRule rule = parse_placement_rule(fields.text("placement", texts.placement));
    const double seed = fields.number("seed", 0, 1e15, static_cast<double>(seed_of(texts)));
    return placement.take(job.rank_count(), rule, static_cast<uint64_t>(seed));
  }
  std::vector<NodeId> nodes;
  if (!fields["ranks"].is_array()) throw in_jobs_file(fields.at("ranks"), "is no list of names");
  for (const Json& name : fields["ranks"]) {
    if (!name.is_string()) throw in_jobs_file(fields.at("ranks"), "holds something that is no name");
    nodes.push_back(fabric.at(name.get<std::string>()));
  }
  if (nodes.size() != job.rank_count()) {
    throw in_jobs_file(fields.at("ranks"), std::to_string(nodes.size()) + " names for a job of " +
                                               std::to_string(job.rank_count()) + " ranks");
  }
  placement.take(nodes);
  return nodes;
}

void read_one(const Json& json, const std::string& place, const Fabric& fabric, Placement& placement,
              const TracedJobTexts& traced, const JobTexts& texts, JobsFile& file) {
  const Fields fields(json, place,
                      {"name", "train", "goal", "chakra", "groups", "ranks", "placement", "seed", "start", "tenant",
                       "weight", "priority"});
  if (fields.has("train") + fields.has("goal") + fields.has("chakra") != 1) {
    throw in_jobs_file(place, "give one of 'train', 'goal' and 'chakra'");
  }
  if (fields.has("train")) {
    const TrainSetup setup = train_setup_of(fields["train"], fields.at("train"));
    if (traced.gpu.empty()) file.links = setup.device.links;
    file.jobs.push_back(generate_training_step(setup.config, setup.device));
  } else if (fields.has("goal")) {
    file.jobs.push_back(read_goal(fields.text("goal", "")));
  } else {
    file.jobs.push_back(
        read_chakra(find_chakra_files(fields.text("chakra", "")), fields.text("groups", ""), chakra_options(traced)));
  }
  const Job& job = file.jobs.back();
  if (!fields.has("train") && !traced.no_check) expect_sound(job, place);
  PlacedJob placed{.job = &job, .nodes = place_one(fields, fabric, placement, job, texts)};
  placed.name = fields.text("name", job.name());
  placed.tenant = fields.text("tenant", "");
  placed.weight = fields.number("weight", 1e-3, 1e6, 1);
  placed.priority = static_cast<uint8_t>(fields.number("priority", 0, 255, 0));
  if (fields.has("start")) placed.start = parse_duration(fields.text("start", ""));
  file.placed.push_back(std::move(placed));
}

JobsFile read_jobs(const std::string& path, const Fabric& fabric, const TracedJobTexts& traced, const JobTexts& texts) {
  const std::string text = read_file(path, kMaxJobsFile);
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::invalid_input, error.what(), path);
  }
  const auto read = [&] {
    const Fields file(json, "the file", {"banyan", "jobs"});
    if (file.text("banyan", "") != "jobs/1") throw in_jobs_file("banyan", "is not \"jobs/1\"");
    if (!file.has("jobs") || !file["jobs"].is_array() || file["jobs"].empty() || file["jobs"].size() > kMostJobs) {
      throw in_jobs_file("jobs", "is no list of 1 to " + std::to_string(kMostJobs) + " jobs");
    }
    JobsFile result;
    result.links = links_of(traced);
    Placement placement(fabric);
    for (size_t i = 0; i < file["jobs"].size(); ++i) {
      const std::string place = "jobs[" + std::to_string(i) + "]";
      try {
        read_one(file["jobs"][i], place, fabric, placement, traced, texts, result);
      } catch (const Error& error) {
        throw error.where().starts_with(place) || error.message().starts_with(place) ? error : error.within(place);
      }
    }
    return result;
  };
  try {
    return read();
  } catch (const Error& error) {
    throw error.within(path);
  }
}

}  // namespace

void declare_traced_job_options(CLI::App& command, TracedJobTexts& texts) {
  const auto add = [&](const char* name, std::string& value, const char* type, const char* help) {
    command.add_option(name, value, help)->type_name(type);
  };
  add("TRACE", texts.goal, "FILE", "a job in GOAL (LogGOPSim, ATLAHS)");
  add("--chakra", texts.chakra, "PREFIX", "Chakra traces PREFIX.0.et, PREFIX.1.et, ...");
  add("--groups", texts.groups, "FILE", "of Chakra: process groups as JSON");
  command.add_flag("--data-dependencies-only", texts.no_control, "of Chakra: as older ASTRA-sim feeders read them");
  command.add_flag("--gathered-total", texts.gathered_total,
                   "of Chakra: sizes of all-gathers are of all shards together");
  add("--flops", texts.flops, "RATE", "of Chakra: FLOP/s for nodes without a duration");
  add("--memory-bandwidth", texts.memory, "RATE", "of Chakra: bytes/s for nodes without a duration");
  add("--dimensions", texts.dimensions, "LIST", "of Chakra: sizes of the logical dimensions of old traces, 2,4");
  add("--kineto", texts.kineto, "LIST", "PyTorch traces (Kineto), one for each rank");
  add("--host", texts.host, "LIST", "PyTorch host traces beside them, in the same order");
  add("--jobs", texts.jobs, "FILE", "several jobs with places, times and tenants");
  add("--gpu", texts.gpu, "NAME", "what links give and messages cost with this device (default: all of it, 5 us)");
  command.add_flag("--no-check", texts.no_check, "simulate without looking for mismatches first");
}

PlacedJob place_job(const Job& job, const Fabric& fabric, const JobTexts& texts) {
  const PlacementRule rule = parse_option("--placement", [&] { return parse_placement_rule(texts.placement); });
  PlacedJob placed{.job = &job, .nodes = Placement(fabric).take(job.rank_count(), rule, seed_of(texts))};
  placed.name = job.name();
  return placed;
}

ExitCode run_traced_job(const Terminal& terminal, const TracedJobTexts& traced, const JobTexts& texts) {
  if (texts.fabric.empty())
    throw Error(ErrorCode::invalid_input, "say on what: a fabric such as dgx-a100:4", "--fabric");
  const Fabric fabric = parse_option("--fabric", [&] { return load_fabric({.fabric = texts.fabric}); });
  std::string notes;
  std::optional<Job> job;
  JobsFile file;
  file.links = links_of(traced);
  if (traced.jobs.empty()) {
    job = read_job(traced, notes);
    if (!traced.no_check) expect_sound(*job, job->name());
    file.placed.push_back(place_job(*job, fabric, texts));
  } else {
    file = read_jobs(traced.jobs, fabric, traced, texts);
  }
  JobQuestion question{.title = (job ? job->name() : counted(file.placed.size(), "job")) + " on " + texts.fabric,
                       .fabric = fabric,
                       .jobs = file.placed,
                       .going = {.links = file.links, .measured = load_costs(texts), .algorithm = texts.algorithm}};
  JobAnswer answer = simulate_question(question, texts, terminal);
  const std::string written = write_reports(question, answer, texts, terminal);
  if (texts.json) {
    Json report = answer_json(question, answer);
    if (!notes.empty()) report["linking"] = notes;
    terminal.print(report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  } else {
    terminal.print(labelled(terminal, "job", question.title) +
                   (notes.empty() ? "" : labelled(terminal, "linked", notes)) +
                   format_answer(question, answer, terminal) + written);
  }
  return ExitCode::success;
}

}  // namespace banyan::app
