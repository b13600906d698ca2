#include "banyan/picture/log_axis.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "banyan/base/text.h"

namespace banyan::picture {

double LogAxis::at(double value) const { return from + (std::log2(value) - least) / (most - least) * (to - from); }

LogAxis size_axis(double least, double most, double from, double to) {
  LogAxis axis{.least = std::floor(std::log2(least)), .most = std::ceil(std::log2(most)), .from = from, .to = to};
  if (axis.most == axis.least) axis.most += 1;
  const double step = std::ceil((axis.most - axis.least) / 10);
  for (double power = axis.least; power <= axis.most; power += step) axis.ticks.push_back(std::exp2(power));
  return axis;
}

LogAxis value_axis(double least, double most, double from, double to) {
  const double decades = std::log10(most / least);
  LogAxis axis{.from = from, .to = to};
  std::vector<double> all;
  for (double power = std::floor(std::log10(least)); power <= std::ceil(std::log10(most)); ++power) {
    for (const double digit : {1, 2, 5}) {
      if (digit == 1 || decades <= 4) all.push_back(digit * std::pow(10, power));
    }
  }
  auto first = std::upper_bound(all.begin(), all.end(), least * (1 + 1e-9));
  first = first == all.begin() ? first : first - 1;
  auto last = std::lower_bound(all.begin(), all.end(), most * (1 - 1e-9));
  last = last == all.end() ? last - 1 : last;
  if (last <= first) last = first + 1 < all.end() ? first + 1 : first--;
  axis.ticks.assign(first, last + 1);
  axis.least = std::log2(axis.ticks.front());
  axis.most = std::log2(axis.ticks.back());
  return axis;
}

std::string tick_text(double value) {
  std::array<char, 32> text;
  const bool is_readable = value > 1e-9 && value < 1e12;
  const int decimals = is_readable ? std::max(0, static_cast<int>(-std::floor(std::log10(value) + 1e-9))) : 0;
  if (is_readable && value >= 1000) return with_thousands(static_cast<size_t>(std::llround(value)));
  std::snprintf(text.data(), text.size(), is_readable ? "%.*f" : "%.*e", decimals, value);
  return text.data();
}

}  // namespace banyan::picture
