#include "banyan/picture/drawing.h"

#include "banyan/fabric/generate.h"
#include "banyan/fabric/text.h"
#include "banyan/testing/test.h"

namespace banyan::picture {
namespace {

size_t count_of(const Drawing& drawing, Unit::Kind kind) {
  return static_cast<size_t>(
      std::count_if(drawing.units.begin(), drawing.units.end(), [&](const Unit& unit) { return unit.kind == kind; }));
}

// Claims about every drawing, of any fabric.
void expect_sound(const Fabric& fabric, const std::string& spec) {
  SCOPED_TRACE(spec);
  const Drawing drawing = draw(fabric);
  ASSERT_EQ(drawing.unit_of.size(), fabric.nodes().size());
  std::vector<size_t> ranks(drawing.units.size()), switches(drawing.units.size());
  for (uint32_t node = 0; node < fabric.nodes().size(); ++node) {
    ASSERT_LT(drawing.unit_of[node], drawing.units.size());
    ++(fabric.is_rank(NodeId{node}) ? ranks : switches)[drawing.unit_of[node]];
  }
  for (size_t unit = 0; unit < drawing.units.size(); ++unit) {
    EXPECT_EQ(ranks[unit], drawing.units[unit].ranks.size());
    EXPECT_EQ(switches[unit], drawing.units[unit].switches);
    EXPECT_FALSE(drawing.units[unit].name.empty());
    EXPECT_GT(drawing.units[unit].size.width, 0);
    EXPECT_GT(drawing.units[unit].size.height, 0);
  }
  std::vector<bool> seen(fabric.links().size());
  for (const Cable& edge : drawing.cables) {
    for (const bool forth : {true, false}) {
      for (const LinkId id : forth ? edge.forth : edge.back) {
        EXPECT_FALSE(seen[index(id)]) << "link " << index(id) << " is in two edges";
        seen[index(id)] = true;
        EXPECT_EQ(drawing.unit_of[index(fabric.link(id).from)], forth ? edge.a : edge.b);
        EXPECT_EQ(drawing.unit_of[index(fabric.link(id).to)], forth ? edge.b : edge.a);
      }
    }
    EXPECT_EQ(edge.path.size() >= 2, edge.a != edge.b);
    for (const Point& point : edge.path) EXPECT_TRUE(std::isfinite(point.x) && std::isfinite(point.y));
    if (edge.path.empty() || edge.curved) continue;
    // It begins at one unit and ends at the other.
    for (const auto& [number, point] : {std::pair(edge.a, edge.path.front()), std::pair(edge.b, edge.path.back())}) {
      const Unit& unit = drawing.units[number];
      EXPECT_LE(std::abs(point.x - unit.middle.x), unit.size.width / 2 + 1) << unit.name;
      EXPECT_LE(std::abs(point.y - unit.middle.y), unit.size.height / 2 + 1) << unit.name;
    }
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), false), 0);
  // Units stand beside one another.
  if (drawing.units.size() > 600) return;
  for (size_t a = 0; a < drawing.units.size(); ++a) {
    for (size_t b = a + 1; b < drawing.units.size(); ++b) {
      const Unit &one = drawing.units[a], &other = drawing.units[b];
      const bool apart = std::abs(one.middle.x - other.middle.x) >= (one.size.width + other.size.width) / 2 - 0.01 ||
                         std::abs(one.middle.y - other.middle.y) >= (one.size.height + other.size.height) / 2 - 0.01;
      EXPECT_TRUE(apart) << one.name << " lies on " << other.name;
    }
  }
}

TEST(Drawing, HoldsEveryNodeAndLinkOfAnyFabricOnce) {
  for (const char* spec :
       {"dgx-a100:1", "dgx-a100:4", "dgx-a100:16", "dgx-h100:128", "mi250:2", "mi250:16", "torus:8x8", "torus:16x16",
        "torus:4x4x4", "fat-tree:k=4", "fat-tree:k=8", "leaf-spine:leaves=4,hosts=4,spines=2",
        "leaf-spine:leaves=16,hosts=16,spines=8", "hypercube:8", "dragonfly:groups=3,routers=4,hosts=2",
        "dragonfly:groups=17,routers=4,hosts=4", "dgx1-v100:1", "dgx1-v100:4", "full:100"}) {
    expect_sound(fabric::generate_fabric(spec), spec);
  }
}

