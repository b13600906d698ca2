// Topologies made of others (arXiv 2202.03356, section 4): line graphs, copies, products. Operands are specs in
// brackets. Known symmetries of the operands are carried over; they act freely on links where they do on ranks.
#include <algorithm>
#include <numeric>

#include "banyan/fabric/generate.h"
#include "banyan/fabric/generate_spec.h"

namespace banyan::fabric {
namespace {

constexpr uint64_t kMaxNesting = 16;

Fabric operand_of(const GeneratorSpec& spec, const GeneratorSpec::Operand& operand) {
  if (static_cast<uint64_t>(std::count(operand.spec.begin(), operand.spec.end(), '(')) >= kMaxNesting) {
    throw spec.error("has more than " + std::to_string(kMaxNesting) + " brackets");
  }
  Fabric fabric = generate_fabric(operand.spec);
  if (fabric.nodes().size() > fabric.ranks().size()) {
    throw spec.error("'" + operand.spec + "' has switches, and needs ranks that are joined directly");
  }
  return fabric;
}

GeneratorSpec::Operand only_operand(const GeneratorSpec& spec) {
  std::vector<GeneratorSpec::Operand> operands = spec.operands();
  if (operands.size() != 1) throw spec.error("has " + std::to_string(operands.size()) + " specs in brackets, not 1");
  return std::move(operands.front());
}

Link placed(const Link& link, uint64_t from, uint64_t to, const GeneratorSpec& spec) {
  Link copy = link;
  copy.from = NodeId{static_cast<uint32_t>(from)};
  copy.to = NodeId{static_cast<uint32_t>(to)};
  copy.bandwidth = spec.bandwidth_or(link.bandwidth);
  return copy;
}

// How a symmetry moves the links: the i-th of equal ones between two ranks to the i-th between their images.
std::vector<uint32_t> moved_links(const Fabric& fabric, const Permutation& symmetry) {
  const auto key = [&](uint32_t l, bool image) {
    const Link& link = fabric.link(LinkId{l});
    const NodeId from = image ? symmetry[index(link.from)] : link.from, to = image ? symmetry[index(link.to)] : link.to;
    return std::tuple(from, to, link.bandwidth, l);
  };
  std::vector<uint32_t> at(fabric.links().size()), to, moved(at.size());
  std::iota(at.begin(), at.end(), 0);
  to = at;
  std::sort(at.begin(), at.end(), [&](uint32_t a, uint32_t b) { return key(a, true) < key(b, true); });
  std::sort(to.begin(), to.end(), [&](uint32_t a, uint32_t b) { return key(a, false) < key(b, false); });
  for (size_t i = 0; i < at.size(); ++i) moved[at[i]] = to[i];
  return moved;
}

// A rank for every link; it sends to those of the links that go on from where it ends, at their bandwidth.
Fabric line_of(const Fabric& inner, const GeneratorSpec& spec) {
  uint64_t links = 0;
  for (const Link& link : inner.links()) links += inner.out_links(link.to).size();
  spec.expect_size(inner.links().size(), links);
  Fabric::Builder builder;
  add_gpus(builder, inner.links().size());
  for (uint32_t l = 0; l < inner.links().size(); ++l) {
    for (const LinkId next : inner.out_links(inner.link(LinkId{l}).to))
      builder.add_link(placed(inner.link(next), l, index(next), spec));
  }
  for (const Permutation& symmetry : inner.symmetries()) {
    const std::vector<uint32_t> moved = moved_links(inner, symmetry);
    propose_symmetry(builder, [&](uint64_t v) { return moved[v]; });
  }
  return std::move(builder).build();
}

// Rank (u, v), number u + N v, is joined to (u', v) as u to u' in the one, and to (u, v') as v to v' in the other.
Fabric product_of(const Fabric& first, const Fabric& second, const GeneratorSpec& spec) {
  const uint64_t n = first.ranks().size(), m = second.ranks().size();
  spec.expect_size(n * m, 0);
  spec.expect_size(n * m, m * first.links().size() + n * second.links().size());
  Fabric::Builder builder;
  add_gpus(builder, n * m);
  for (uint64_t v = 0; v < m; ++v) {
    for (const Link& link : first.links())
      builder.add_link(placed(link, index(link.from) + n * v, index(link.to) + n * v, spec));
  }
  for (const Link& link : second.links()) {
    for (uint64_t u = 0; u < n; ++u)
      builder.add_link(placed(link, u + n * index(link.from), u + n * index(link.to), spec));
  }
  for (const Permutation& symmetry : first.symmetries())
    propose_symmetry(builder, [&](uint64_t v) { return index(symmetry[v % n]) + v / n * n; });
  for (const Permutation& symmetry : second.symmetries())
    propose_symmetry(builder, [&](uint64_t v) { return v % n + index(symmetry[v / n]) * n; });
  return std::move(builder).build();
}

}  // namespace

// line:(SPEC)[^K]: the line graph, K times.
Fabric generate_line(const GeneratorSpec& spec) {
  const GeneratorSpec::Operand operand = only_operand(spec);
  const uint64_t times = operand.after.empty() ? 1 : spec.number_after(operand, '^', "a power", {.min = 1, .max = 16});
  Fabric fabric = operand_of(spec, operand);
  for (uint64_t i = 0; i < times; ++i) fabric = line_of(fabric, spec);
  return fabric;
}

// copies:(SPEC)xK: K copies of every rank; where a link goes from u to v, one goes from every copy of u to every one of
// v. Copy c of rank u is number u + N c.
Fabric generate_copies(const GeneratorSpec& spec) {
  const GeneratorSpec::Operand operand = only_operand(spec);
  const uint64_t copies = spec.number_after(operand, 'x', "a number of copies", {.min = 2});
  const Fabric inner = operand_of(spec, operand);
  const uint64_t n = inner.ranks().size();
  spec.expect_size(n * copies, 0);
  if (copies > Fabric::kMaxLinks / copies / inner.links().size()) {
    throw spec.error("would have more than the " + std::to_string(Fabric::kMaxLinks) + " links a fabric may have");
  }
  Fabric::Builder builder;
  add_gpus(builder, n * copies);
  for (const Link& link : inner.links()) {
    for (uint64_t from = 0; from < copies; ++from) {
      for (uint64_t to = 0; to < copies; ++to)
        builder.add_link(placed(link, index(link.from) + n * from, index(link.to) + n * to, spec));
    }
  }
  propose_symmetry(builder, [=](uint64_t v) { return (v + n) % (n * copies); });
  for (const Permutation& symmetry : inner.symmetries())
    propose_symmetry(builder, [&](uint64_t v) { return index(symmetry[v % n]) + v / n * n; });
  return std::move(builder).build();
}

// product:(SPEC)x(SPEC)..: the Cartesian product.
Fabric generate_product(const GeneratorSpec& spec) {
  const std::vector<GeneratorSpec::Operand> operands = spec.operands();
  if (operands.size() < 2) throw spec.error("needs two specs in brackets or more");
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].after != (i + 1 < operands.size() ? "x" : ""))
      throw spec.error("needs an 'x' between brackets, and nothing after the last");
  }
  Fabric fabric = operand_of(spec, operands.front());
  for (size_t i = 1; i < operands.size(); ++i) fabric = product_of(fabric, operand_of(spec, operands[i]), spec);
  return fabric;
}

// power:(SPEC)^K: the product of K of the same.
Fabric generate_power(const GeneratorSpec& spec) {
  const GeneratorSpec::Operand operand = only_operand(spec);
  const uint64_t power = spec.number_after(operand, '^', "a power", {.min = 2, .max = 16});
  const Fabric inner = operand_of(spec, operand);
  Fabric fabric = inner;
  for (uint64_t i = 1; i < power; ++i) fabric = product_of(fabric, inner, spec);
  return fabric;
}

}  // namespace banyan::fabric
