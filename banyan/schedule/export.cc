#include "banyan/schedule/export.h"

#include <algorithm>

#include "banyan/base/error.h"
#include "banyan/fabric/boxes.h"
#include "banyan/schedule/cost.h"
#include "banyan/schedule/export_msccl.h"
#include "banyan/schedule/export_mscclpp.h"
#include "banyan/schedule/export_mscclpp_switch.h"
#include "banyan/schedule/export_routes.h"
#include "banyan/schedule/export_shares.h"

namespace banyan::schedule {

ExportFormat parse_export_format(std::string_view text) {
  if (text == "msccl") return ExportFormat::msccl;
  if (text == "mscclpp") return ExportFormat::mscclpp;
  throw invalid("unknown export format '" + std::string(text.substr(0, 40)) + "' (known: msccl, mscclpp)");
}

bool ExportFit::fits() const {
  return std::all_of(rows.begin(), rows.end(), [](const Row& row) { return row.needed <= row.allowed; });
}

std::string ExportSizes::in_words() const {
  const std::string counts = per_rank ? "element counts per rank" : "element counts";
  if (divisor == 1) return "all " + counts;
  const std::string number = std::to_string(divisor);
  const bool is_power = (divisor & (divisor - 1)) == 0;
  return counts + " that " + number +
         " divides: " + (is_power ? "all powers of two from " + number + " on" : "no power of two");
}

namespace {

constexpr uint64_t kMostParts = 4096;

double throughput_loss(const Schedule& rounded, const Fraction& planned) {
  return std::max(0.0, 1 - (planned / seconds_per_byte(rounded)).to_double());
}

Export export_as_it_is(const Schedule& schedule, ExportFormat format, const ExportOptions& options,
                       const ExportSizes& sizes) {
  Export result = format == ExportFormat::msccl ? export_msccl(schedule, options, sizes.in_words())
                  : only_switch_of(schedule)    ? export_mscclpp_switch(schedule, options)
                                                : export_mscclpp(schedule, options);
  result.sizes = sizes;
  return result;
}

// Tries powers of two, fewest first, until one costs little enough. A number of chunks that the runtime has no room for
// ends the search, since more chunks need more room.
std::optional<Export> export_rounded(const Schedule& schedule, ExportFormat format, const ExportOptions& options,
                                     ExportSizes sizes) {
  const Fraction planned = seconds_per_byte(schedule);
  std::optional<Export> best;
  for (uint64_t parts = 1; parts <= kMostParts; parts *= 2) {
    const Schedule rounded = round_shares(schedule, parts);
    sizes.divisor = parts_of(rounded);
    sizes.loss = throughput_loss(rounded, planned);
    if (best && sizes.loss >= best->sizes.loss) continue;
    try {
      best = export_as_it_is(rounded, format, options, sizes);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unsupported) throw;
      break;
    }
    if (sizes.loss <= kRoundingLoss) break;
  }
  return best;
}

// What the runtime cannot follow.
void expect_exportable(const Schedule& schedule, ExportFormat format, bool in_place) {
  if (format == ExportFormat::mscclpp && only_switch_of(schedule)) return;
  if (schedule.collective().is_personal() && in_place) {
    throw Error(ErrorCode::unsupported,
                "an all-to-all in place would overwrite what is still to be sent; export it without --in-place");
  }
  const Fabric& fabric = schedule.fabric();
  for (uint32_t r = 0; r < schedule.route_count(); ++r) {
    const Route route = schedule.route(RouteId{r});
    for (const NodeId end : {route.from, route.to}) {
      if (fabric.is_rank(end)) continue;
      throw Error(ErrorCode::unsupported,
                  "the plan has switch '" + fabric.name(end) + "' multicast or reduce, which " +
                      (format == ExportFormat::msccl ? "MSCCL has no word for; MSCCL++ has, for one box"
                                                     : "can be said of an allreduce of one box only"));
    }
  }
}

}  // namespace

namespace {

// A fabric says which ranks stand together, but not whether their memory can be reached from elsewhere.
std::vector<std::string> needs_of(const Schedule& schedule, ExportFormat format) {
  if (format != ExportFormat::mscclpp) return {};
  const fabric::Boxes boxes = find_boxes(schedule.fabric());
  for (uint32_t r = 0; r < schedule.route_count(); ++r) {
    const Route route = schedule.route(RouteId{r});
    if (boxes.box_of[index(route.from)] == boxes.box_of[index(route.to)]) continue;
    return {"memory channels between " + std::to_string(boxes.count()) +
            " boxes: GPUs must reach each other's memory there, as in a rack of NVL72 they do and by InfiniBand or "
            "Ethernet they do not; where they do not, use --format msccl, or plan each box alone"};
  }
  return {};
}

Export export_with_shares(const Schedule& schedule, ExportFormat format, const ExportOptions& options) {
  const CollectiveKind kind = schedule.collective().kind();
  ExportSizes sizes{.divisor = parts_of(schedule), .exact_divisor = parts_of(schedule), .per_rank = is_sharded(kind)};
  const bool is_power = (sizes.divisor & (sizes.divisor - 1)) == 0;
  if (options.chunks == ChunkCount::power_of_two && !is_power) {
    if (std::optional<Export> rounded = export_rounded(schedule, format, options, sizes)) return *rounded;
  }
  return export_as_it_is(schedule, format, options, sizes);
}

}  // namespace

Export export_schedule(const Schedule& schedule, ExportFormat format, const ExportOptions& options) {
  expect_exportable(schedule, format, options.in_place);
  if (!options.any_routes) expect_runtime_routes(schedule);
  Export result = export_with_shares(schedule, format, options);
  result.needs = needs_of(schedule, format);
  return result;
}

}  // namespace banyan::schedule
