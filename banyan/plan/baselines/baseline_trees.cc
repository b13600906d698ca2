#include "banyan/plan/baselines/baseline_trees.h"

#include <algorithm>
#include <bit>
#include <deque>

#include "banyan/base/check.h"

namespace banyan::plan {
namespace {

uint32_t next_on_ring(uint32_t place, uint32_t count, bool forward) {
  return forward ? (place + 1) % count : (place + count - 1) % count;
}

// A tree over the numbers 1 .. p, fed by number 0.
struct NumberedEdge {
  uint32_t parent, child;
};

struct Interval {
  uint32_t parent, begin, end;  // numbers [begin, end) go under `parent`
};

// `middle` picks the number of a non-empty interval that becomes the child; breadth first, so parents come first.
template <typename Middle>
std::vector<NumberedEdge> grow_by_intervals(std::deque<Interval> open, Middle middle) {
  std::vector<NumberedEdge> edges;
  while (!open.empty()) {
    const auto [parent, begin, end] = open.front();
    open.pop_front();
    if (begin == end) continue;
    const uint32_t child = middle(begin, end);
    edges.push_back({parent, child});
    open.push_back({child, begin, child});
    open.push_back({child, child + 1, end});
  }
  return edges;
}

template <typename Renumber>
TreeShape place_tree(const std::vector<NumberedEdge>& edges, uint32_t count, uint32_t root, Renumber renumber) {
  const auto place = [&](uint32_t number) { return number == 0 ? root : (root + renumber(number)) % count; };
  TreeShape shape;
  shape.reserve(edges.size());
  for (const auto& [parent, child] : edges) shape.push_back({place(parent), place(child)});
  return shape;
}

}  // namespace

TreeShape chain(uint32_t count, uint32_t root, bool forward) {
  TreeShape shape;
  shape.reserve(count - 1);
  for (uint32_t place = root; shape.size() + 1 < count;) {
    const uint32_t next = next_on_ring(place, count, forward);
    shape.push_back({place, next});
    place = next;
  }
  return shape;
}

TreeShape binary_tree(uint32_t count, uint32_t root) {
  const uint32_t half = 1 + count / 2;
  const auto edges = grow_by_intervals({{0, 1, half}, {0, half, count}},
                                       [](uint32_t begin, uint32_t end) { return begin + (end - begin) / 2; });
  return place_tree(edges, count, root, [](uint32_t number) { return number; });
}

std::array<TreeShape, 2> double_binary_tree(uint32_t count, uint32_t root) {
  const uint32_t p = count - 1;
  // The largest power of two that fits leaves odd numbers as leaves at every level.
  const auto edges = grow_by_intervals(
      {{0, 1, count}}, [](uint32_t begin, uint32_t end) { return begin - 1 + std::bit_floor(end - begin); });
  const auto second = [&](uint32_t number) { return p % 2 == 0 ? p + 1 - number : number % p + 1; };
  return {place_tree(edges, count, root, [](uint32_t number) { return number; }),
          place_tree(edges, count, root, second)};
}

TreeShape recursive_doubling_tree(uint32_t count, uint32_t root) {
  CHECK(std::has_single_bit(count)) << "count=" << count;
  TreeShape shape;
  shape.reserve(count - 1);
  uint32_t step = 1;
  for (uint32_t distance = 1; distance < count; distance *= 2, ++step) {
    for (uint32_t holder = 0; holder < distance; ++holder) {
      shape.push_back({root ^ holder, root ^ holder ^ distance, step});
    }
  }
  return shape;
}

TreeShape binomial_tree(uint32_t count, uint32_t root) {
  TreeShape shape;
  shape.reserve(count - 1);
  for (uint32_t distance = std::bit_ceil(count) / 2; distance >= 1; distance /= 2) {
    for (uint32_t holder = 0; holder + distance < count; holder += 2 * distance) {
      shape.push_back({(root + holder) % count, (root + holder + distance) % count});
    }
  }
  return shape;
}

TreeShape hierarchical_chain(const std::vector<std::vector<uint32_t>>& boxes, uint32_t root, bool forward) {
  const uint32_t box_count = static_cast<uint32_t>(boxes.size());
  uint32_t root_box = 0, lane = 0;
  for (uint32_t box = 0; box < box_count; ++box) {
    const auto found = std::find(boxes[box].begin(), boxes[box].end(), root);
    if (found == boxes[box].end()) continue;
    root_box = box;
    lane = static_cast<uint32_t>(found - boxes[box].begin());
  }
  TreeShape shape;
  const auto entry_of = [&](uint32_t box) { return lane % static_cast<uint32_t>(boxes[box].size()); };
  for (const TreeEdge& edge : chain(box_count, root_box, forward)) {
    shape.push_back({boxes[edge.parent][entry_of(edge.parent)], boxes[edge.child][entry_of(edge.child)]});
  }
  for (uint32_t box = 0; box < box_count; ++box) {
    for (const TreeEdge& edge : chain(static_cast<uint32_t>(boxes[box].size()), entry_of(box), forward)) {
      shape.push_back({boxes[box][edge.parent], boxes[box][edge.child]});
    }
  }
  return shape;
}

}  // namespace banyan::plan
