// An axis of logarithms: where values stand on the page, and which of them are written beside it.
#pragma once

#include <string>
#include <vector>

namespace banyan::picture {

struct LogAxis {
  double least = 0, most = 1, from = 0, to = 1;  // the former in log2 of values, the latter on the page
  std::vector<double> ticks = {};
  double at(double value) const;
};

// Both above 0. Powers of two, and of them as many as have room.
LogAxis size_axis(double least, double most, double from, double to);

// Both above 0. 1, 2 and 5 times powers of ten, or the powers alone where the range is wide; the axis begins and ends
// at one of them.
LogAxis value_axis(double least, double most, double from, double to);

// A tick, which is 1, 2 or 5 times a power of ten, as a person writes it: "0.00005", "20", "10,000".
std::string tick_text(double value);

}  // namespace banyan::picture
