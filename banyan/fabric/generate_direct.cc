// Regular direct-connect topologies, and the star: every node looks like every other (the mesh aside), so one plan can
// be rotated to all ranks.
#include <numeric>

#include "banyan/fabric/generate_spec.h"

namespace banyan::fabric {
namespace {

constexpr CountRange kRanks{.min = 2};
constexpr size_t kMaxDimensions = 6;
constexpr char kAxes[] = "xyzuvw";

// Mixed-radix coordinates: node = x + X * (y + Y * z), the first dimension runs fastest.
class Grid {
 public:
  Grid(const GeneratorSpec& spec) : sizes_(spec.numbers("sizes", 'x', kRanks)) {
    if (sizes_.size() > kMaxDimensions) {
      throw spec.error("has " + std::to_string(sizes_.size()) + " dimensions but at most " +
                       std::to_string(kMaxDimensions) + " are known");
    }
    for (const uint64_t size : sizes_) {
      strides_.push_back(count_);
      count_ *= size;
      spec.expect_size(count_, 0);
    }
    spec.expect_size(count_, 2 * count_ * sizes_.size());
  }

  uint64_t count() const { return count_; }
  size_t dimensions() const { return sizes_.size(); }
  uint64_t size(size_t axis) const { return sizes_[axis]; }
  uint64_t coordinate(uint64_t node, size_t axis) const { return node / strides_[axis] % sizes_[axis]; }
  // The node at another place of the same line along `axis`.
  uint64_t moved(uint64_t node, size_t axis, uint64_t place) const {
    return node - coordinate(node, axis) * strides_[axis] + place * strides_[axis];
  }
  uint64_t next(uint64_t node, size_t axis) const {
    return moved(node, axis, (coordinate(node, axis) + 1) % sizes_[axis]);
  }

  void add_ranks(Fabric::Builder& builder) const {
    for (uint64_t node = 0; node < count_; ++node) {
      std::string name;
      for (size_t axis = 0; axis < sizes_.size(); ++axis) {
        name += kAxes[axis];
        name += std::to_string(coordinate(node, axis));
      }
      builder.add_rank(std::move(name));
    }
  }

