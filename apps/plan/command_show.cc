// banyan show: a picture of a fabric, or of the trees of a plan.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/command.h"
#include "apps/fabric_option.h"
#include "apps/option_values.h"
#include "apps/report.h"
#include "banyan/answer/plan_check.h"
#include "banyan/base/file.h"
#include "banyan/base/plain_text.h"
#include "banyan/base/utf8.h"
#include "banyan/fabric/rank_names.h"
#include "banyan/picture/picture.h"

namespace banyan::app {
namespace {

constexpr uint64_t kMaxTreesDrawn = 64;

// Whether the file is a plan of ours; everything else is for the fabric readers to judge. Looks for the version key
// alone, so that a damaged plan is still called a plan and gets the errors of one.
bool is_plan_file(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  const std::string text = read_plain_text(path).text;
  const auto after_blanks = [&](size_t at) { return std::min(text.find_first_not_of(" \t\r\n", at), text.size()); };
  constexpr std::string_view kKey = "\"banyan\"", kValue = "\"schedule/";
  for (size_t at = text.find(kKey); at != std::string::npos; at = text.find(kKey, at + 1)) {
    const size_t colon = after_blanks(at + kKey.size());
    if (colon < text.size() && text[colon] == ':' && text.compare(after_blanks(colon + 1), kValue.size(), kValue) == 0)
      return true;
  }
  return false;
}

class ShowCommand : public Command {
 public:
  CommandSyntax& declare(CommandSyntax& program) override {
    CommandSyntax& command = program.command("show", "Draw a fabric, or the trees of a plan (SVG, DOT).");
    source_.declare(command, "FABRIC_OR_PLAN", FabricOption::Place::required);
    command.option("-o,--output", &output_, "FILE", "write the picture to this file (default: standard output)");
    command
        .option("--format", into(format_, parse_format), "FORMAT",
                "svg or dot (default: by the ending of FILE, else svg)")
        .values = {"svg", "dot"};
    command.option("--title", &title_, "TEXT", "what stands above the picture (default: the fabric or the plan)");
    command.option("--root", &root_, "RANK", "of a plan: only trees with this root");
    command.option("--trees", count_into(trees_, {.most = kMaxTreesDrawn}), "N",
                   "of a plan: at most N trees, side by side (default 4)");
    command.flag("--json", json_, "print what was drawn as one JSON object; needs -o FILE");
    command.examples({"banyan show dgx-h100:2 -o fabric.svg",
                      "banyan show plan.json -o trees.svg --root gpu3 --trees 2",
                      "banyan show cluster.json --title 'Our cluster in May' -o cluster.svg",
                      "banyan show torus:4x4 --format dot | neato -Tpdf > torus.pdf"});
    return command;
  }

  ExitCode run(const Terminal& terminal) override {
    if (output_ == "-") output_.clear();
    const picture::Format format = picture_format();
    if (json_ && output_.empty()) {
      throw invalid("--json needs -o FILE: standard output cannot hold the object and the picture");
    }
    check_output_place(output_);
    bool plan = false;
    std::string drawn;
    {
      Progress progress(terminal, "drawing");
      plan = is_plan_file(source_.text());
      drawn = plan ? draw_plan(format) : draw_fabric_source(format);
      if (!output_.empty()) write_file(output_, drawn);
    }
    if (output_.empty()) {
      terminal.print(drawn);
    } else if (json_) {
      const Json report = {{"drawn", plan ? "plan" : "fabric"},
                           {"format", format == picture::Format::svg ? "svg" : "dot"},
                           {"file", output_},
                           {"bytes", drawn.size()}};
      terminal.print(format_json(report));
    } else {
      terminal.print(written(terminal, output_));
    }
    return ExitCode::success;
  }

 private:
  static picture::Format parse_format(const std::string& text) {
    if (text == "svg") return picture::Format::svg;
    if (text == "dot") return picture::Format::dot;
    throw invalid("unknown format " + in_quotes(text) + " (known: svg, dot)");
  }

  picture::Format picture_format() const {
    if (format_) return *format_;
    const std::string ending = std::filesystem::path(output_).extension().string();
    if (ending == ".dot" || ending == ".gv") return picture::Format::dot;
    if (output_.empty() || ending == ".svg") return picture::Format::svg;
    throw Error(ErrorCode::invalid_input,
                "cannot tell the format from '" + output_ + "'; end it in .svg or .dot, or give --format", "-o");
  }

  std::string draw_fabric_source(picture::Format format) const {
    if (!root_.empty() || trees_) {
      throw Error(ErrorCode::invalid_input,
                  "'" + source_.text() + "' is a fabric and has no trees; make a plan of it with 'banyan plan'",
                  root_.empty() ? "--trees" : "--root");
    }
    return picture::draw_fabric(source_.load(), format, shown_source());
  }

  // The fabric or plan in a title: of a file, its name without folders.
  std::string shown_source() const {
    if (!title_.empty()) return harmless(title_);
    std::error_code ignored;
    const bool is_file = std::filesystem::exists(source_.text(), ignored);
    return harmless(is_file ? std::filesystem::path(source_.text()).filename().string() : source_.text());
  }

  std::string draw_plan(picture::Format format) const {
    if (source_.any_edit()) {
      throw invalid("'" + source_.text() + "' is a plan; options such as --fail and --boxes are for fabrics");
    }
    picture::TreeOptions options;
    (title_.empty() ? options.name : options.title) = shown_source();
    options.max_trees = trees_.value_or(options.max_trees);
    const schedule::ScheduleFile file = answer::read_valid_plan(source_.text());
    if (!root_.empty()) options.root = fabric::parse_rank(root_, file.schedule.fabric(), "--root");
    return parse_option(source_.text(), [&] { return picture::draw_trees(file.schedule, format, options); });
  }

  FabricOption source_;
  std::string output_, title_, root_;
  std::optional<picture::Format> format_;
  std::optional<size_t> trees_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_show_command() { return std::make_unique<ShowCommand>(); }

}  // namespace banyan::app
