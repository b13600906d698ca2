#include "banyan/answer/read_jobs.h"

#include <algorithm>
#include <utility>

#include "banyan/answer/jobs_file.h"
#include "banyan/answer/train_step.h"
#include "banyan/base/place.h"
#include "banyan/base/text.h"
#include "banyan/base/utf8.h"
#include "banyan/job/chakra/chakra.h"
#include "banyan/job/check.h"
#include "banyan/job/goal/goal.h"
#include "banyan/job/kineto/kineto.h"
#include "banyan/predict/train/generate.h"

namespace banyan::answer {
namespace {

constexpr size_t kFindingsShown = 5;

// Links as they are, and a usual cost of a message, where no device is named.
constexpr predict::LinkEfficiency kPlainLinks{.scale_up = 1, .network = 1, .latency = std::chrono::microseconds(5)};

void add_note(std::vector<std::string>& notes, const std::string& note) {
  if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
}

// Those of --gpu, and a note where they are another's.
predict::LinkEfficiency links_of(const JobSource& source, std::vector<std::string>& notes) {
  if (!source.devices.empty() && source.gpu.empty() && source.jobs.empty()) {
    throw Error(ErrorCode::invalid_input, "says nothing without --gpu; name one of its devices", "--devices");
  }
  const predict::DeviceTable devices = load_devices(source.devices);
  if (source.gpu.empty()) return kPlainLinks;
  const predict::Device& device =
      parse_option("--gpu", [&]() -> const predict::Device& { return devices.at(source.gpu); });
  if (!device.links_of.empty()) add_note(notes, borrowed_figures(device));
  return device.links;
}

Job read_chakra(const JobSource& source, const std::string& prefix, const std::string& groups) {
  using GatherSize = job::chakra::Options::GatherSize;
  job::chakra::Options reading = source.reading;
  reading.control_dependencies = !source.data_dependencies_only;
  reading.gather_size = source.gathered_total ? GatherSize::total : GatherSize::shard;
  return job::chakra::read_job(job::chakra::find_files(prefix), groups, reading);
}

Job read_kineto(const JobSource& source, std::vector<std::string>& notes) {
  const std::vector<std::string>&kineto = source.kineto, &host = source.host;
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
  for (const std::string& line : read.report.lines()) notes.push_back("linked: " + line);
  return std::move(read.job);
}

Job read_trace(const JobSource& source, std::vector<std::string>& notes) {
  if (!source.goal.empty()) return job::goal::read_job(source.goal);
  if (!source.chakra.empty()) return read_chakra(source, source.chakra, source.groups);
  return read_kineto(source, notes);
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

const Job& keep(JobQuestion& question, Job job) {
  return *question.kept.emplace_back(std::make_shared<const Job>(std::move(job)));
}

// Adds the jobs of a file to a question, in their order.
struct JobsReader {
  const JobsOnFabric& asked;
  const JobOptions& options;
  JobQuestion& question;
  predict::Placement free;

  void add(const JobEntry& entry) {
    std::vector<NodeId> nodes;
    const Job& job = keep(question, entry.train ? make_step(entry, nodes) : read_entry(entry, nodes));
    question.jobs.push_back({.job = &job,
                             .nodes = std::move(nodes),
                             .name = entry.name.empty() ? job.name() : entry.name,
                             .tenant = entry.tenant,
                             .start = entry.start,
                             .weight = entry.weight,
                             .priority = entry.priority});
  }

  // The places are taken before the step is generated, which may take memory by the gigabyte.
  Job make_step(const JobEntry& entry, std::vector<NodeId>& nodes) {
    predict::TrainOptions train = *entry.train;
    if (train.devices.empty()) train.devices = asked.source.devices;
    const TrainSetup setup = make_train_setup(train, asked.fabric_name);
    nodes = take_places(free, static_cast<uint32_t>(setup.config.ranks()), entry.place, options);
    const predict::MemoryReport memory = predict::memory_report(setup.config, setup.device);
    if (!memory.fits && !train.ignore_memory) throw Error(ErrorCode::unsupported, misfit(setup, memory));
    if (asked.source.gpu.empty()) question.communication.links = setup.device.links;
    for (const std::string& note : setup.notes) add_note(question.notes, note);
    if (setup.compress && !setup.compress->is_dense()) {
      throw Error(ErrorCode::unsupported,
                  "\"compress\" is for 'banyan predict train'; jobs of a file reduce gradients as they are");
    }
    return generate_training_step(setup.config, setup.device);
  }

  Job read_entry(const JobEntry& entry, std::vector<NodeId>& nodes) {
    Job job =
        entry.goal.empty() ? read_chakra(asked.source, entry.chakra, entry.groups) : job::goal::read_job(entry.goal);
    nodes = take_places(free, job.rank_count(), entry.place, options);
    if (!asked.source.no_check) expect_sound(job, options.simulation.eager, "");
    return job;
  }
};

}  // namespace

JobQuestion read_jobs(const JobsOnFabric& asked, const JobOptions& options) {
  const JobSource& source = asked.source;
  if (!source.goal.empty() + !source.chakra.empty() + !source.kineto.empty() + !source.jobs.empty() != 1) {
    throw invalid("give one of TRACE.goal, --chakra, --kineto and --jobs");
  }
  JobQuestion question{.title = {}, .fabric = asked.fabric, .jobs = {}, .communication = {}};
  question.communication.links = links_of(source, question.notes);
  if (source.jobs.empty()) {
    const Job& job = keep(question, read_trace(source, question.notes));
    if (!source.no_check) expect_sound(job, options.simulation.eager, job.name());
    question.jobs = {place_job(job, asked.fabric, {}, options)};
    question.title = job.name();
  } else {
    const std::vector<JobEntry> entries = read_jobs_file(source.jobs);
    JobsReader reader{asked, options, question, predict::Placement(asked.fabric)};
    for (size_t i = 0; i < entries.size(); ++i) {
      at_place(source.jobs + " jobs[" + std::to_string(i) + "]", [&] { reader.add(entries[i]); });
    }
    question.title = plural(question.jobs.size(), "job");
  }
  question.title = harmless(question.title + " on " + asked.fabric_name);
  question.communication.measured = load_costs(options);
  question.communication.algorithm = options.algorithm;
  return question;
}

}  // namespace banyan::answer
