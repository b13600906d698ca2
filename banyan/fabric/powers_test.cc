#include "banyan/fabric/powers.h"

#include "banyan/fabric/edit.h"
#include "banyan/fabric/generate.h"
#include "banyan/fabric/json.h"
#include "banyan/fabric/text.h"
#include "banyan/testing/test.h"

namespace banyan::fabric {
namespace {

using Kind = FabricEdit::Kind;

// "nvsw0 multicast reduce; ib0": what each switch does.
std::string powers_of(const Fabric& fabric) {
  std::string text;
  for (const Node& node : fabric.nodes()) {
    if (node.kind == NodeKind::rank) continue;
    text +=
        (text.empty() ? "" : "; ") + node.name + (node.multicast ? " multicast" : "") + (node.reduce ? " reduce" : "");
  }
  return text;
}

std::string error_of(std::string_view spec) {
  return testing::error_of([&] { generate_fabric(spec); });
}

TEST(Powers, AGeneratedFabricHasThemWhenItIsAskedTo) {
  EXPECT_EQ(powers_of(generate_fabric("dgx-h100:2")), "nvsw0; nvsw1; ib0");
  EXPECT_EQ(powers_of(generate_fabric("dgx-h100:2+nvls")), "nvsw0 multicast reduce; nvsw1 multicast reduce; ib0");
  EXPECT_EQ(powers_of(generate_fabric("dgx-h100:2@25GB/s+sharp")), "nvsw0; nvsw1; ib0 multicast reduce");
  EXPECT_EQ(generate_fabric("dgx-h100:2@25GB/s+sharp+nvls").fingerprint(),
            generate_fabric("dgx-h100:2@25GB/s+nvls+sharp").fingerprint());
  EXPECT_EQ(powers_of(generate_fabric("rail:boxes=2,gpus=2,spines=1+sharp")),
            "nvsw0; nvsw1; rail0 multicast reduce; rail1 multicast reduce; spine0 multicast reduce");
  EXPECT_EQ(powers_of(generate_fabric("dgx1-v100:2+sharp")), "pcie0; pcie1; ib0 multicast reduce");
  EXPECT_TRUE(is_fabric_spec("dgx-a100:1+nvls"));
}

TEST(Powers, KeepLinksAndSymmetries) {
  const Fabric plain = generate_fabric("dgx-a100:2"), able = generate_fabric("dgx-a100:2+nvls");
  EXPECT_EQ(able.links().size(), plain.links().size());
  EXPECT_TRUE(std::ranges::equal(able.symmetries(), plain.symmetries()));
  EXPECT_NE(able.fingerprint(), plain.fingerprint());
  EXPECT_EQ(without_powers(able).fingerprint(), plain.fingerprint());
  EXPECT_TRUE(std::ranges::equal(without_powers(able).symmetries(), plain.symmetries()));
}

TEST(Powers, SayWhatIsWrongWithASuffix) {
  EXPECT_THAT(error_of("ring:8+nvls"), HasSubstr("has no NVSwitch"));
  EXPECT_THAT(error_of("dgx-a100:1+sharp"), HasSubstr("has no switch between"));
  EXPECT_THAT(error_of("dgx-a100:1+nvls+nvls"), HasSubstr("'+nvls' is given twice"));
  EXPECT_THAT(error_of("dgx-a100:1+nvlz"), HasSubstr("dgx-a100:1+nvlz"));
}

TEST(Powers, AreEdited) {
  const Fabric fabric = generate_fabric("dgx-h100:2");
  const auto edited = [&](std::vector<FabricEdit> edits) { return powers_of(edit_fabric(fabric, edits)); };
  EXPECT_EQ(edited({{Kind::in_network, "nvsw0"}}), "nvsw0 multicast reduce; nvsw1; ib0");
  EXPECT_EQ(edited({{Kind::in_network, "nvsw*=multicast"}}), "nvsw0 multicast; nvsw1 multicast; ib0");
  EXPECT_EQ(edited({{Kind::in_network, "*"}, {Kind::in_network, "nvsw1=none"}, {Kind::in_network, "ib0=reduce"}}),
            "nvsw0 multicast reduce; nvsw1; ib0 reduce");
  EXPECT_EQ(edited({{Kind::remove, "gpu3"}, {Kind::in_network, "ib0"}}), "nvsw0; nvsw1; ib0 multicast reduce");
  const auto error = [&](const char* text) {
    return testing::error_of([&] { edit_fabric(fabric, std::vector<FabricEdit>{{Kind::in_network, text}}); });
  };
  EXPECT_THAT(error("gpu0"), HasSubstr("--in-network gpu0: 'gpu0' is a rank; only a switch can multicast or reduce"));
  EXPECT_THAT(error("nvsw9"), HasSubstr("node 'nvsw9' is not declared"));
  EXPECT_THAT(error("leaf*"), HasSubstr("no switch has a name like 'leaf*'"));
  EXPECT_THAT(error("nvsw0=broadcast"), HasSubstr("'broadcast' is none of multicast, reduce and none"));
}

TEST(Powers, AreReadFromTextAndKeptByJson) {
  const Fabric fabric = parse_fabric_text(
      "s: switch multicast reduce; t: switch reduce; u: switch\tmulticast; a <-> s 1GB/s; s <-> b 1GB/s; "
      "a <-> t 1GB/s; t <-> b 1GB/s; a <-> u 1GB/s");
  EXPECT_EQ(powers_of(fabric), "s multicast reduce; t reduce; u multicast");
  EXPECT_EQ(parse_fabric_json(format_fabric_json(fabric), "test").fingerprint(), fabric.fingerprint());
  EXPECT_EQ(describe_powers(fabric),
            "1 switch multicasts and reduces (s); 1 switch multicasts (u); 1 switch reduces (t)");
  EXPECT_EQ(powers_of(fabric.reversed()), "s multicast reduce; t multicast; u reduce");
  EXPECT_THAT(testing::error_of([] { parse_fabric_text("s: switch sums; a <-> s 1GB/s; s <-> b 1GB/s"); }),
              HasSubstr("'sums' is neither multicast nor reduce"));
}

TEST(Powers, ManyAreCounted) {
  EXPECT_EQ(describe_powers(generate_fabric("dgx-h100:8+nvls")),
            "8 switches multicast and reduce (nvsw0, nvsw1, nvsw2, nvsw3, nvsw4, nvsw5, ...)");
  EXPECT_EQ(describe_powers(generate_fabric("dgx-h100:8")), "");
}

}  // namespace
}  // namespace banyan::fabric
