#include "apps/plan/loss_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "banyan/base/error.h"
#include "banyan/base/text.h"
#include "banyan/base/utf8.h"
#include "banyan/fabric/loss.h"

namespace banyan::app {
namespace {

constexpr size_t kMaxCablesShown = 40;
constexpr size_t kMaxDecimals = 9;

std::string percent(const Fraction& share) { return format_percent(share.to_double()); }

size_t count_disabled(const design::LossReport& report) {
  return static_cast<size_t>(
      std::ranges::count_if(report.cables, [](const design::LossReport::Cable& cable) { return cable.disable; }));
}

std::string describe_choice(const design::LossReport& report) {
  std::string text = plural(count_disabled(report), "cable") + ", which carry " +
                     format_percent(report.loss_disabled / report.loss) + " of the loss; the worst rank keeps " +
                     percent(report.share_left) + " of its capacity\n";
  if (report.is_exact) return text + "no choice disables more loss";
  return text + "no choice disables more than " + format_percent(report.loss_at_most / report.loss) + " of the loss";
}

}  // namespace

Fraction parse_capacity_share(const std::string& text) {
  const size_t point = text.find('.');
  const std::string whole = text.substr(0, point), decimals = point == std::string::npos ? "" : text.substr(point + 1);
  const std::string digits = whole + decimals;
  const bool is_number = !digits.empty() && decimals.size() <= kMaxDecimals && whole.size() <= 1 &&
                         digits.find_first_not_of("0123456789") == std::string::npos;
  int64_t denominator = 1;
  for (size_t i = 0; is_number && i < decimals.size(); ++i) denominator *= 10;
  const Fraction share = is_number ? Fraction(std::stoll(digits), denominator) : Fraction(0);
  if (share > Fraction(0) && share <= Fraction(1)) return share;
  throw invalid(in_quotes(text) + " is no share; give one above 0 and at most 1, as in 0.75");
}

std::string loss_report_text(const Terminal& terminal, const design::LossReport& report) {
  std::string text = labelled(terminal, "capacity",
                              report.is_clos ? "of a rank: its ways up to the top tier of the Clos"
                                             : "of a rank: the least flow between it and any other rank, out or in");
  if (report.cables.empty()) return text + labelled(terminal, "lossy", "no link loses packets");
  text += labelled(
      terminal, "lossy",
      plural(report.cables.size(), "cable") + "; every rank must keep " + percent(report.share) + " of its capacity");
  text += labelled(terminal, "disable", describe_choice(report)) + "\n";
  Table table({"cable", "loss, both ways", "disable", "worst rank, alone"});
  const size_t shown = std::min(report.cables.size(), kMaxCablesShown);
  for (size_t i = 0; i < shown; ++i) {
    const design::LossReport::Cable& cable = report.cables[i];
    table.add({harmless(cable.name), fabric::format_loss(cable.loss),
               cable.disable     ? "yes"
               : cable.may_alone ? "not with the others"
                                 : "no",
               percent(cable.share_alone)});
  }
  text += table.format(terminal);
  if (shown < report.cables.size())
    text += labelled(terminal, "", "and " + with_thousands(report.cables.size() - shown) + " more; see --json");
  return text;
}

Json loss_report_json(const design::LossReport& report) {
  Json cables = Json::array();
  for (const design::LossReport::Cable& cable : report.cables) {
    cables.push_back({{"cable", cable.name},
                      {"loss", cable.loss},
                      {"disable", cable.disable},
                      {"may_alone", cable.may_alone},
                      {"share_alone", cable.share_alone.to_double()}});
  }
  return {{"is_clos", report.is_clos},
          {"capacity_share", report.share.to_double()},
          {"share_left", report.share_left.to_double()},
          {"loss", report.loss},
          {"loss_disabled", report.loss_disabled},
          {"loss_at_most", report.loss_at_most},
          {"exact", report.is_exact},
          {"cables", cables}};
}

}  // namespace banyan::app
