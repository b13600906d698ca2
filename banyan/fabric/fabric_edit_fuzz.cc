// Edits of a small fabric whose names hold dashes: one edit a line, its first letter the kind (f, d, n or r).
#include "banyan/fabric/edit.h"
#include "banyan/fabric/text.h"
#include "banyan/testing/fabric_round_trip.h"
#include "banyan/testing/fuzz.h"

namespace banyan::fabric {
namespace {

void edit_a_small_fabric(std::string_view input) {
  const Fabric fabric = parse_fabric_text(
      "a <-> b 1GB/s; b <-> a-b 2GB/s; a-b <-> c 3GB/s; c <-> b-c 4GB/s; b-c <-> a 5GB/s; a <-> sw-0 6GB/s;"
      "sw-0 <-> c 6GB/s; a -> b 1GB/s; b-c -> b 1GB/s; b -> b-c 2GB/s");
  std::vector<FabricEdit> edits;
  size_t removals = 0;
  while (!input.empty()) {
    const std::string_view line = input.substr(0, input.find('\n'));
    input.remove_prefix(std::min(input.size(), line.size() + 1));
    if (line.empty()) continue;
    const auto kind = line[0] == 'f'   ? FabricEdit::Kind::fail
                      : line[0] == 'd' ? FabricEdit::Kind::degrade
                      : line[0] == 'n' ? FabricEdit::Kind::in_network
                                       : FabricEdit::Kind::remove;
    removals += kind == FabricEdit::Kind::remove;
    edits.push_back({kind, std::string(line.substr(1))});
  }
  const Fabric edited = edit_fabric(fabric, edits);
  CHECK_EQ(edited.nodes().size() + removals, fabric.nodes().size());
  CHECK(edited.links().size() <= fabric.links().size());
  testing::check_round_trip(edited);
}

const testing::Fuzzer kFuzzer("fabric_edit", "banyan/fabric/corpus/edit", edit_a_small_fabric);

}  // namespace
}  // namespace banyan::fabric
