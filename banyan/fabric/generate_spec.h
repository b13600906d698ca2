// A generator's spec taken apart, KIND[:ARGUMENTS][@BANDWIDTH], and what generators share. Private to generate*.cc
// and nccl_box.cc.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/base/units.h"
#include "banyan/fabric/fabric.h"

namespace banyan::fabric {

struct CountRange {
  uint64_t min = 1;
  uint64_t max = Fabric::kMaxNodes;
};

// Every method that reads an argument throws Error{invalid_input} with the argument, its value and what is allowed.
class GeneratorSpec {
 public:
  // Splits the text; throws when the bandwidth after '@' is wrong. `example` of the kind is shown in later errors.
  static GeneratorSpec parse(std::string_view text);

  const std::string& kind() const { return kind_; }
  bool has_bandwidth() const { return bandwidth_.has_value(); }
  Bandwidth bandwidth_or(Bandwidth fallback) const { return bandwidth_.value_or(fallback); }
  void set_example(std::string_view example) { example_ = example; }

  // "dgx-a100:8": the only argument. `what` names it.
  uint64_t number(std::string_view what, CountRange range) const;
  // "8x8x8" or "16,3,4": at least one number.
  std::vector<uint64_t> numbers(std::string_view what, char separator, CountRange range) const;
  // "leaves=4,hosts=4": refuses names that are not in `known` and names given twice.
  void expect_parameters(std::initializer_list<std::string_view> known) const;
  uint64_t parameter(std::string_view name, CountRange range) const;
  uint64_t parameter_or(std::string_view name, uint64_t fallback, CountRange range) const;
  Bandwidth bandwidth_parameter_or(std::string_view name, Bandwidth fallback) const;
  // "1.2+3": pairs with a plus between them; a second number of 0 may be left out with its dot. At least one.
  std::vector<std::pair<uint64_t, uint64_t>> number_pairs(std::string_view name) const;
  void expect_no_arguments() const;
  // "(ring:4)x(full:3)": the specs in brackets, and what stands after each, "x" and "" here. At least one.
  struct Operand {
    std::string spec, after;
  };
  std::vector<Operand> operands() const;
  // The number behind the sign in what stands after an operand, as 3 in "^3".
  uint64_t number_after(const Operand& operand, char sign, std::string_view what, CountRange range) const;

  // Refuses what a Fabric cannot hold before any of it is built. Directed links are counted. Products of up to three
  // counts of at most kMaxNodes cannot overflow.
  void expect_size(uint64_t nodes, uint64_t links) const;

  Error error(const std::string& message) const;

 private:
  std::optional<std::string_view> find(std::string_view name) const;
  uint64_t parse_count(std::string_view what, std::string_view value, CountRange range) const;