TEST(Drawing, HoldsRandomFabricsOnce) {
  for (int seed = 1; seed <= 30; ++seed) {
    const std::string spec = "random:n=" + std::to_string(10 + seed * 7) + ",links=" + std::to_string(40 + seed * 20) +
                             ",seed=" + std::to_string(seed);
    expect_sound(fabric::generate_fabric(spec), spec);
  }
}

TEST(Drawing, ShowsSmallFabricsNodeByNode) {
  const Drawing drawing = draw(fabric::generate_fabric("dgx-a100:8"));
  EXPECT_EQ(count_of(drawing, Unit::Kind::rank), 64u);
  EXPECT_EQ(count_of(drawing, Unit::Kind::switch_), 9u);
  EXPECT_EQ(drawing.panels.size(), 8u);
  EXPECT_EQ(drawing.cables.size(), 128u);
}

TEST(Drawing, ShowsABoxAsOneTile) {
  const Drawing drawing = draw(fabric::generate_fabric("dgx-a100:128"));
  EXPECT_EQ(count_of(drawing, Unit::Kind::tile), 128u);
  EXPECT_EQ(count_of(drawing, Unit::Kind::switch_), 1u);
  EXPECT_EQ(drawing.units[1].name, "gpu8–15");
  EXPECT_EQ(drawing.units[1].ranks.size(), 8u);
  EXPECT_EQ(drawing.units[1].switches, 1u);
  // One edge inside each box, one to the switch above.
  EXPECT_EQ(drawing.cables.size(), 256u);
}

TEST(Drawing, GathersAFatTreeIntoPods) {
  const Drawing drawing = draw(fabric::generate_fabric("fat-tree:k=16"));
  EXPECT_EQ(count_of(drawing, Unit::Kind::tile), 128u);
  EXPECT_EQ(count_of(drawing, Unit::Kind::switch_), 17u);  // 16 pods' aggregation, and the core
  EXPECT_EQ(drawing.panels.size(), 16u);
  const Unit& core = *std::max_element(drawing.units.begin(), drawing.units.end(),
                                       [](const Unit& a, const Unit& b) { return a.switches < b.switches; });
  EXPECT_EQ(core.switches, 64u);
  for (const Unit& unit : drawing.units) EXPECT_GE(unit.middle.y, core.middle.y);
}

TEST(Drawing, ShowsServersOfDirectLinksAsBoxes) {
  const Drawing drawing = draw(fabric::generate_fabric("mi300x:2"));
  ASSERT_EQ(drawing.panels.size(), 2u);
  for (uint32_t rank = 0; rank < 16; ++rank) {
    const Panel& panel = drawing.panels[rank / 8];
    const Point middle = drawing.units[rank].middle;
    EXPECT_TRUE(middle.x > panel.corner.x && middle.x < panel.corner.x + panel.size.width) << rank;
    EXPECT_TRUE(middle.y > panel.corner.y && middle.y < panel.corner.y + panel.size.height) << rank;
  }
}

// Cables to the bar above run between tiles, never over one.
TEST(Drawing, LeadsCablesPastTiles) {
  for (const char* spec : {"dgx-a100:128", "fat-tree:k=16", "dgx-h100:2048"}) {
    const Drawing drawing = draw(fabric::generate_fabric(spec));
    for (const Cable& edge : drawing.cables) {
      for (size_t i = 1; i + 1 < edge.path.size(); ++i) {
        const auto &from = edge.path[i - 1], &to = edge.path[i];
        EXPECT_TRUE(from.x == to.x || from.y == to.y);
        for (uint32_t number = 0; number < drawing.units.size(); ++number) {
          const Unit& unit = drawing.units[number];
          if (number == edge.a || number == edge.b || unit.kind != Unit::Kind::tile) continue;
          const bool apart = std::max(from.x, to.x) < unit.middle.x - unit.size.width / 2 ||
                             std::min(from.x, to.x) > unit.middle.x + unit.size.width / 2 ||
                             std::max(from.y, to.y) < unit.middle.y - unit.size.height / 2 ||
                             std::min(from.y, to.y) > unit.middle.y + unit.size.height / 2;
          ASSERT_TRUE(apart) << spec << ": a cable of " << drawing.units[edge.a].name << " crosses " << unit.name;
        }
      }
    }
  }
}

