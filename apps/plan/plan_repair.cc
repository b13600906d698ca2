#include "apps/plan/plan_repair.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/command.h"
#include "apps/plan/plan_progress.h"
#include "apps/report.h"
#include "banyan/answer/plan_check.h"
#include "banyan/answer/repair_answer.h"
#include "banyan/base/text.h"
#include "banyan/base/utf8.h"
#include "banyan/fabric/edit.h"

namespace banyan::app {
namespace {

constexpr size_t kMaxChangesShown = 12;

struct Repaired {
  answer::RepairAnswer answer;
  std::string plan;    // the file
  std::string fabric;  // described
};

std::string rate_words(const std::optional<Bandwidth>& rate) { return rate ? rate->to_string() : "no link"; }

// "gpu3-ib0: gone, it had 50 GB/s"; the two directions of a cable are told once.
std::vector<std::string> changes_in_words(const std::vector<plan::LinkChange>& links) {
  std::vector<std::string> words;
  std::vector<bool> told(links.size(), false);
  for (size_t i = 0; i < links.size(); ++i) {
    if (told[i]) continue;
    const plan::LinkChange& link = links[i];
    size_t back = i + 1;
    while (back < links.size() && (told[back] || links[back].from != link.to || links[back].to != link.from ||
                                   links[back].before != link.before || links[back].after != link.after))
      ++back;
    const bool both = back < links.size();
    if (both) told[back] = true;
    std::string text = harmless(link.from + (both ? "-" : " -> ") + link.to) + ": ";
    if (!link.after) {
      text += "gone, it had " + rate_words(link.before);
    } else if (!link.before) {
      text += "new, " + rate_words(link.after);
    } else {
      text += rate_words(link.after) + ", it had " + rate_words(link.before);
    }
    words.push_back(std::move(text));
  }
  return words;
}

std::string describe_changes(const plan::Repair& repair) {
  std::vector<std::string> words = changes_in_words(repair.links);
  for (const std::string& rank : repair.lost_ranks) words.insert(words.begin(), "rank " + harmless(rank) + ": gone");
  if (words.empty()) return "nothing: all links are as they were";
  std::string text;
  for (size_t i = 0; i < std::min(words.size(), kMaxChangesShown); ++i) text += (i > 0 ? "\n" : "") + words[i];
  if (words.size() > kMaxChangesShown)
    text += "\nand " + with_thousands(words.size() - kMaxChangesShown) + " more; see --json";
  return text;
}

std::string describe_trees(const plan::Repair& repair) {
  const uint64_t old = repair.trees_kept + repair.trees_patched + repair.trees_moved;
  const std::string height = ", height " + std::to_string(heights(repair.schedule).max) + " at most";
  if (repair.planned_anew()) {
    return std::to_string(repair.schedule.chunk_count()) + ", all planned anew: keeping any of the " +
           std::to_string(old) + " would cost too much" + height;
  }
  std::string text = std::to_string(repair.trees_kept) + " of " + std::to_string(old) + " stay, " +
                     std::to_string(repair.trees_patched) + " patched";
  if (repair.trees_patched > 0) {
    text += " (" + std::to_string(repair.edges_replaced) + " of their " + std::to_string(repair.edges_of_patched) +
            " edges are new)";
  }
  return text + ", " + std::to_string(repair.trees_moved) + " replaced" + height;
}

Json changes_json(const plan::Repair& repair) {
  Json links = Json::array();
  for (const plan::LinkChange& link : repair.links) {
    const auto rate = [](const std::optional<Bandwidth>& bandwidth) {
      return bandwidth ? Json(bandwidth->bytes_per_second()) : Json(nullptr);
    };
    links.push_back({{"from", link.from},
                     {"to", link.to},
                     {"before_bytes_per_second", rate(link.before)},
                     {"after_bytes_per_second", rate(link.after)}});
  }
  return links;
}

std::string as_json(const Repaired& repaired) {
  const plan::Repair& repair = repaired.answer.repair;
  const Fabric& fabric = repair.schedule.fabric();
  const Collective& collective = repair.schedule.collective();
  return format_json({{"collective", to_string(collective.kind())},
                      {"fabric", counts_json(fabric)},
                      {"bound", bound_json(repair.bound, fabric, collective)},
                      {"schedule", schedule_json(repair.schedule, repair.seconds_per_byte, repair.bound)},
                      {"seconds", {{"total", repaired.answer.seconds}}},
                      {"name", repaired.fabric},
                      {"fingerprint", fabric.fingerprint()},
                      {"repair",
                       {{"plan", repaired.plan},
                        {"planned_anew", repair.planned_anew()},
                        {"before",
                         {{"algbw_GBps", algbw_gigabytes(repair.seconds_per_byte_before)},
                          {"fraction", exact_algbw(repair.seconds_per_byte_before)}}},
                        {"trees_kept", repair.trees_kept},
                        {"trees_patched", repair.trees_patched},
                        {"trees_moved", repair.trees_moved},
                        {"edges_of_patched", repair.edges_of_patched},
                        {"edges_replaced", repair.edges_replaced},
                        {"links", changes_json(repair)},
                        {"lost_ranks", repair.lost_ranks}}}});
}

std::string as_text(const Terminal& terminal, const Repaired& repaired) {
  const plan::Repair& repair = repaired.answer.repair;
  const Fabric& fabric = repair.schedule.fabric();
  const Collective& collective = repair.schedule.collective();
  std::string text = labelled(terminal, std::string(to_string(collective.kind())),
                              "on " + repaired.fabric + ": " + describe_counts(fabric));
  text += labelled(terminal, "repairs",
                   harmless(repaired.plan) + ", which had " + format_algbw(repair.seconds_per_byte_before));
  text += labelled(terminal, "changed", describe_changes(repair));
  text += bound_text(terminal, repair.bound, fabric, collective);
  text += schedule_text(terminal, repair.seconds_per_byte, repair.bound);
  text += labelled(terminal, "trees", describe_trees(repair));
  text += labelled(terminal, "planned in", format_seconds(repaired.answer.seconds));
  return text;
}

// The fabric as it is now, and what reports call it.
Fabric fabric_now(const RepairRequest& request, const Fabric& planned) {
  Fabric now =
      request.fabric.given() ? request.fabric.load() : fabric::edit_fabric(planned, request.fabric.source().edits);
  return request.max_loss.without_lossy(std::move(now));
}

}  // namespace

void repair_plan_file(const Terminal& terminal, const RepairRequest& request) {
  check_output_place(request.output, request.json);
  std::optional<Repaired> repaired;
  {
    Progress progress(terminal, "reading the plan");
    const schedule::ScheduleFile file = answer::read_valid_plan(request.plan);
    const CollectiveKind kind = file.schedule.collective().kind();
    if (!request.collective.empty() && parse_collective_kind(request.collective, is_planned) != kind) {
      throw Error(ErrorCode::invalid_input,
                  "is a plan of " + std::string(to_string(kind)) + ", not of " + harmless(request.collective),
                  request.plan);
    }
    const Fabric now = fabric_now(request, file.schedule.fabric());
    if (!request.fabric.given()) request.fabric.set_text("the fabric of " + request.plan);
    PlanProgress watch(progress);
    repaired = Repaired{.answer = answer::repair_plan(file, now, &watch),
                        .plan = request.plan,
                        .fabric = request.fabric.described() + request.max_loss.described()};
    if (!request.output.empty()) {
      progress.say("writing the plan");
      answer::RepairAnswer& answer = repaired->answer;
      schedule::ScheduleFile written = to_file(std::move(answer));
      write_output(terminal, request.output, format_schedule(written));
      answer.repair.schedule = std::move(written.schedule);
    }
  }
  std::string text = request.json ? as_json(*repaired) : as_text(terminal, *repaired);
  if (!request.json) text += written(terminal, request.output);
  say_beside(terminal, request.output, text);
}

}  // namespace banyan::app