 private:
  std::vector<uint64_t> sizes_, strides_;
  uint64_t count_ = 1;
};

void propose_rotation(Fabric::Builder& builder, uint64_t ranks) {
  propose_symmetry(builder, [=](uint64_t v) { return v < ranks ? (v + 1) % ranks : v; });
}

}  // namespace

void generate_ring(const GeneratorSpec& spec, Fabric::Builder& builder) {
  const uint64_t ranks = spec.number("ranks", kRanks);
  spec.expect_size(ranks, 2 * ranks);
  const Bandwidth bandwidth = spec.bandwidth_or(kDefaultPort);
  add_gpus(builder, ranks);
  const uint64_t cables = ranks == 2 ? 1 : ranks;  // two ranks are joined by one cable, not by two parallel ones
  for (uint64_t i = 0; i < cables; ++i) join(builder, i, (i + 1) % ranks, bandwidth);
  propose_rotation(builder, ranks);
}

void generate_full(const GeneratorSpec& spec, Fabric::Builder& builder) {
  const uint64_t ranks = spec.number("ranks", kRanks);
  spec.expect_size(ranks, ranks * (ranks - 1));
  const Bandwidth bandwidth = spec.bandwidth_or(kDefaultPort);
  add_gpus(builder, ranks);
  for (uint64_t i = 0; i < ranks; ++i) {
    for (uint64_t j = i + 1; j < ranks; ++j) join(builder, i, j, bandwidth);
  }
  propose_rotation(builder, ranks);
}

void generate_star(const GeneratorSpec& spec, Fabric::Builder& builder) {
  const uint64_t ranks = spec.number("ranks", kRanks);
  spec.expect_size(ranks + 1, 2 * ranks);
  const Bandwidth bandwidth = spec.bandwidth_or(kDefaultPort);
  add_gpus(builder, ranks);
  add_switches(builder, "sw", 1);
  for (uint64_t i = 0; i < ranks; ++i) join(builder, i, ranks, bandwidth);
  propose_rotation(builder, ranks);
}

// Ranks 0 .. m-1 on one side, the others on the other.
void generate_bipartite(const GeneratorSpec& spec, Fabric::Builder& builder) {
  const std::vector<uint64_t> sides = spec.numbers("two sides", 'x', {});
  if (sides.size() != 2) throw spec.error("has " + std::to_string(sides.size()) + " sides, not 2");
  const uint64_t m = sides[0], n = sides[1];
  spec.expect_size(m + n, 2 * m * n);
  const Bandwidth bandwidth = spec.bandwidth_or(kDefaultPort);
  add_gpus(builder, m + n);
  for (uint64_t i = 0; i < m; ++i) {
    for (uint64_t j = 0; j < n; ++j) join(builder, i, m + j, bandwidth);
  }
  // Both sides turn together by the same part of a turn; equal sides change places.
  const uint64_t turns = std::gcd(m, n);
  if (turns > 1) {
    propose_symmetry(builder, [=](uint64_t v) { return v < m ? (v + m / turns) % m : m + (v - m + n / turns) % n; });
  }
  if (m == n) propose_symmetry(builder, [=](uint64_t v) { return (v + m) % (2 * m); });
}

void generate_hamming(const GeneratorSpec& spec, Fabric::Builder& builder) {
  const Grid grid(spec);
  uint64_t neighbours = 0;
  for (size_t axis = 0; axis < grid.dimensions(); ++axis) neighbours += grid.size(axis) - 1;
  spec.expect_size(grid.count(), grid.count() * neighbours);
  const Bandwidth bandwidth = spec.bandwidth_or(kDefaultPort);
  grid.add_ranks(builder);
  for (uint64_t node = 0; node < grid.count(); ++node) {
    for (size_t axis = 0; axis < grid.dimensions(); ++axis) {
      for (uint64_t place = grid.coordinate(node, axis) + 1; place < grid.size(axis); ++place)
        join(builder, node, grid.moved(node, axis, place), bandwidth);
    }
  }
  for (size_t axis = 0; axis < grid.dimensions(); ++axis) {
    propose_symmetry(builder, [&](uint64_t v) { return grid.next(v, axis); });
  }
}

void generate_torus(const GeneratorSpec& spec, Fabric::Builder& builder) {
  const Grid grid(spec);
  const Bandwidth bandwidth = spec.bandwidth_or(kDefaultPort);
  grid.add_ranks(builder);
  for (uint64_t node = 0; node < grid.count(); ++node) {
    for (size_t axis = 0; axis < grid.dimensions(); ++axis) {
      // Around a dimension of size 2 both ways lead to the same neighbour: one cable, added by the lower end.
      if (grid.size(axis) == 2 && grid.coordinate(node, axis) == 1) continue;
      join(builder, node, grid.next(node, axis), bandwidth);
    }
  }
  for (size_t axis = 0; axis < grid.dimensions(); ++axis) {
    propose_symmetry(builder, [&](uint64_t v) { return grid.next(v, axis); });
  }
}

void generate_mesh(const GeneratorSpec& spec, Fabric::Builder& builder) {
  const Grid grid(spec);
  const Bandwidth bandwidth = spec.bandwidth_or(kDefaultPort);
  grid.add_ranks(builder);
  for (uint64_t node = 0; node < grid.count(); ++node) {
    for (size_t axis = 0; axis < grid.dimensions(); ++axis) {
      if (grid.coordinate(node, axis) + 1 < grid.size(axis)) join(builder, node, grid.next(node, axis), bandwidth);
    }
  }
  // Reflections. Along a dimension of odd size they would keep the middle in place, which symmetries must not.
  for (size_t axis = 0; axis < grid.dimensions(); ++axis) {
    if (grid.size(axis) % 2 != 0) continue;
    propose_symmetry(builder,
                     [&](uint64_t v) { return grid.moved(v, axis, grid.size(axis) - 1 - grid.coordinate(v, axis)); });
  }
}

void generate_hypercube(const GeneratorSpec& spec, Fabric::Builder& builder) {
  const uint64_t dimensions = spec.number("dimensions", {.min = 1, .max = 19});
  const uint64_t ranks = uint64_t{1} << dimensions;
  spec.expect_size(ranks, ranks * dimensions);
  const Bandwidth bandwidth = spec.bandwidth_or(kDefaultPort);
  add_gpus(builder, ranks);
  for (uint64_t i = 0; i < ranks; ++i) {
    for (uint64_t bit = 1; bit < ranks; bit <<= 1) {
      if ((i & bit) == 0) join(builder, i, i | bit, bandwidth);
    }
  }
  for (uint64_t bit = 1; bit < ranks; bit <<= 1) {
    propose_symmetry(builder, [=](uint64_t v) { return v ^ bit; });
  }
}

// Two one-way rings of four, i to i + 1; rank i of the first sends to rank i of the second, and that back to i - 1.
void generate_diamond(const GeneratorSpec& spec, Fabric::Builder& builder) {
  spec.expect_no_arguments();
  const Bandwidth bandwidth = spec.bandwidth_or(kDefaultPort);
  add_gpus(builder, 8);
  const auto add = [&](uint32_t from, uint32_t to) {
    builder.add_link({.from = NodeId{from}, .to = NodeId{to}, .bandwidth = bandwidth});
  };
  for (uint32_t i = 0; i < 4; ++i) {
    add(i, (i + 1) % 4);
    add(i, 4 + i);
    add(4 + i, 4 + (i + 1) % 4);
    add(4 + i, (i + 3) % 4);
  }
  // Along the cross links: i of the first to i of the second, and that to i - 1.
  propose_symmetry(builder, [](uint64_t v) { return v < 4 ? v + 4 : (v + 3) % 4; });
}

}  // namespace banyan::fabric