const Unit& unit_named(const Drawing& drawing, std::string_view name) {
  return *std::find_if(drawing.units.begin(), drawing.units.end(), [&](const Unit& unit) { return unit.name == name; });
}

TEST(Drawing, KeepsTheRoutersOfADragonflyGroupTogetherWithRoomBetweenThem) {
  const Fabric fabric = fabric::generate_fabric("dragonfly:groups=3,routers=4,hosts=2");
  const Drawing drawing = draw(fabric);
  ASSERT_EQ(drawing.panels.size(), 3u);
  for (size_t group = 0; group < 3; ++group) {
    const Panel& panel = drawing.panels[group];
    for (size_t router = 0; router < 4; ++router) {
      const Unit& unit = unit_named(drawing, "g" + std::to_string(group) + "r" + std::to_string(router));
      EXPECT_GT(unit.middle.x, panel.corner.x);
      EXPECT_LT(unit.middle.x, panel.corner.x + panel.size.width);
      EXPECT_GT(unit.middle.y, panel.corner.y);
      EXPECT_LT(unit.middle.y, panel.corner.y + panel.size.height);
    }
    // No router hides the cable between two others: they are the corners of a square.
    const Point a = unit_named(drawing, "g0r0").middle, b = unit_named(drawing, "g0r1").middle,
                c = unit_named(drawing, "g0r2").middle;
    EXPECT_GT(std::abs((b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x)), 500);
  }
}

TEST(Drawing, ShowsTheGroupsOfADragonflyWithOneHostAtEachRouter) {
  const Drawing small = draw(fabric::generate_fabric("dragonfly:groups=4,routers=4,hosts=1"));
  EXPECT_EQ(small.panels.size(), 4u);
  const Drawing large = draw(fabric::generate_fabric("dragonfly:groups=9,routers=8,hosts=1"));
  EXPECT_EQ(large.units.size(), 9u);
  // Pairs of neighbours on a ring are no groups.
  EXPECT_TRUE(
      draw(fabric::parse_fabric_text("a <-> swa 1GB/s; b <-> swb 1GB/s; c <-> swc 1GB/s; d <-> swd 1GB/s;"
                                     "swa <-> swb 1GB/s; swb <-> swc 1GB/s; swc <-> swd 1GB/s; swd <-> swa 1GB/s"))
          .panels.empty());
}

// Straight cables that pass behind a node that they do not end at.
size_t hidden_cables(const Drawing& drawing) {
  size_t found = 0;
  for (const Cable& cable : drawing.cables) {
    if (cable.path.size() != 2) continue;
    for (uint32_t unit = 0; unit < drawing.units.size(); ++unit) {
      const Unit& other = drawing.units[unit];
      if (unit == cable.a || unit == cable.b) continue;
      // A hundred places along the cable: no code is shared with the layout.
      for (int step = 1; step < 100; ++step) {
        const double part = step / 100.0;
        const double x = cable.path[0].x + part * (cable.path[1].x - cable.path[0].x);
        const double y = cable.path[0].y + part * (cable.path[1].y - cable.path[0].y);
        if (std::abs(x - other.middle.x) > other.size.width / 2 || std::abs(y - other.middle.y) > other.size.height / 2)
          continue;
        ++found;
        break;
      }
    }
  }
  return found;
}

TEST(Drawing, HidesNoCableBehindANode) {
  for (const char* spec :
       {"dragonfly:groups=3,routers=4,hosts=2", "dragonfly:groups=5,routers=4,hosts=2",
        "dragonfly:groups=8,routers=4,hosts=2", "dragonfly:groups=10,routers=3,hosts=2",
        "dragonfly:groups=4,routers=4,hosts=4", "dragonfly:groups=7,routers=4,hosts=2",
        "dragonfly:groups=5,routers=6,hosts=2", "dragonfly:groups=2,routers=4,hosts=4", "mi300x:2",
        "dragonfly:groups=4,routers=4,hosts=1", "dragonfly:groups=8,routers=4,hosts=1", "random:n=12,links=20",
        "hypercube:3", "hypercube:4", "kautz:n=24,d=3", "mi250:1", "dgx1-v100:1", "circulant:12,1,3"}) {
    EXPECT_EQ(hidden_cables(draw(fabric::generate_fabric(spec))), 0u) << spec;
  }
}

