// Networks of passive optics.
#include "banyan/fabric/generate_spec.h"

namespace banyan::fabric {

// Racks that send to several others at once through passive splitters (Das, Rahbar, Wu, Wang, Wang, Chen, Ng:
// Shufflecast, arXiv 2104.09680), joined as a ShuffleNet: `columns` columns of fanout^columns racks, whose numbers are
// words of `columns` digits. The splitter of a rack feeds those racks of the next column whose word is its own, shifted
// by one digit; the last column feeds the first. So every rack has one transmitter and `fanout` receivers, and is at
// most 2 * columns - 1 splitters away from any other.
//
// A rank is a rack with its switch. A splitter is a switch that multicasts: one link in from its rack, one to each rack
// that it feeds. What splitters give out is more than they take in, as copies are.
void generate_shufflecast(const GeneratorSpec& spec, Fabric::Builder& builder) {
  spec.expect_parameters({"fanout", "columns"});
  const uint64_t fanout = spec.parameter("fanout", {.min = 2}), columns = spec.parameter("columns", {.max = 19});
  uint64_t rows = 1;
  for (uint64_t c = 0; c < columns; ++c) {
    rows *= fanout;
    spec.expect_size(2 * columns * rows, columns * rows * (fanout + 1));
  }
  const uint64_t racks = columns * rows;
  const Bandwidth port = spec.bandwidth_or(kDefaultPort);
  for (uint64_t i = 0; i < racks; ++i) builder.add_rank("tor" + std::to_string(i));
  for (uint64_t i = 0; i < racks; ++i) {
    builder.add_node({.name = "splitter" + std::to_string(i), .kind = NodeKind::switch_, .multicast = true});
  }
  const auto link = [&](uint64_t from, uint64_t to) {
    builder.add_link(
        {.from = NodeId{static_cast<uint32_t>(from)}, .to = NodeId{static_cast<uint32_t>(to)}, .bandwidth = port});
  };
  for (uint64_t i = 0; i < racks; ++i) {
    link(i, racks + i);
    const uint64_t next_column = (i / rows + 1) % columns * rows, shifted = i % rows * fanout % rows;
    for (uint64_t digit = 0; digit < fanout; ++digit) {
      const uint64_t to = next_column + shifted + digit;
      if (to != i) link(racks + i, to);  // a single column feeds itself
    }
  }
  // The next column; and, in column c, the next value of the digit that c shifts have moved to place c. They generate a
  // group that takes every rack to every other in one way.
  if (columns > 1) {
    propose_symmetry(builder, [=](uint64_t v) { return v / racks * racks + (v % racks + rows) % racks; });
  }
  propose_symmetry(builder, [=](uint64_t v) {
    uint64_t place = 1;
    for (uint64_t c = 0; c < v % racks / rows; ++c) place *= fanout;
    const uint64_t digit = v / place % fanout;
    return v - digit * place + (digit + 1) % fanout * place;
  });
}

}  // namespace banyan::fabric
