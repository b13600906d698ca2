// Colours and widths of cables by bandwidth, and words for them.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/picture/drawing.h"

namespace banyan::picture {

// Okabe and Ito's colours, which colour-blind people can tell apart.
constexpr const char* kBlue = "#0072B2";
constexpr const char* kVermillion = "#D55E00";
constexpr std::array<const char*, 6> kPalette = {kBlue, kVermillion, "#009E73", "#CC79A7", "#E69F00", "#56B4E9"};

// Cables of about the same bandwidth, drawn alike.
struct Shade {
  uint64_t least = 0, most = 0;  // bytes per second
  const char* colour = nullptr;
  std::string label() const;  // "25 GB/s", "8 GB/s to 10 GB/s"
};

// Widest first, at most one per colour. Cables inside of one unit do not count.
class Shades {
 public:
  explicit Shades(const std::vector<Cable>& cables);
  const std::vector<Shade>& all() const { return shades_; }
  const Shade& of(const Cable& cable) const;
  // Between `thin` and `thick`, by the square root of the bandwidth, so that areas do not lie too much.
  double line_width(uint64_t bandwidth, double thin, double thick) const;

 private:
  std::vector<Shade> shades_;
};

std::string bandwidth_text(uint64_t bytes_per_second);  // "12.5 GB/s"
// "gpu0 – nvsw0: 300 GB/s each way", "gpu0–7 – ib0: 8 cables, 400 GB/s each way".
std::string describe(const Cable& cable, const std::string& a, const std::string& b);

}  // namespace banyan::picture
