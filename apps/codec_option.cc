#include "apps/codec_option.h"

#include <nlohmann/json.hpp>

#include "apps/lists.h"
#include "apps/option_values.h"

namespace banyan::app {
namespace {

double seconds_of(Picoseconds time) { return std::chrono::duration<double>(time).count(); }

double bound_of(const answer::CodecRow& row, double bound) { return bound * static_cast<double>(row.on_wire.count()); }

constexpr uint64_t kMostRanks = 10'000;  // that share a core

}  // namespace

void CodecOption::declare(CommandSyntax& command, const std::string& help) {
  OptionSyntax& codec = command.option("--codec", into(wish_, answer::parse_codec_wish), "LIST", help);
  codec.values = codec_names();
  codec.values.emplace_back("none");
  codec.values.emplace_back("auto");
  codec.is_list = true;
  command
      .option("--codec-speed", into(cores_.speed, predict::parse_codec_speed), "RATES",
              "float32 that a core encodes, decodes, decodes and adds a second: 20GB/s, or three rates (default: "
              "measured here)")
      .needs = "--codec";
  command
      .option("--ranks-per-core", count_into(cores_.ranks_per_core, {.most = kMostRanks}), "N",
              "ranks that share a core, each of which has a part of its speed (default 1)")
      .needs = "--codec";
}

std::string codec_or_float32(const std::optional<codec::Codec>& codec) { return codec ? to_string(*codec) : "float32"; }

std::string format_codec_rows(const Terminal& terminal, const answer::CodecChoice& choice, double bound) {
  Table table({"codec", "on the wire", "plan", "slice", "time", "of bound", "core", "loses"});
  for (size_t i = 0; i < choice.rows.size(); ++i) {
    const answer::CodecRow& row = choice.rows[i];
    const double time = seconds_of(row.timed.simulation.time);
    table.add({codec_or_float32(row.codec) + (i == choice.best ? " *" : ""), row.on_wire.to_string(), row.planner,
               row.timed.slice.to_string(), format_seconds(time), format_percent(bound_of(row, bound) / time),
               row.codec ? format_percent(row.core_share()) + (row.is_bound_by_core() ? " !" : "") : "",
               row.codec ? format_percent(row.loss) : ""});
  }
  return "\n" + table.format(terminal) +
         terminal.styled(Terminal::Style::dim,
                         "of bound: the least time for these bytes over the time; core: how long the busiest rank "
                         "encodes and decodes\n(!: that makes the time, not the links; ranks that share cores take "
                         "longer, see --ranks-per-core);\nloses: of a value by one rounding, root mean square of "
                         "normal values") +
         "\n";
}

Json codec_choice_json(const answer::CodecChoice& choice, double bound) {
  Json rows = Json::array();
  for (const answer::CodecRow& row : choice.rows) {
    rows.push_back({{"codec", row.codec ? Json(to_string(*row.codec)) : Json(nullptr)},
                    {"wire_bytes", row.on_wire.count()},
                    {"planner", row.planner},
                    {"slice_bytes", row.timed.slice.count()},
                    {"time_ps", row.timed.simulation.time.count()},
                    {"bound_seconds", bound_of(row, bound)},
                    {"core_busy_ps", row.timed.simulation.core_busy.count()},
                    {"is_bound_by_core", row.is_bound_by_core()},
                    {"relative_loss", row.loss}});
  }
  const answer::CodecRow& best = choice.chosen();
  return {{"chosen", best.codec ? Json(to_string(*best.codec)) : Json(nullptr)}, {"why", choice.why}, {"rows", rows}};
}

}  // namespace banyan::app