  std::string kind_;
  std::string arguments_;
  std::string shown_;  // the spec as errors quote it
  std::string example_;
  std::optional<Bandwidth> bandwidth_;
};

// The bandwidth of a link where neither the spec nor a vendor says one: a port of 400 Gb/s.
constexpr Bandwidth kDefaultPort = Bandwidth::gigabits_per_second(400);

// "gpu0" .. "gpu<count-1>": rank i is node i when these are the first nodes.
void add_gpus(Fabric::Builder& builder, uint64_t count);
void add_switches(Fabric::Builder& builder, std::string_view prefix, uint64_t count);

// Two links of one bandwidth between nodes given by number.
void join(Fabric::Builder& builder, uint64_t a, uint64_t b, Bandwidth bandwidth);

// Proposes v -> image(v) as a symmetry, after all nodes are added.
template <typename Image>
void propose_symmetry(Fabric::Builder& builder, Image image) {
  const uint64_t nodes = builder.node_count();
  Permutation permutation(nodes);
  for (uint64_t v = 0; v < nodes; ++v) permutation[v] = NodeId{static_cast<uint32_t>(image(v))};
  builder.add_symmetry(std::move(permutation));
}

// Ranks in groups of one size, box by box or leaf by leaf: every group takes the next one's place, with the `switches`
// that come behind the ranks, one or none for each group. Proposes nothing for a single group.
void propose_group_rotation(Fabric::Builder& builder, uint64_t ranks, uint64_t size, uint64_t switches);
// Rank i of every group takes the place of image(i); switches stay.
template <typename Image>
void propose_inside_groups(Fabric::Builder& builder, uint64_t ranks, uint64_t size, Image image) {
  propose_symmetry(builder, [=](uint64_t v) { return v < ranks ? v / size * size + image(v % size) : v; });
}
// Rank i of every group takes the place of rank i + 1. Proposes nothing for groups of one.
void propose_rotation_inside(Fabric::Builder& builder, uint64_t ranks, uint64_t size);

// Each generator adds nodes and links to a builder that is empty. A number that the spec gives is checked first
// (expect_size).
//
// Direct-connect topologies: generate_direct.cc and generate_graph.cc.
void generate_ring(const GeneratorSpec& spec, Fabric::Builder& builder);
void generate_full(const GeneratorSpec& spec, Fabric::Builder& builder);
void generate_star(const GeneratorSpec& spec, Fabric::Builder& builder);
void generate_torus(const GeneratorSpec& spec, Fabric::Builder& builder);
void generate_mesh(const GeneratorSpec& spec, Fabric::Builder& builder);
void generate_hypercube(const GeneratorSpec& spec, Fabric::Builder& builder);
void generate_circulant(const GeneratorSpec& spec, Fabric::Builder& builder);
void generate_kautz(const GeneratorSpec& spec, Fabric::Builder& builder);
void generate_debruijn(const GeneratorSpec& spec, Fabric::Builder& builder);
void generate_cayley(const GeneratorSpec& spec, Fabric::Builder& builder);
void generate_modified_debruijn(const GeneratorSpec& spec, Fabric::Builder& builder);
void generate_bipartite(const GeneratorSpec& spec, Fabric::Builder& builder);
void generate_hamming(const GeneratorSpec& spec, Fabric::Builder& builder);
void generate_diamond(const GeneratorSpec& spec, Fabric::Builder& builder);
void generate_random(const GeneratorSpec& spec, Fabric::Builder& builder);

// Topologies made of others, which are fabrics already: generate_operators.cc.
Fabric generate_line(const GeneratorSpec& spec);
Fabric generate_copies(const GeneratorSpec& spec);
Fabric generate_product(const GeneratorSpec& spec);
Fabric generate_power(const GeneratorSpec& spec);

// Vendor boxes: generate_boxes.cc.
void generate_dgx_a100(const GeneratorSpec& spec, Fabric::Builder& builder);
void generate_dgx_h100(const GeneratorSpec& spec, Fabric::Builder& builder);
void generate_dgx_h200(const GeneratorSpec& spec, Fabric::Builder& builder);
void generate_dgx_b200(const GeneratorSpec& spec, Fabric::Builder& builder);
void generate_gb200_nvl72(const GeneratorSpec& spec, Fabric::Builder& builder);
void generate_dgx1_v100(const GeneratorSpec& spec, Fabric::Builder& builder);
void generate_mi250(const GeneratorSpec& spec, Fabric::Builder& builder);
void generate_mi300x(const GeneratorSpec& spec, Fabric::Builder& builder);
void generate_rail(const GeneratorSpec& spec, Fabric::Builder& builder);

// Switched networks: generate_network.cc.
void generate_leaf_spine(const GeneratorSpec& spec, Fabric::Builder& builder);
void generate_fat_tree(const GeneratorSpec& spec, Fabric::Builder& builder);
void generate_dragonfly(const GeneratorSpec& spec, Fabric::Builder& builder);
void generate_subways(const GeneratorSpec& spec, Fabric::Builder& builder);

// Passive optics: generate_optical.cc.
void generate_shufflecast(const GeneratorSpec& spec, Fabric::Builder& builder);

}  // namespace banyan::fabric
