#include "apps/predict/predict_job.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <utility>

#include "apps/lists.h"
#include "apps/report.h"
#include "banyan/answer/train_step.h"
#include "banyan/base/plain_text.h"
#include "banyan/base/text.h"
#include "banyan/base/utf8.h"
#include "banyan/fabric/read.h"
#include "banyan/job/chakra/chakra.h"
#include "banyan/job/check.h"
#include "banyan/job/goal/goal.h"
#include "banyan/job/kineto/kineto.h"
#include "banyan/predict/simulation/placement.h"
#include "banyan/predict/train/generate.h"

namespace banyan::app {
namespace {

constexpr uint64_t kMaxJobsFile = 64 << 20;
constexpr size_t kFindingsShown = 5;

// Links as they are, and a usual cost of a message, where no device is named.
constexpr predict::LinkEfficiency kPlainLinks{.scale_up = 1, .network = 1, .latency = std::chrono::microseconds(5)};

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

void add_note(std::vector<std::string>& notes, const std::string& note) {
  if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
}

job::chakra::Options chakra_options(const TracedJobTexts& traced) {
  std::vector<uint32_t> dimensions;
  if (!traced.dimensions.empty()) {
    for (const std::string& size : split_list(traced.dimensions, "--dimensions")) {
      dimensions.push_back(static_cast<uint32_t>(parse_count(size, "--dimensions", {1, Job::kMaxRanks})));
    }
  }
  return {.control_dependencies = !traced.no_control,
          .gather_size =
              traced.gathered_total ? job::chakra::Options::GatherSize::total : job::chakra::Options::GatherSize::shard,
          .flop_per_second = rate(traced.flops, "--flops"),
          .bytes_per_second = rate(traced.memory, "--memory-bandwidth"),
          .dimensions = std::move(dimensions)};
}

// Those of --gpu, and a note where they are another's.
predict::LinkEfficiency links_of(const TracedJobTexts& traced, std::vector<std::string>& notes) {
  if (!traced.devices.empty() && traced.gpu.empty() && traced.jobs.empty()) {
    throw Error(ErrorCode::invalid_input, "says nothing without --gpu; name one of its devices", "--devices");
  }
  const predict::DeviceTable devices = answer::load_devices(traced.devices);
  if (traced.gpu.empty()) return kPlainLinks;
  const predict::Device& device =
      parse_option("--gpu", [&]() -> const predict::Device& { return devices.at(traced.gpu); });
  if (!device.links_of.empty()) add_note(notes, borrowed_figures(device));
  return device.links;
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
  std::vector<job::kineto::RankTraces> ranks;
  for (size_t i = 0; i < kineto.size(); ++i) {
    ranks.push_back({.kineto = kineto[i], .host = host.empty() ? "" : host[i]});
  }
  job::kineto::LinkedJob read = job::kineto::read_job(ranks);
  for (const std::string& line : read.report.lines()) notes += line + "\n";
  return std::move(read.job);
}

Job read_job(const TracedJobTexts& traced, std::string& notes) {
  const int given = !traced.goal.empty() + !traced.chakra.empty() + !traced.kineto.empty() + !traced.jobs.empty();
  if (given != 1) {
    throw Error(ErrorCode::invalid_input,
                "give one of TRACE.goal, --chakra, --kineto and --jobs; see 'banyan predict job --help'");
  }
  if (!traced.goal.empty()) return job::goal::read_job(traced.goal);
  if (!traced.chakra.empty())
    return job::chakra::read_job(job::chakra::find_files(traced.chakra), traced.groups, chakra_options(traced));
  return read_kineto(traced, notes);
}

// A send that waits for its receive, where others do not.
bool has_large_send(const Job& job, Bytes eager) {
  return std::any_of(job.programs().begin(), job.programs().end(), [&](const job::Program& program) {
    return std::any_of(program.nodes.begin(), program.nodes.end(), [&](const job::Node& node) {
      return node.kind == job::NodeKind::send && node.bytes > eager.count();
    });
  });
}

void expect_sound(const Job& job, Bytes eager, const std::string& name) {
  const std::vector<job::Finding> findings = check_job(job, {.eager = eager});
  if (findings.empty()) return;
  std::string text = "cannot be carried out: ";
  for (size_t i = 0; i < std::min(findings.size(), kFindingsShown); ++i) text += (i > 0 ? "; " : "") + findings[i].text;
  if (findings.size() > kFindingsShown) text += "; and " + std::to_string(findings.size() - kFindingsShown) + " more";
  const bool hangs = std::any_of(findings.begin(), findings.end(), [](const job::Finding& finding) {
    return finding.kind == job::Finding::Kind::deadlock;
  });
  if (hangs && has_large_send(job, eager)) {
    text += "; sends above " + eager.to_string() + " wait for their receive (--eager SIZE lets larger ones go)";
  }
  throw Error(ErrorCode::invalid_input, text, name);
}

// ---- Several jobs

// Jobs must stay where they are while they are simulated.
struct JobsFile {
  std::deque<Job> jobs;
  std::vector<predict::PlacedJob> placed;
  predict::LinkEfficiency links = kPlainLinks;
  std::vector<std::string> notes = {};
};

// `place` is told the number of ranks before a step is generated, which may take memory by the gigabyte.
Job make_job(const answer::JobEntry& entry, const TracedJobTexts& traced, std::string_view fabric, JobsFile& file,
             const std::function<void(uint32_t ranks)>& place) {
  if (entry.train) {
    predict::TrainOptions train = *entry.train;
    if (train.devices.empty()) train.devices = traced.devices;
    const answer::TrainSetup setup = answer::make_train_setup(train, fabric);
    place(static_cast<uint32_t>(setup.config.ranks()));
    const predict::MemoryReport memory = predict::memory_report(setup.config, setup.device);
    if (!memory.fits && !train.ignore_memory) throw Error(ErrorCode::unsupported, misfit(setup, memory));
    if (traced.gpu.empty()) file.links = setup.device.links;
    for (const std::string& note : setup.notes) add_note(file.notes, note);
    if (setup.compress && !setup.compress->is_dense()) {
      throw Error(ErrorCode::unsupported,
                  "\"compress\" is for 'banyan predict train'; jobs of a file reduce gradients "
                  "as they are");
    }
    return generate_training_step(setup.config, setup.device);
  }
  Job job = entry.goal.empty()
                ? job::chakra::read_job(job::chakra::find_files(entry.chakra), entry.groups, chakra_options(traced))
                : job::goal::read_job(entry.goal);
  place(job.rank_count());
  return job;
}

JobsFile read_jobs(const std::string& path, const Fabric& fabric, const TracedJobTexts& traced, const JobTexts& texts) {
  JobsFile file;
  file.links = links_of(traced, file.notes);
  predict::Placement placement(fabric);
  const std::string text = read_plain_text(path, kMaxJobsFile).text;
  const std::vector<answer::JobEntry> entries = parse_option(path, [&] { return answer::parse_jobs_file(text); });
  for (size_t i = 0; i < entries.size(); ++i) {
    const answer::JobEntry& entry = entries[i];
    const auto add = [&] {
      std::vector<NodeId> nodes;
      const auto place = [&](uint32_t ranks) { nodes = take_places(placement, fabric, ranks, entry.place, texts); };
      const Job& job = file.jobs.emplace_back(make_job(entry, traced, texts.fabric, file, place));
      if (!entry.train && !traced.no_check) expect_sound(job, eager_of(texts), "");
      file.placed.push_back({.job = &job,
                             .nodes = std::move(nodes),
                             .name = entry.name.empty() ? job.name() : entry.name,
                             .tenant = entry.tenant,
                             .start = entry.start,
                             .weight = entry.weight,
                             .priority = entry.priority});
    };
    parse_option(path + " jobs[" + std::to_string(i) + "]", add);
  }
  return file;
}

}  // namespace

void declare_traced_job_options(CommandSyntax& command, TracedJobTexts& texts) {
  command.word("TRACE", &texts.goal, "a job in GOAL (LogGOPSim, ATLAHS)").paths = OptionSyntax::Paths::files;
  command.group("Jobs");
  command.option("--jobs", &texts.jobs, "FILE", "several jobs with places, times and tenants");
  command.flag("--no-check", texts.no_check, "simulate without looking for mismatches first");
  command.group("Chakra traces");
  command.option("--chakra", &texts.chakra, "PREFIX", "Chakra traces PREFIX.0.et, PREFIX.1.et, ...").paths =
      OptionSyntax::Paths::files;
  command.option("--groups", &texts.groups, "FILE", "process groups as JSON");
  command.flag("--data-dependencies-only", texts.no_control,
               "leave out control dependencies, as older ASTRA-sim feeders do");
  command.flag("--gathered-total", texts.gathered_total, "sizes of allgathers are of all shards together");
  command.option("--flops", &texts.flops, "RATE", "FLOP/s for nodes without a duration");
  command.option("--memory-bandwidth", &texts.memory, "RATE", "bytes/s for nodes without a duration");
  command.option("--dimensions", &texts.dimensions, "LIST", "sizes of the logical dimensions of old traces, 2,4");
  command.group("PyTorch traces");
  for (OptionSyntax* const files :
       {&command.option("--kineto", &texts.kineto, "LIST", "PyTorch traces (Kineto), one for each rank"),
        &command.option("--host", &texts.host, "LIST", "PyTorch host traces beside them, in the same order")}) {
    files->paths = OptionSyntax::Paths::files;
    files->is_list = true;
  }
  command.group("Device");
  command
      .option("--gpu", &texts.gpu, "NAME",
              "take link efficiency and message cost from this device (default: full bandwidth, 5 us)")
      .values = device_names();
  command.option("--devices", &texts.devices, "FILE",
                 "devices that add to those built in, for --gpu and training steps of --jobs");
  command.group("Options");
}

ExitCode run_traced_job(const Terminal& terminal, const TracedJobTexts& traced, const JobTexts& texts) {
  if (texts.fabric.empty())
    throw Error(ErrorCode::invalid_input, "is required: a fabric such as dgx-a100:4", "--fabric");
  const Fabric fabric = parse_option("--fabric", [&] { return fabric::load_fabric({.fabric = texts.fabric}); });
  std::string notes;
  std::optional<Job> job;
  JobsFile file;
  if (traced.jobs.empty()) {
    file.links = links_of(traced, file.notes);
    job = read_job(traced, notes);
    if (!traced.no_check) expect_sound(*job, eager_of(texts), job->name());
    file.placed.push_back(answer::place_job(*job, fabric, {}, texts));
  } else {
    file = read_jobs(traced.jobs, fabric, traced, texts);
  }
  answer::JobQuestion question{
      .title = harmless((job ? job->name() : plural(file.placed.size(), "job")) + " on " + texts.fabric),
      .fabric = fabric,
      .jobs = file.placed,
      .communication = {.links = file.links, .measured = load_costs(texts), .algorithm = texts.algorithm},
      .notes = file.notes};
  for (size_t at = 0; at < notes.size(); at = notes.find('\n', at) + 1) {
    question.notes.push_back("linked: " + notes.substr(at, notes.find('\n', at) - at));
  }
  check_output_places({{"--output", texts.output}, {"--html", texts.html}, {"--trace", texts.trace}});
  const answer::JobAnswer answer =
      watched(terminal, [&](answer::JobObserver& observer) { return simulate_question(question, texts, observer); });
  const predict::ReportInput report = report_of(question, answer);
  const std::string written = write_reports(report, texts, terminal);
  if (texts.json) {
    terminal.print(answer_json(report));
  } else {
    terminal.print(labelled(terminal, "job", question.title) + format_answer(question, answer, terminal) + written);
  }
  return exit_code(answer);
}

}  // namespace banyan::app
