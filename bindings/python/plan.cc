// banyan._core.Plan and Bound: planning, the bound, comparison, plan files, pictures and exports.
#include <pybind11/stl.h>

#include <optional>

#include "banyan/answer/plan_answer.h"
#include "banyan/answer/plan_check.h"
#include "banyan/answer/repair_answer.h"
#include "banyan/base/file.h"
#include "banyan/fabric/rank_names.h"
#include "banyan/picture/picture.h"
#include "banyan/plan/bound/assumed_links.h"
#include "banyan/plan/choose.h"
#include "banyan/plan/compare.h"
#include "banyan/plan/planner.h"
#include "banyan/schedule/cost.h"
#include "banyan/schedule/export.h"
#include "bindings/python/values.h"
#include "bindings/python/watch.h"

namespace banyan::python {
namespace {

namespace py = pybind11;
using namespace py::literals;

// A bound with the fabric that it is of.
struct FabricBound {
  Fabric fabric;
  Collective collective;
  std::shared_ptr<const Bound> bound;
};

std::vector<std::string> names_of(const Fabric& fabric, std::span<const NodeId> nodes) {
  std::vector<std::string> names;
  for (const NodeId node : nodes) names.push_back(fabric.name(node));
  return names;
}

SharedPlan shared(schedule::ScheduleFile&& file, std::shared_ptr<const Bound> bound = nullptr) {
  return {.file = std::make_shared<const schedule::ScheduleFile>(std::move(file)), .bound = std::move(bound)};
}

SharedPlan make_plan(const Fabric& fabric, const CollectiveWords& words, std::optional<uint64_t> trees,
                     std::optional<uint32_t> max_height, bool lower, const std::string& bytes,
                     const py::object& progress) {
  Watch watch(progress);
  const Bytes total = bytes.empty() ? Bytes() : Bytes::parse(bytes);
  answer::PlanAnswer answer = answer::make_plan(
      fabric, words.on(fabric), {.trees = trees, .max_height = max_height, .lower = lower, .observer = &watch});
  if (!bytes.empty()) choose_by_simulation(answer, total, &watch, &watch);
  auto bound = std::make_shared<const Bound>(answer.plan.bound);
  return shared(to_file(std::move(answer)), std::move(bound));
}

FabricBound make_bound(const Fabric& fabric, const CollectiveWords& words, const py::object& progress) {
  Watch watch(progress);
  const Collective collective = words.on(fabric);
  watch.phase_begins(plan::PlanObserver::Phase::bound);
  return {.fabric = fabric,
          .collective = collective,
          .bound = std::make_shared<const Bound>(plan::compute_bound(fabric, collective, &watch))};
}

// The plans that are best for some size.
std::vector<SharedPlan> candidates(const Fabric& fabric, const CollectiveWords& words, const py::object& progress) {
  Watch watch(progress);
  std::vector<SharedPlan> plans;
  for (plan::Candidate& candidate : plan::plan_candidates(fabric, words.on(fabric), &watch)) {
    const Fraction seconds = seconds_per_byte(candidate.schedule);
    plans.push_back(shared({.schedule = std::move(candidate.schedule),
                            .planner = std::move(candidate.planner),
                            .claimed_seconds_per_byte = seconds,
                            .bound_seconds_per_byte = {}}));
  }
  return plans;
}

py::list compare(const SharedPlan& forest, const std::vector<uint64_t>& sizes, const py::object& progress) {
  std::vector<Bytes> bytes;
  for (const uint64_t size : sizes) bytes.emplace_back(size);
  std::vector<plan::ComparisonRow> rows;
  {
    Watch watch(progress);
    rows = compare_planners(forest.schedule(), {.bound = *forest.bound, .sizes = bytes}, &watch);
  }
  const py::object type = record("ComparedPlanner");
  py::list result;
  for (const plan::ComparisonRow& row : rows) {
    py::dict estimates;
    for (size_t i = 0; i < row.estimate_seconds.size(); ++i) estimates[py::int_(sizes[i])] = row.estimate_seconds[i];
    result.append(type("planner"_a = row.planner, "why_not"_a = row.why_not,
                       "seconds_per_byte"_a = row.why_not.empty() ? to_python(row.seconds_per_byte) : py::none(),
                       "times_bound"_a = row.over_bound, "height"_a = row.heights.max,
                       "mean_height"_a = row.heights.mean, "trees"_a = row.chunks, "estimates"_a = estimates));
  }
  return result;
}

// Valid, the reason why not, the busiest link, the bound.
py::tuple verify(const SharedPlan& plan, const std::optional<Fabric>& fabric, const std::string& fabric_name,
                 const std::string& where, const py::object& progress) {
  answer::Examination examined;
  {
    Watch watch(progress);
    if (fabric) answer::require_same_fabric(*plan.file, where, *fabric, fabric_name);
    examined = answer::examine(*plan.file, &watch);
  }
  const schedule::Verdict& verdict = examined.verdict;
  if (!verdict.valid) return py::make_tuple(false, verdict.reason, py::none(), py::none());
  return py::make_tuple(true, "", index(verdict.busiest),
                        FabricBound{.fabric = plan.fabric(),
                                    .collective = plan.collective(),
                                    .bound = std::make_shared<const Bound>(std::move(examined.bound))});
}

// Kept by the plan, which is looked at with the interpreter's lock held only.
FabricBound bound_of(SharedPlan& plan, const py::object& progress) {
  FabricBound of{.fabric = plan.fabric(), .collective = plan.collective(), .bound = plan.bound};
  if (of.bound) return of;
  {
    Watch watch(progress);
    of.bound = std::make_shared<const Bound>(plan::compute_bound(of.fabric, of.collective, &watch));
  }
  plan.bound = of.bound;
  return of;
}

py::list hops_of(const Schedule& schedule, std::span<const RouteId> tree) {
  return records("Hop", tree, [&](const py::object& type, RouteId id) {
    const Route route = schedule.route(id);
    std::vector<uint32_t> links;
    for (const LinkId link : route.links) links.push_back(index(link));
    return type("source"_a = schedule.fabric().name(route.from), "target"_a = schedule.fabric().name(route.to),
                "links"_a = links);
  });
}

py::object tree_of(const SharedPlan& plan, size_t number) {
  if (number >= plan.schedule().chunk_count()) throw py::index_error("there is no tree of that number");
  const Chunk chunk = plan.schedule().chunk(number);
  const Fraction share(static_cast<int128>(chunk.units), static_cast<int128>(plan.schedule().total_units()));
  return record("Tree")("root"_a = plan.fabric().name(chunk.root), "share"_a = to_python(share),
                        "reduce"_a = hops_of(plan.schedule(), chunk.in_tree),
                        "spread"_a = hops_of(plan.schedule(), chunk.out_tree));
}

std::string draw_trees(const SharedPlan& plan, bool as_svg, const std::string& name, const std::string& root,
                       size_t trees) {
  picture::TreeOptions options{.name = name, .max_trees = trees};
  if (!root.empty()) options.root = fabric::parse_rank(root, plan.fabric(), "root");
  return picture::draw_trees(plan.schedule(), as_svg ? picture::Format::svg : picture::Format::dot, options);
}

// The text, its limits, the sizes in words, the loss by rounding.
py::tuple export_plan(const SharedPlan& plan, const std::string& format, const std::string& name, bool in_place,
                      uint64_t min_bytes, uint64_t max_bytes, bool exact) {
  const schedule::Export made =
      export_schedule(plan.schedule(), schedule::parse_export_format(format),
                      {.chunks = exact ? schedule::ChunkCount::exact : schedule::ChunkCount::power_of_two,
                       .name = name,
                       .in_place = in_place,
                       .min_bytes = min_bytes,
                       .max_bytes = max_bytes});
  const py::list limits =
      records("Limit", made.fit.rows, [](const py::object& type, const schedule::ExportFit::Row& row) {
        return type("limit"_a = row.limit, "needed"_a = row.needed, "allowed"_a = row.allowed);
      });
  return py::make_tuple(made.text, limits, made.sizes.in_words(), made.sizes.loss);
}

std::string witness_of(const FabricBound& of) { return describe(of.bound->witness, of.fabric, of.collective); }

py::list cuts_of(const FabricBound& of) {
  py::list cuts;
  if (const auto* cut = std::get_if<CutWitness>(&of.bound->witness)) {
    cuts.append(record("Cut")("inside"_a = names_of(of.fabric, cut->inside), "gathering"_a = cut->gathering,
                              "crossing_weight"_a = cut->crossing_weight, "total_weight"_a = cut->total_weight,
                              "bytes_per_second"_a = cut->bytes_per_second, "words"_a = witness_of(of)));
  }
  return cuts;
}

// Weighted cuts, potentials, whether they are averaged over images.
py::tuple weighted_cuts_of(const FabricBound& of) {
  const auto* proof = std::get_if<CutsWitness>(&of.bound->witness);
  if (!proof) return py::make_tuple(py::list(), py::list(), false);
  const py::list cuts = records("WeightedCut", proof->cuts, [&](const py::object& type, const CutsWitness::Cut& cut) {
    return type("inside"_a = names_of(of.fabric, cut.inside), "gathering"_a = cut.gathering, "times"_a = cut.times);
  });
  const py::list potentials =
      records("Potential", proof->potentials, [&](const py::object& type, const CutsWitness::Potential& potential) {
        return type("switch"_a = of.fabric.name(potential.at), "gathering"_a = potential.gathering,
                    "height"_a = potential.height);
      });
  return py::make_tuple(cuts, potentials, proof->over_images);
}

// A number that may be larger than 64 bits, and is not negative.
py::object large_number(int128 number) {
  const auto low = static_cast<uint64_t>(number), high = static_cast<uint64_t>(number >> 64);
  return (py::int_(high) << py::int_(64)) | py::int_(low);
}

// None of other proofs.
py::object link_lengths_of(const FabricBound& of) {
  const auto* proof = std::get_if<plan::LinkLengths>(&of.bound->witness);
  if (!proof) return py::none();
  return record("LinkLengths")("lengths"_a = proof->length, "crossed"_a = large_number(proof->crossed),
                               "carried"_a = large_number(proof->carried));
}

// The links of the proof whose bandwidth is assumed.
py::list assumed_of(const FabricBound& of) {
  py::list links;
  for (const LinkId link : plan::assumed_links(of.bound->witness, of.fabric, of.collective))
    links.append(link_record(of.fabric, link));
  return links;
}

// The matrix, a row for each sender; nothing where all pairs are alike, and of other kinds.
std::optional<std::vector<std::vector<uint64_t>>> traffic_of(const SharedPlan& plan) {
  const Collective& collective = plan.collective();
  if (!collective.has_traffic()) return std::nullopt;
  const size_t ranks = collective.participants().size();
  std::vector<std::vector<uint64_t>> rows(ranks);
  for (size_t from = 0; from < ranks; ++from) {
    for (size_t to = 0; to < ranks; ++to) rows[from].push_back(collective.traffic(from, to));
  }
  return rows;
}

// The plan, and the other fields of banyan.Repair by name.
py::tuple repair(const SharedPlan& old, const Fabric& fabric, const py::object& progress) {
  std::optional<answer::RepairAnswer> answer;
  {
    Watch watch(progress);
    const schedule::Verdict verdict = verify(old.schedule());
    if (!verdict.valid) throw Error(ErrorCode::invalid_input, "is not right: " + verdict.reason, "plan");
    answer.emplace(answer::repair_plan(*old.file, fabric, &watch));
  }
  const plan::Repair& repair = answer->repair;
  const auto rate = [](const std::optional<Bandwidth>& bandwidth) -> py::object {
    return bandwidth ? py::object(py::int_(bandwidth->bytes_per_second())) : py::none();
  };
  const py::list links = records("LinkChange", repair.links, [&](const py::object& type, const plan::LinkChange& link) {
    return type("source"_a = link.from, "target"_a = link.to, "before"_a = rate(link.before),
                "after"_a = rate(link.after));
  });
  const py::dict fields("links"_a = links, "lost_ranks"_a = repair.lost_ranks, "trees_kept"_a = repair.trees_kept,
                        "trees_patched"_a = repair.trees_patched, "trees_moved"_a = repair.trees_moved,
                        "edges_of_patched"_a = repair.edges_of_patched, "edges_replaced"_a = repair.edges_replaced,
                        "seconds_per_byte_before"_a = to_python(repair.seconds_per_byte_before),
                        "kept_from"_a = repair.kept_from);
  auto bound = std::make_shared<const Bound>(repair.bound);
  return py::make_tuple(shared(to_file(std::move(*answer)), std::move(bound)), fields);
}

py::list planners(const std::optional<std::string>& collective) {
  const py::object type = record("Planner");
  py::list list;
  for (const plan::Planner& planner : plan::planners()) {
    if (!collective || planner.plans(parse_collective_kind(*collective, is_planned)))
      list.append(type("name"_a = planner.name, "summary"_a = planner.summary));
  }
  return list;
}

void add_bound(py::module_& module) {
  py::class_<FabricBound>(module, "Bound")
      .def("seconds_per_byte", [](const FabricBound& of) { return to_python(of.bound->seconds_per_byte); })
      .def("collective", [](const FabricBound& of) { return to_string(of.collective.kind()); })
      .def("witness", &witness_of)
      .def("cuts", &cuts_of)
      .def("weighted_cuts", &weighted_cuts_of)
      .def("link_lengths", &link_lengths_of)
      .def("assumed", &assumed_of);
  module.def("bound", &make_bound, "fabric"_a, "words"_a, "progress"_a);
}

}  // namespace

void add_plan(py::module_& module) {
  const auto unlocked = py::call_guard<py::gil_scoped_release>();
  py::class_<CollectiveWords>(module, "CollectiveWords")
      .def(py::init<std::string, std::string, std::vector<std::string>, std::string, std::vector<uint64_t>,
                    std::vector<uint64_t>>(),
           "kind"_a, "ranks_text"_a, "ranks"_a, "root"_a, "weights"_a, "traffic"_a);
  add_bound(module);
  py::class_<SharedPlan>(module, "Plan")
      .def_static(
          "read",
          [](const std::string& path, bool check) {
            return shared(check ? answer::read_valid_plan(path) : schedule::read_schedule(path));
          },
          "path"_a, "check"_a, unlocked)
      .def_static(
          "parse",
          [](const std::string& json, const std::string& where, bool check) {
            return shared(check ? answer::parse_valid_plan(json, where) : schedule::parse_schedule(json, where));
          },
          "json"_a, "where"_a, "check"_a, unlocked)
      .def(
          "to_json", [](const SharedPlan& plan) { return format_schedule(*plan.file); }, unlocked)
      .def(
          "save", [](const SharedPlan& plan, const std::string& path) { write_schedule(path, *plan.file); }, "path"_a,
          unlocked)
      .def("fabric", &SharedPlan::fabric)
      .def("collective", [](const SharedPlan& plan) { return to_string(plan.collective().kind()); })
      .def("ranks", [](const SharedPlan& plan) { return names_of(plan.fabric(), plan.collective().participants()); })
      .def("root",
           [](const SharedPlan& plan) {
             return plan.collective().is_rooted() ? std::optional(plan.fabric().name(plan.collective().root()))
                                                  : std::nullopt;
           })
      .def("weights",
           [](const SharedPlan& plan) {
             return std::vector(plan.collective().weights().begin(), plan.collective().weights().end());
           })
      .def("traffic", &traffic_of)
      .def("planner", [](const SharedPlan& plan) { return plan.file->planner; })
      .def("seconds_per_byte", [](const SharedPlan& plan) { return to_python(plan.file->claimed_seconds_per_byte); })
      .def("heights",
           [](const SharedPlan& plan) {
             const schedule::Heights high = heights(plan.schedule());
             return std::pair(high.max, high.mean);
           })
      .def(
          "estimate",
          [](const SharedPlan& plan, uint64_t bytes) { return estimate_seconds(plan.schedule(), Bytes(bytes)); },
          "bytes"_a)
      .def("tree_count", [](const SharedPlan& plan) { return plan.schedule().chunk_count(); })
      .def("tree", &tree_of, "number"_a)
      .def("knows_bound", [](const SharedPlan& plan) { return plan.bound != nullptr; })
      .def("bound", &bound_of, "progress"_a)
      .def("verify", &verify, "fabric"_a, "fabric_name"_a, "where"_a, "progress"_a)
      .def("compare", &compare, "sizes"_a, "progress"_a)
      .def("repair", &repair, "fabric"_a, "progress"_a)
      .def("draw", &draw_trees, "as_svg"_a, "name"_a, "root"_a, "trees"_a, unlocked)
      .def("export", &export_plan, "format"_a, "name"_a, "in_place"_a, "min_bytes"_a, "max_bytes"_a, "exact"_a);
  module.def("plan", &make_plan, "fabric"_a, "words"_a, "trees"_a, "max_height"_a, "lower"_a, "bytes"_a, "progress"_a);
  module.def("candidates", &candidates, "fabric"_a, "words"_a, "progress"_a);
  module.def("list_planners", &planners, "collective"_a);
  module.def(
      "is_collective", [](const std::string& name) { return find_collective_kind(name).has_value(); }, "name"_a);
  module.def(
      "parse_bytes", [](const std::string& text) { return Bytes::parse(text).count(); }, "text"_a);
  module.def(
      "write_file", [](const std::string& path, const std::string& text) { write_file(path, text); }, "path"_a,
      "text"_a, unlocked);
  module.def(
      "format_bytes", [](uint64_t bytes) { return Bytes(bytes).to_string(); }, "bytes"_a);
}

}  // namespace banyan::python