TEST(Drawing, KeepsTheCircleWhereItIsTheShapeAndSpreadsOthers) {
  const auto is_circle = [](const char* spec) {
    const Drawing drawing = draw(fabric::generate_fabric(spec));
    const Point middle{drawing.size.width / 2, drawing.size.height / 2};
    const auto radius = [&](const Unit& unit) {
      return std::hypot(unit.middle.x - middle.x, unit.middle.y - middle.y);
    };
    const double first = radius(drawing.units.front());
    return std::all_of(drawing.units.begin(), drawing.units.end(),
                       [&](const Unit& unit) { return std::abs(radius(unit) - first) < 1; });
  };
  for (const char* spec : {"ring:8", "full:16", "circulant:12,1,3"}) EXPECT_TRUE(is_circle(spec)) << spec;
  for (const char* spec : {"kautz:n=12,d=2", "random:n=40,links=70", "debruijn:k=2,n=4"}) {
    EXPECT_FALSE(is_circle(spec)) << spec;
  }
}

TEST(Drawing, SpreadsSoThatNeighboursAreNear) {
  for (const char* spec : {"random:n=40,links=70", "hypercube:4", "kautz:n=24,d=3"}) {
    const Drawing drawing = draw(fabric::generate_fabric(spec));
    double all = 0, joined = 0;
    const auto distance = [&](uint32_t a, uint32_t b) {
      return std::hypot(drawing.units[a].middle.x - drawing.units[b].middle.x,
                        drawing.units[a].middle.y - drawing.units[b].middle.y);
    };
    const auto count = static_cast<uint32_t>(drawing.units.size());
    for (uint32_t a = 0; a < count; ++a) {
      for (uint32_t b = 0; b < a; ++b) all += distance(a, b) / (count * (count - 1) / 2.0);
    }
    for (const Cable& cable : drawing.cables)
      joined += distance(cable.a, cable.b) / static_cast<double>(drawing.cables.size());
    EXPECT_LT(joined, 0.75 * all) << spec;
  }
}

TEST(Drawing, ShowsPackagesAndTheCubeMesh) {
  const Drawing mi250 = draw(fabric::generate_fabric("mi250:1"));
  EXPECT_EQ(std::count_if(mi250.panels.begin(), mi250.panels.end(), [](const Panel& panel) { return panel.inner; }), 8);
  // Ranks i and i + 4 are joined: all four of these cables run in parallel.
  const Drawing v100 = draw(fabric::generate_fabric("dgx1-v100:1"));
  for (size_t i = 1; i < 4; ++i) {
    EXPECT_DOUBLE_EQ(v100.units[i + 4].middle.x - v100.units[i].middle.x,
                     v100.units[4].middle.x - v100.units[0].middle.x);
    EXPECT_DOUBLE_EQ(v100.units[i + 4].middle.y - v100.units[i].middle.y,
                     v100.units[4].middle.y - v100.units[0].middle.y);
  }
}

TEST(Drawing, OfAnyDataCentreHasTheShapeOfAPage) {
  for (const char* spec : {"fat-tree:k=12", "fat-tree:k=16", "leaf-spine:leaves=32,hosts=16,spines=8", "dgx-h100:128",
                           "dragonfly:groups=9,routers=4,hosts=4"}) {
    const Extent size = draw(fabric::generate_fabric(spec)).size;
    EXPECT_LT(size.width / size.height, 5) << spec;
    EXPECT_GT(size.width / size.height, 0.3) << spec;
  }
}

TEST(Drawing, BoundsWhatItDrawsOfHugeFabrics) {
  EXPECT_LE(draw(fabric::generate_fabric("dgx-h100:2048")).units.size(), Drawing::kMaxTiles + 1);
  EXPECT_LE(draw(fabric::generate_fabric("torus:64x64")).units.size(), 64u);
}

TEST(Drawing, IsTheSameForTheSameFabric) {
  const Drawing one = draw(fabric::generate_fabric("fat-tree:k=8")),
                other = draw(fabric::generate_fabric("fat-tree:k=8"));
  ASSERT_EQ(one.cables.size(), other.cables.size());
  for (size_t i = 0; i < one.cables.size(); ++i) {
    ASSERT_EQ(one.cables[i].path.size(), other.cables[i].path.size());
    for (size_t k = 0; k < one.cables[i].path.size(); ++k)
      EXPECT_EQ(one.cables[i].path[k].x, other.cables[i].path[k].x);
  }
}

}  // namespace
}  // namespace banyan::picture
