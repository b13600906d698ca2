#include "banyan/picture/shades.h"

#include <algorithm>
#include <cmath>

#include "banyan/base/text.h"
#include "banyan/base/units.h"

namespace banyan::picture {

std::string bandwidth_text(uint64_t bytes_per_second) {
  return Bandwidth::bytes_per_second(bytes_per_second).to_string();
}

std::string Shade::label() const {
  return least == most ? bandwidth_text(most) : bandwidth_text(least) + " to " + bandwidth_text(most);
}

Shades::Shades(const std::vector<Cable>& cables) {
  std::vector<uint64_t> speeds;
  for (const Cable& cable : cables) {
    if (cable.a != cable.b) speeds.push_back(cable.widest());
  }
  std::sort(speeds.begin(), speeds.end(), std::greater<>());
  speeds.erase(std::unique(speeds.begin(), speeds.end()), speeds.end());
  const size_t count = std::min(speeds.size(), kPalette.size());
  for (size_t i = 0; i < count; ++i) {
    // Distinct bandwidths are dealt evenly when there are more than colours.
    const size_t begin = i * speeds.size() / count, end = (i + 1) * speeds.size() / count;
    shades_.push_back({.least = speeds[end - 1], .most = speeds[begin], .colour = kPalette[i]});
  }
}

const Shade& Shades::of(const Cable& cable) const {
  return *std::find_if(shades_.begin(), shades_.end(), [&](const Shade& each) { return cable.widest() >= each.least; });
}

double Shades::line_width(uint64_t bandwidth, double thin, double thick) const {
  return thin + (thick - thin) * std::sqrt(static_cast<double>(bandwidth) / static_cast<double>(shades_[0].most));
}

std::string describe(const Cable& cable, const std::string& a, const std::string& b) {
  const std::string links = std::max(cable.forth.size(), cable.back.size()) > 1
                                ? plural(std::max(cable.forth.size(), cable.back.size()), "link") + ", "
                                : "";
  const std::string forth = links + bandwidth_text(cable.forth_bandwidth), end = cable.assumed ? " (assumed)" : "";
  if (cable.is_one_way()) return a + " -> " + b + ": " + forth + end;
  if (cable.is_even()) return a + " – " + b + ": " + forth + " each way" + end;
  return a + " -> " + b + ": " + forth + ", back: " + bandwidth_text(cable.back_bandwidth) + end;
}

}  // namespace banyan::picture
