#include "banyan/answer/jobs_file.h"

#include "banyan/base/json_reader.h"
#include "banyan/base/place.h"
#include "banyan/base/plain_text.h"

namespace banyan::answer {
namespace {

constexpr JsonForm kForm{
    .name = "file of jobs", .format = "jobs/1", .depth = 8, .tells_lines = true};  // the format needs 4
constexpr size_t kMostJobs = 10'000;
constexpr size_t kMostName = 200;
constexpr uint64_t kMostBytes = 64 << 20;

std::string name_of(JsonNode node) {
  std::string name = node.text();
  if (name.size() > kMostName) throw node.error("is longer than " + std::to_string(kMostName) + " bytes");
  return name;
}

std::string path_of(JsonNode node) {
  std::string path = node.text();
  if (path.empty()) throw node.error("is empty; name a file");
  return path;
}

// How a value stands on a command line.
std::string word_of(JsonNode value) {
  if (value.is_text()) return value.text();
  if (value.is_number()) return value.in_words();
  throw value.error("is not a text or a number: it is " + value.in_words());
}

// {"model": "gpt3-175b", "tp": 8, "sequence-parallel": true} is `train --model gpt3-175b --tp 8 --sequence-parallel`.
predict::TrainOptions train_options_of(JsonNode json) {
  predict::TrainOptions options;
  for (const auto& [key, value] : json.members()) {
    const predict::TrainOption* const option = find_option(predict::train_options(), key);
    if (option == nullptr) throw json.error(predict::unknown_train_option(key));
    const OptionValue word = option->is_flag() ? OptionValue(value.boolean()) : word_of(value);
    value.placed([&] { set_train_option(options, *option, word); });
  }
  return options;
}

void read_what(JsonNode json, JobEntry& entry) {
  if (json.has("train") + json.has("goal") + json.has("chakra") != 1) {
    throw json.error("needs one of \"train\", \"goal\" and \"chakra\"");
  }
  if (const auto train = json.find("train")) entry.train = train_options_of(*train);
  if (const auto goal = json.find("goal")) entry.goal = path_of(*goal);
  if (const auto chakra = json.find("chakra")) entry.chakra = path_of(*chakra);
  if (const auto groups = json.find("groups")) {
    if (entry.chakra.empty()) throw groups->error("is of \"chakra\"; remove it");
    entry.groups = path_of(*groups);
  }
}

void read_where(JsonNode json, JobPlace& place) {
  if (const auto ranks = json.find("ranks")) {
    for (const char* other : {"placement", "seed"}) {
      if (const auto both = json.find(other)) throw both->error("says nothing beside \"ranks\"; remove one of them");
    }
    for (const JsonNode name : ranks->items()) place.ranks.push_back(name.text());
    if (place.ranks.empty()) throw ranks->error("is empty; name a place for each rank of the job");
  }
  if (const auto placement = json.find("placement")) place.placement = placement->parsed(predict::parse_placement_rule);
  if (const auto seed = json.find("seed")) place.seed = seed->whole();
}

JobEntry read_entry(JsonNode json) {
  json.with_keys({"name", "train", "goal", "chakra", "groups", "ranks", "placement", "seed", "start", "tenant",
                  "weight", "priority"});
  JobEntry entry;
  read_what(json, entry);
  read_where(json, entry.place);
  if (const auto name = json.find("name")) entry.name = name_of(*name);
  if (const auto tenant = json.find("tenant")) entry.tenant = name_of(*tenant);
  if (const auto start = json.find("start")) entry.start = start->duration();
  if (const auto weight = json.find("weight")) entry.weight = weight->number(1e-3, 1e6);
  if (const auto priority = json.find("priority")) entry.priority = static_cast<uint8_t>(priority->whole(0, 255));
  return entry;
}

}  // namespace

std::vector<JobEntry> parse_jobs_file(std::string_view json) {
  const JsonDocument document(json, kForm);
  const JsonNode jobs = document.root().with_keys({"banyan", "jobs"}).at("jobs");
  if (jobs.size() == 0 || jobs.size() > kMostJobs) {
    throw jobs.error("has " + std::to_string(jobs.size()) + " jobs; give 1 to " + std::to_string(kMostJobs));
  }
  std::vector<JobEntry> entries;
  for (const JsonNode entry : jobs.items()) entries.push_back(read_entry(entry));
  return entries;
}

std::vector<JobEntry> read_jobs_file(const std::string& path) {
  const std::string text = read_plain_text(path, kMostBytes).text;
  return at_place(path, [&] { return parse_jobs_file(text); });
}

}  // namespace banyan::answer
