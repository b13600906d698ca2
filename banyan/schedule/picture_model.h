// What both picture formats draw: cables instead of links, classes of bandwidth, and trees checked to be trees.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/fabric/boxes.h"
#include "banyan/schedule/picture.h"
#include "banyan/schedule/schedule.h"

namespace banyan::picture {

// Beyond this nobody sees anything. Throws Error{unsupported}.
constexpr size_t kMaxNodes = 20'000;
constexpr size_t kMaxTreeNodes = 200'000;  // over all trees of one picture
void check_drawable(const Fabric& fabric);

// Okabe and Ito's colours, which colour-blind people can tell apart.
constexpr const char* kBlue = "#0072B2";
constexpr const char* kVermillion = "#D55E00";
constexpr std::array<const char*, 6> kPalette = {kBlue, kVermillion, "#009E73", "#CC79A7", "#E69F00", "#56B4E9"};

// All links between two nodes, as one line of a picture.
struct Cable {
  NodeId a{}, b{};               // in the direction of the first link
  uint64_t forth = 0, back = 0;  // bytes per second, summed over parallel links
  size_t links = 0;
  size_t shade = 0;  // number of its class

  bool is_even() const { return forth == back; }
  uint64_t widest() const { return forth > back ? forth : back; }
};

// Cables of about the same bandwidth, drawn alike.
struct Shade {
  uint64_t least = 0, most = 0;
  const char* colour = nullptr;
  std::string label() const;  // "25 GB/s", "8 GB/s to 10 GB/s"
};

struct Wiring {
  std::vector<Cable> cables;  // by their first link
  std::vector<Shade> shades;  // widest first, at most one per colour
  uint64_t widest = 0;

  // Between `thin` and `thick`, by the square root of the bandwidth, so that areas do not lie too much.
  double line_width(const Cable& cable, double thin, double thick) const;
};
Wiring wire(const Fabric& fabric);

std::string bandwidth_text(uint64_t bytes_per_second);           // "12.5 GB/s"
std::string describe(const Cable& cable, const Fabric& fabric);  // "gpu0 - nvsw0: 300 GB/s each way"

// One tree of a chunk, by levels: an in-tree is turned so that its root comes first as well.
struct TreeEdge {
  NodeId parent{}, child{};
  uint32_t depth = 0;  // of the child
  bool crosses_boxes = false;
  std::string via;  // names of the switches on the way, "" for direct links
};
struct Tree {
  size_t chunk = 0;
  bool gathers = false;
  NodeId root{};
  std::vector<TreeEdge> edges;  // parents before children
  uint32_t height = 0;
  std::string title, subtitle;  // "from gpu0", "1/8 of the buffer, height 3"
};
struct Grove {
  std::string title;  // "allreduce among 16 ranks: 2 of the 8 chunks of gpu0"
  std::vector<Tree> trees;
  bool several_boxes = false;
};
// Throws Error{not_found} when no chunk has the root, Error{invalid_input} when an edge list is not a tree.
Grove pick_trees(const Schedule& schedule, const TreePicture& options);

std::string plural(size_t count, std::string_view noun);  // "3 switches"

}  // namespace banyan::picture
