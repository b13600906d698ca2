#include "apps/predict/predict_calibrate.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/lists.h"
#include "apps/option_values.h"
#include "apps/predict/predict_train.h"
#include "apps/report.h"
#include "banyan/base/plain_text.h"
#include "banyan/base/text.h"
#include "banyan/base/utf8.h"
#include "banyan/predict/cost/collective_cost.h"
#include "banyan/predict/cost/curve.h"
#include "banyan/predict/cost/curve_log.h"
#include "banyan/predict/train/calibrate.h"
#include "banyan/predict/train/train_options.h"

namespace banyan::app {
namespace {

constexpr uint64_t kMaxFileBytes = 256 << 20;
constexpr size_t kMostFiles = 64;

// Rows of training steps speak of batches in their heading; measured collectives never do.
bool holds_rows(const std::string& text) {
  const size_t heading = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  return lower(text.substr(heading, text.find('\n', heading) - heading)).find("batch") != std::string::npos;
}

std::string base_name(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

// "v100_gpu8.txt", "allreduce-16ranks.csv": many sweeps say their ranks nowhere else.
std::optional<uint32_t> ranks_in_name(const std::string& path) {
  const std::string name = lower(base_name(path));
  const auto digits_from = [&](size_t at) {
    size_t end = at;
    while (end < name.size() && name[end] >= '0' && name[end] <= '9') ++end;
    return end - at > 0 && end - at < 7 ? static_cast<uint32_t>(std::stoul(name.substr(at, end - at))) : 0u;
  };
  for (const char* word : {"gpus", "gpu", "ranks", "rank", "np"}) {
    const size_t at = name.find(word);
    if (at == std::string::npos) continue;
    if (const uint32_t after = digits_from(at + std::string_view(word).size()); after >= 2) return after;
    size_t begin = at;
    while (begin > 0 && name[begin - 1] >= '0' && name[begin - 1] <= '9') --begin;
    if (const uint32_t before = begin < at ? digits_from(begin) : 0; before >= 2) return before;
  }
  return std::nullopt;
}

// A barrier moves no bytes, so it has no curve over size.
bool has_curve(CollectiveKind kind) { return kind != CollectiveKind::barrier; }

struct File {
  std::string path, text;
  std::vector<std::string> notes;  // what was taken off it or passed over
};

std::vector<File> read_all(const std::vector<std::string>& paths) {
  if (paths.size() > kMostFiles) throw Error(ErrorCode::unsupported, "more than 64 files at once");
  std::vector<File> files;
  for (const std::string& path : paths) {
    PlainText plain = read_plain_text(path, kMaxFileBytes);
    files.push_back({path, std::move(plain.text), std::move(plain.notes)});
  }
  return files;
}

void add_notes(const File& file, std::vector<std::string>& notes) {
  for (const std::string& note : file.notes) notes.push_back(base_name(file.path) + ": " + note);
}

std::string labelled_notes(const Terminal& terminal, const std::vector<std::string>& notes) {
  std::string text;
  for (const std::string& note : notes) text += labelled(terminal, "note", harmless(note));
  return text;
}

std::string percent(double ratio) { return format_decimals(100 * ratio, 2) + " %"; }

// --- curves
// -----------------------------------------------------------------------------------------------------------

struct Curve {
  std::string path;
  predict::CurveLog log;
  predict::CurveFit fit;
  predict::CurveError other_half;  // on every second point, fitted on the others
};

predict::CurveError error_on_every_second(const std::vector<predict::CollectivePoint>& points) {
  std::vector<predict::CollectivePoint> seen, unseen;
  for (size_t i = 0; i < points.size(); ++i) (i % 2 == 0 ? seen : unseen).push_back(points[i]);
  if (seen.size() < 3) return {};
  return curve_error(fit_curve(seen).curve, unseen);
}

class CurveCalibration {
 public:
  CurveCalibration(const CalibrateOptions& options, const std::vector<File>& files) : options_(options) {
    for (const File& file : files) {
      try {
        predict::CurveLog log = predict::parse_curve_log(file.text, {.in_place = options.in_place});
        if (options.ranks) log.ranks = options.ranks;
        if (!log.ranks) log.ranks = ranks_in_name(file.path);
        if (options.collective) log.collective = options.collective;
        predict::CurveFit fit = fit_curve(log.points);
        const predict::CurveError other_half = error_on_every_second(log.points);
        add_notes(file, notes_);
        curves_.push_back({file.path, std::move(log), std::move(fit), other_half});
      } catch (const Error& error) {
        throw error.within(file.path);
      }
    }
  }

  std::vector<predict::CollectiveCost> costs() const {
    std::vector<predict::CollectiveCost> list;
    for (const Curve& curve : curves_) {
      if (!curve.log.ranks) throw invalid(curve.path + " does not say how many ranks took part; give --ranks");
      list.push_back(make_collective_cost(curve.fit.curve,
                                          {.collective = curve.log.collective.value_or(CollectiveKind::all_reduce),
                                           .ranks = *curve.log.ranks,
                                           .link = options_.link,
                                           .source = base_name(curve.path)}));
    }
    return list;
  }

  std::string as_text(const Terminal& terminal) const {
    Table errors({"curve", "points", "pieces", "mean error", "worst", "mean on every second point", "worst there"});
    for (const Curve& curve : curves_)
      errors.add({base_name(curve.path), std::to_string(curve.log.points.size()),
                  std::to_string(curve.fit.curve.pieces().size()), percent(curve.fit.error.mean),
                  percent(curve.fit.error.worst), percent(curve.other_half.mean), percent(curve.other_half.worst)});
    std::string text = errors.format(terminal);
    text += "On every second point: fitted on the others only.\n\n";
    Table pieces({"curve", "from", "alpha", "bandwidth"});
    for (const Curve& curve : curves_) {
      for (const predict::CurvePiece& piece : curve.fit.curve.pieces())
        pieces.add({base_name(curve.path), Bytes(piece.from).to_string(), format_seconds(piece.alpha),
                    piece.beta > 0 ? format_rate(1 / piece.beta) : "any"});
    }
    return text + pieces.format(terminal) + labelled_notes(terminal, notes_);
  }

  Json as_json() const {
    Json list = Json::array();
    for (const Curve& curve : curves_) {
      Json pieces = Json::array();
      for (const predict::CurvePiece& piece : curve.fit.curve.pieces())
        pieces.push_back(
            {{"from_bytes", piece.from}, {"alpha_seconds", piece.alpha}, {"seconds_per_byte", piece.beta}});
      list.push_back({{"file", curve.path},
                      {"points", curve.log.points.size()},
                      {"ranks", curve.log.ranks ? Json(*curve.log.ranks) : Json(nullptr)},
                      {"mean_error", curve.fit.error.mean},
                      {"worst_error", curve.fit.error.worst},
                      {"held_out_mean_error", curve.fit.held_out.mean},
                      {"every_second_mean_error", curve.other_half.mean},
                      {"every_second_worst_error", curve.other_half.worst},
                      {"pieces", pieces}});
    }
    return {{"curves", list}, {"notes", notes_}};
  }

 private:
  const CalibrateOptions& options_;
  std::vector<Curve> curves_;
  std::vector<std::string> notes_;
};

// --- rows
// -------------------------------------------------------------------------------------------------------------

class RowCalibration {
 public:
  RowCalibration(const CalibrateOptions& options, const std::vector<File>& files, const std::vector<File>& checks,
                 const Terminal& terminal) {
    before_ = parse_option("--gpu", [&] { return answer::load_devices(options.devices).at(options.gpu); });
    predict::TrainConfig base;
    base.model.vocabulary = options.vocabulary;
    base.precision = options.precision;
    predict::ClusterShape cluster = before_.cluster;
    cluster.box = options.box.value_or(cluster.box);
    cluster.scale_up = options.scale_up.value_or(cluster.scale_up);
    cluster.network = options.network.value_or(cluster.network);
    const auto read = [&](const File& file) {
      try {
        return predict::RowSet{base_name(file.path), parse_train_rows(file.text, base), cluster, options.recompute};
      } catch (const Error& error) {
        throw error.within(file.path);
      }
    };
    for (const File& file : files) sets_.push_back(read(file));
    Progress progress(terminal, "fitting");
    result_ = calibrate(before_, sets_,
                        {.cross_validate = !options.quick, .progress = [&](double done) { progress.fraction(done); }});
    for (const File& file : checks) check(read(file));
    for (const std::vector<File>* list : {&files, &checks}) {
      for (const File& file : *list) {
        add_notes(file, notes_);
        note_unknown_columns(file);
      }
    }
  }

  std::string file() const {
    std::string source = "calibrated from";
    for (const predict::RowSet& set : sets_) source += " " + set.name + " (" + plural(set.rows.size(), "row") + ")";
    return format_calibrated(result_.device, source);
  }

  std::string as_text(const Terminal& terminal) const {
    Table errors({"rows", "count", "recompute", "mean error", "median", "worst", "rank correlation",
                  "mean on models left out", "rank correlation there"});
    for (size_t i = 0; i < sets_.size(); ++i) {
      const predict::SetResult& set = result_.sets[i];
      errors.add({set.name, std::to_string(sets_[i].rows.size()), std::string(to_string(set.recompute)),
                  percent(set.error.mean), percent(set.error.median), percent(set.error.worst),
                  format_decimals(set.error.rank_correlation, 3), set.held_out ? percent(set.held_out->mean) : "-",
                  set.held_out ? format_decimals(set.held_out->rank_correlation, 3) : "-"});
    }
    for (const Checked& checked : checked_)
      errors.add({checked.name + ", not fitted", std::to_string(checked.count),
                  std::string(to_string(checked.recompute)), percent(checked.error.mean), percent(checked.error.median),
                  percent(checked.error.worst), format_decimals(checked.error.rank_correlation, 3), "-", "-"});
    std::string text = errors.format(terminal) + "\n";
    Table figures({result_.device.name, "before", "fitted"});
    for (const auto& [name, get] : figures_of()) figures.add({name, get(before_), get(result_.device)});
    text += figures.format(terminal);
    return text + labelled_notes(terminal, notes_);
  }

  Json as_json() const {
    Json sets = Json::array();
    const auto error_json = [](const predict::RowsError& error) {
      return Json{{"mean_error", error.mean},
                  {"median_error", error.median},
                  {"worst_error", error.worst},
                  {"rank_correlation", error.rank_correlation}};
    };
    for (size_t i = 0; i < sets_.size(); ++i) {
      const predict::SetResult& set = result_.sets[i];
      Json rows = Json::array();
      for (size_t k = 0; k < set.predicted.size(); ++k)
        rows.push_back({{"line", sets_[i].rows[k].line},
                        {"measured_seconds", sets_[i].rows[k].seconds},
                        {"predicted_seconds", set.predicted[k]}});
      sets.push_back({{"file", set.name},
                      {"recompute", to_string(set.recompute)},
                      {"fit", error_json(set.error)},
                      {"left_out", set.held_out ? error_json(*set.held_out) : Json(nullptr)},
                      {"rows", rows}});
    }
    Json checks = Json::array();
    for (const Checked& checked : checked_)
      checks.push_back({{"file", checked.name},
                        {"recompute", to_string(checked.recompute)},
                        {"rows", checked.count},
                        {"error", error_json(checked.error)}});
    return {{"sets", sets}, {"checks", checks}, {"devices", Json::parse(file())}, {"notes", notes_}};
  }

 private:
  struct Checked {
    std::string name;
    size_t count;
    predict::Recompute recompute;
    predict::RowsError error;
  };

  // Predicted with what was fitted. Where rows do not say what was recomputed, the way that fits them best is taken, as
  // for those that were fitted.
  void check(const predict::RowSet& set) {
    std::optional<Checked> best;
    for (const predict::Recompute way :
         {predict::Recompute::none, predict::Recompute::selective, predict::Recompute::full}) {
      if (set.recompute && *set.recompute != way) continue;
      std::vector<double> predicted;
      for (const predict::TrainRow& row : set.rows) {
        predict::TrainConfig config = row.config;
        if (!row.says_recompute) config.recompute = way;
        predicted.push_back(estimate_step(config, result_.device, set.cluster).seconds);
      }
      const predict::RowsError error = rows_error(predicted, set.rows);
      if (!best || error.mean < best->error.mean) best = Checked{set.name, set.rows.size(), way, error};
    }
    checked_.push_back(*best);
  }

  void note_unknown_columns(const File& file) {
    std::string names;
    for (const std::string& name : predict::unknown_train_columns(file.text))
      names += (names.empty() ? "'" : ", '") + name + "'";
    if (!names.empty()) notes_.push_back(base_name(file.path) + ": not used are the columns " + names);
  }

  using Figure = std::pair<const char*, std::string (*)(const predict::Device&)>;
  static std::vector<Figure> figures_of() {
    return {
        {"matrix products, of the peak", [](const predict::Device& d) { return percent(d.efficiency.matrix); }},
        {"memory, of its bandwidth", [](const predict::Device& d) { return percent(d.efficiency.memory); }},
        {"unaligned matrix products", [](const predict::Device& d) { return percent(d.efficiency.unaligned); }},
        {"gap between kernels", [](const predict::Device& d) { return format_seconds(d.efficiency.kernel_gap); }},
        {"host's time for a kernel", [](const predict::Device& d) { return format_seconds(d.efficiency.host_launch); }},
        {"links in a box", [](const predict::Device& d) { return percent(d.links.scale_up); }},
        {"network", [](const predict::Device& d) { return percent(d.links.network); }},
        {"latency per doubling of ranks", [](const predict::Device& d) { return format_seconds(d.links.latency); }}};
  }

  predict::Device before_;
  std::vector<predict::RowSet> sets_;
  predict::Calibration result_;
  std::vector<Checked> checked_;
  std::vector<std::string> notes_;
};

void finish(const Terminal& terminal, const CalibrateOptions& options, const std::string& text,
            const std::string& file) {
  if (!options.output.empty()) write_output(terminal, options.output, file);
  say_beside(terminal, options.output, text);
  if (!options.json) terminal.print(written(terminal, options.output));
}

}  // namespace

void declare_calibrate_options(CommandSyntax& command, CalibrateOptions& options) {
  OptionSyntax& files =
      command.word("FILE", &options.files, "logs of nccl-tests or CSV of a collective, or CSV rows of training steps");
  files.is_required = files.takes_rest = true;
  files.paths = OptionSyntax::Paths::files;
  command.group("Options");
  command.option("-o,--output", &options.output, "FILE", "write what was found: a file for --costs, or for --devices");
  command.flag("--json", options.json, "print one JSON object");
  command.group("Measured collectives (curves)");
  command.option("--ranks", count_into(options.ranks, {2, Job::kMaxRanks}), "N",
                 "ranks that took part, where the log does not say");
  const auto parse_way = [](const std::string& text) {
    return text == "auto" ? std::nullopt : std::optional(predict::parse_recompute(text));
  };
  const auto parse_kind = [](const std::string& text) { return parse_collective_kind(text, has_curve); };
  command.option("--collective", into(options.collective, parse_kind), "NAME", "which collective (default allreduce)")
      .values = planned_collectives();
  command.option(
      "--link", into(options.link, Bandwidth::parse), "BANDWIDTH",
      "bandwidth of a rank's link (over boxes: of a box's cards together) on which it was measured, so that the "
      "curve holds for other links (default: as measured)");
  command.flag("--in-place", options.in_place, "use the second column of times");
  command.group("Measured training steps (rows)");
  command.option("--check", &options.checks, "FILE", "rows that are not fitted, only predicted").takes_rest = true;
  command.option("--gpu", &options.gpu, "NAME", "the device (default a100-80g)").values =
      find_option(predict::train_options(), "gpu")->values();
  command.option("--devices", &options.devices, "FILE", "devices that add to those built in");
  command
      .option("--recompute", into(options.recompute, parse_way), "WHAT",
              "for rows that do not say: none, selective, full, or auto, which is what fits best (default)")
      .values = {"none", "selective", "full", "auto"};
  command.option("--vocab", count_into(options.vocabulary, {2, 100'000'000}), "N",
                 "size of the vocabulary (default 50257)");
  command
      .option("--precision", into(options.precision, predict::parse_precision), "TYPE",
              "fp16, bf16, fp32 or fp8 (default fp16)")
      .values = {"fp16", "bf16", "fp32", "fp8"};
  command.option("--box", count_into(options.box, {1, 1'000'000}), "N",
                 "devices in a box (default: the device's usual one)");
  command.option("--scale-up", into(options.scale_up, Bandwidth::parse), "BANDWIDTH",
                 "bandwidth of a device's links inside a box");
  command.option("--network", into(options.network, Bandwidth::parse), "BANDWIDTH",
                 "bandwidth of a device's share of its box's NICs");
  command.flag("--quick", options.quick, "without cross-validation");
  command.group("Options");
}

ExitCode run_calibrate(const Terminal& terminal, const CalibrateOptions& options) {
  check_output_place(options.output, options.json);
  const std::vector<File> files = read_all(options.files), checks = read_all(options.checks);
  const bool rows = holds_rows(files.front().text);
  for (const std::vector<File>* list : {&files, &checks}) {
    for (const File& file : *list) {
      if (holds_rows(file.text) != rows)
        throw Error(ErrorCode::mismatch, file.path + " holds " + (rows ? "a curve" : "rows of training steps") +
                                             ", and " + files.front().path +
                                             " does not; calibrate them one after the other");
    }
  }
  if (!rows && !checks.empty())
    throw Error(ErrorCode::invalid_usage,
                "--check is for rows; the error of a curve is given on points that the fit has not seen");
  if (rows) {
    const RowCalibration calibration(options, files, checks, terminal);
    finish(terminal, options, options.json ? format_json(calibration.as_json()) : calibration.as_text(terminal),
           calibration.file());
  } else {
    const CurveCalibration calibration(options, files);
    const std::string file = options.output.empty() ? "" : format_collective_costs(calibration.costs());
    finish(terminal, options, options.json ? format_json(calibration.as_json()) : calibration.as_text(terminal), file);
  }
  return ExitCode::success;
}

}  // namespace banyan::app
