#include "banyan/picture/picture.h"

#include <pugixml.hpp>

#include "banyan/fabric/generate.h"
#include "banyan/fabric/text.h"
#include "banyan/picture/curves.h"
#include "banyan/testing/test.h"

namespace banyan::picture {
namespace {

pugi::xml_document parse(const std::string& svg) {
  pugi::xml_document document;
  const pugi::xml_parse_result result = document.load_string(svg.c_str());
  EXPECT_TRUE(result) << result.description() << " at " << result.offset;
  return document;
}

// How often each value of `attribute` occurs on elements of this class.
std::map<std::string, int> count(const pugi::xml_node& within, const std::string& css_class, const char* attribute) {
  std::map<std::string, int> counts;
  for (const auto& match : within.select_nodes((".//*[@class='" + css_class + "']").c_str())) {
    ++counts[match.node().attribute(attribute).value()];
  }
  return counts;
}

double number(const pugi::xml_node& node, const char* attribute) { return node.attribute(attribute).as_double(); }

// Whether any two labels of the page would be drawn over each other: labelled nodes are rectangles around their label.
void expect_no_overlap(const std::string& svg) {
  const pugi::xml_document document = parse(svg);
  std::vector<pugi::xml_node> nodes;
  for (const auto& match : document.select_nodes("//g[@data-name]/rect")) nodes.push_back(match.node());
  ASSERT_FALSE(nodes.empty());
  const pugi::xml_node page = document.child("svg");
  for (size_t i = 0; i < nodes.size(); ++i) {
    EXPECT_LT(number(nodes[i], "x") + number(nodes[i], "width"), number(page, "width"));
    EXPECT_LT(number(nodes[i], "y") + number(nodes[i], "height"), number(page, "height"));
    for (size_t j = 0; j < i; ++j) {
      const bool apart_x = number(nodes[i], "x") >= number(nodes[j], "x") + number(nodes[j], "width") ||
                           number(nodes[j], "x") >= number(nodes[i], "x") + number(nodes[i], "width");
      const bool apart_y = number(nodes[i], "y") >= number(nodes[j], "y") + number(nodes[j], "height") ||
                           number(nodes[j], "y") >= number(nodes[i], "y") + number(nodes[i], "height");
      ASSERT_TRUE(apart_x || apart_y) << nodes[i].parent().attribute("data-name").value() << " and "
                                      << nodes[j].parent().attribute("data-name").value();
    }
  }
}

TEST(FabricPicture, ShowsEveryNodeAndEveryCableOnce) {
  for (const char* spec : {"dgx-h100:2", "mi250:2", "torus:4x4", "torus:3x3x3", "ring:5", "fat-tree:k=4", "dgx1-v100:3",
                           "rail:boxes=4,gpus=8", "star:20", "random:n=12,links=40,seed=7"}) {
    SCOPED_TRACE(spec);
    const Fabric fabric = fabric::generate_fabric(spec);
    const pugi::xml_document document = parse(draw_fabric(fabric, Format::svg));
    std::map<std::string, int> nodes = count(document, "rank", "data-name");
    nodes.merge(count(document, "switch", "data-name"));
    EXPECT_EQ(nodes.size(), fabric.nodes().size());
    for (const Node& node : fabric.nodes()) EXPECT_EQ(nodes[node.name], 1) << node.name;
    std::map<std::pair<std::string, std::string>, int> cables;
    for (const auto& match : document.select_nodes("//path[@class='cable']")) {
      ++cables[std::minmax<std::string>(match.node().attribute("data-from").value(),
                                        match.node().attribute("data-to").value())];
    }
    std::map<std::pair<std::string, std::string>, int> expected;
    for (const Link& link : fabric.links()) expected[std::minmax(fabric.name(link.from), fabric.name(link.to))] = 1;
    EXPECT_EQ(cables, expected);
  }
}

TEST(FabricPicture, DrawsUnequalAndOneWayLinksWithArrows) {
  const Fabric fabric = fabric::parse_fabric_text("a -> b 2GB/s; b -> a 1GB/s; b -> c 1GB/s; c -> a 1GB/s");
  const pugi::xml_document document = parse(draw_fabric(fabric, Format::svg));
  EXPECT_EQ(document.select_nodes("//path[@class='arrow']").size(), 4u);
  EXPECT_EQ(
      parse(draw_fabric(fabric::generate_fabric("ring:4"), Format::svg)).select_nodes("//path[@class='arrow']").size(),
      0u);
}

TEST(FabricPicture, DashesCablesWhoseBandwidthIsAssumed) {
  const Fabric fabric = fabric::parse_fabric_text("a <-> b 1GB/s; b <-> c 6GB/s assumed; c <-> a 1GB/s");
  const std::string svg = draw_fabric(fabric, Format::svg), dot = draw_fabric(fabric, Format::dot);
  EXPECT_EQ(count(parse(svg), "cable", "stroke-dasharray"), (std::map<std::string, int>{{"6 3", 1}, {"", 2}}));
  EXPECT_THAT(svg, AllOf(HasSubstr("dashed: the bandwidth is assumed"), HasSubstr("b – c: 6 GB/s each way (assumed)")));
  EXPECT_THAT(dot, HasSubstr("style=\"dashed\", tooltip=\"6 GB/s (assumed)\""));
  EXPECT_THAT(draw_fabric(fabric::parse_fabric_text("a <-> b 1GB/s"), Format::svg), Not(HasSubstr("dash")));
}

TEST(FabricPicture, LeavesEveryArrowHeadVisibleAndSaysWhatArrowsMean) {
  const std::string svg = draw_fabric(fabric::generate_fabric("kautz:n=12,d=2"), Format::svg);
  const pugi::xml_document document = parse(svg);
  for (const auto& arrow : document.select_nodes("//path[@class='arrow']")) {
    double x = 0, y = 0;
    ASSERT_EQ(std::sscanf(arrow.node().attribute("transform").value(), "translate(%lf %lf)", &x, &y), 2);
    for (const auto& match : document.select_nodes("//g[@class='rank']/rect")) {
      const pugi::xml_node node = match.node();
      const bool is_inside = x > number(node, "x") - 2 && x < number(node, "x") + number(node, "width") + 2 &&
                             y > number(node, "y") - 2 && y < number(node, "y") + number(node, "height") + 2;
      EXPECT_FALSE(is_inside) << node.parent().attribute("data-name").value();
    }
  }
  EXPECT_THAT(svg, HasSubstr(">each way; with an arrow: that way only<"));
  const Fabric one_way = fabric::parse_fabric_text("a -> b 1GB/s; b -> c 1GB/s; c -> a 1GB/s");
  EXPECT_THAT(draw_fabric(one_way, Format::svg), HasSubstr(">arrows: that way only<"));
}

TEST(FabricPicture, NamesTheFabricInItsTitle) {
  const std::string svg = draw_fabric(fabric::generate_fabric("dgx-h100:2"), Format::svg, "dgx-h100:2");
  EXPECT_THAT(svg, AllOf(HasSubstr("<title>dgx-h100:2: 16 ranks, 3 switches, 64 links</title>"),
                         HasSubstr(">dgx-h100:2</text>"), HasSubstr(">16 ranks, 3 switches, 64 links</text>")));
  EXPECT_THAT(draw_fabric(fabric::generate_fabric("dgx-h100:2"), Format::dot, "dgx-h100:2"),
              HasSubstr("label=\"dgx-h100:2\";"));
  EXPECT_THAT(draw_fabric(fabric::generate_fabric("ring:4"), Format::svg, "odd\x1b[31m\n.json"),
              HasSubstr("<title>odd?[31m?.json: 4 ranks, 8 links</title>"));
}

TEST(FabricPicture, ShowsTheRanksOfLargeFabricsAsCellsOfTiles) {
  for (const char* spec : {"fat-tree:k=12", "gb200-nvl72:2", "rail:boxes=3,gpus=128"}) {
    const Fabric fabric = fabric::generate_fabric(spec);
    const std::map<std::string, int> cells = count(parse(draw_fabric(fabric, Format::svg)), "cell", "data-name");
    EXPECT_EQ(cells.size(), fabric.ranks().size()) << spec;
    for (const auto& [name, times] : cells) EXPECT_EQ(times, 1) << spec << " " << name;
  }
}

TEST(FabricPicture, PutsThePodsOfAFatTreeIntoPanels) {
  const pugi::xml_document document = parse(draw_fabric(fabric::generate_fabric("fat-tree:k=12"), Format::svg));
  EXPECT_EQ(document.select_nodes("//rect[@class='box']").size(), 12u);
}

TEST(FabricPicture, DrawsAFullMeshAsOneRanksCablesOverAllOthers) {
  const pugi::xml_document document = parse(draw_fabric(fabric::generate_fabric("full:64"), Format::svg));
  EXPECT_EQ(document.select_nodes("//path[@class='cable' and @stroke-opacity='0.8']").size(), 63u);
  EXPECT_EQ(document.select_nodes("//path[@class='cable']").size(), 64u * 63 / 2);
}

TEST(FabricPicture, LabelsDoNotOverlap) {
  for (const char* spec :
       {"dgx-h100:8", "mi250:4", "torus:8x8", "torus:4x4x4", "ring:64", "star:64", "full:7", "hypercube:6",
        "fat-tree:k=4", "leaf-spine:leaves=8,hosts=8,spines=4", "dgx1-v100:8", "kautz:n=24,d=3"}) {
    SCOPED_TRACE(spec);
    expect_no_overlap(draw_fabric(fabric::generate_fabric(spec), Format::svg));
  }
  expect_no_overlap(draw_fabric(fabric::parse_fabric_text("a-rank-with-a-name-far-too-long <-> mmmmmmmmmmmmmmmm 1GB/s;"
                                                          "mmmmmmmmmmmmmmmm <-> WWWWWWWWWWWWWW 1GB/s"),
                                Format::svg));
}

TEST(FabricPicture, HasATitleThatIsLegibleOnASlide) {
  for (const char* spec : {"ring:8", "full:64", "random:n=60,links=200", "dgx-a100:64"}) {
    const std::string picture = draw_fabric(fabric::generate_fabric(spec), Format::svg, spec);
    const pugi::xml_document document = parse(picture);
    const double width = document.child("svg").attribute("width").as_double();
    for (const pugi::xml_node& text : document.child("svg").children("text")) {
      // As large as 9 points on a slide of 960 points.
      EXPECT_GE(text.attribute("font-size").as_double() * 960 / width, 9) << spec << ": " << text.text().get();
    }
  }
}

TEST(FabricPicture, HasALegendOfTheBandwidthsWidestFirst) {
  const std::string svg = draw_fabric(fabric::generate_fabric("mi250:2"), Format::svg);
  size_t at = 0;
  for (const char* label : {">200 GB/s<", ">100 GB/s<", ">50 GB/s<", ">16 GB/s<"}) {
    at = svg.find(label, at);
    ASSERT_NE(at, std::string::npos) << label;
  }
  // More bandwidths than colours share them.
  std::string text;
  for (int i = 0; i < 20; ++i) {
    text += "r" + std::to_string(i) + " <-> r" + std::to_string((i + 1) % 20) + " " + std::to_string(100 + i) + "GB/s;";
  }
  const pugi::xml_document many = parse(draw_fabric(fabric::parse_fabric_text(text), Format::svg));
  EXPECT_EQ(many.select_nodes("//line[@class='legend']").size(), 6u);
}

TEST(FabricPicture, PutsEachBoxInAPanel) {
  const pugi::xml_document boxes = parse(draw_fabric(fabric::generate_fabric("dgx-h100:3"), Format::svg));
  EXPECT_EQ(boxes.select_nodes("//rect[@class='box']").size(), 3u);
  const pugi::xml_document one = parse(draw_fabric(fabric::generate_fabric("dgx-h100:1"), Format::svg));
  EXPECT_EQ(one.select_nodes("//rect[@class='box']").size(), 0u);
}

TEST(FabricPicture, LaysGridNamesOnAGrid) {
  const pugi::xml_document document = parse(draw_fabric(fabric::generate_fabric("torus:3x4"), Format::svg));
  const auto middle = [&](const char* name) {
    const pugi::xml_node rect =
        document.select_node(("//g[@data-name='" + std::string(name) + "']/rect").c_str()).node();
    return std::pair(number(rect, "x") + number(rect, "width") / 2, number(rect, "y") + number(rect, "height") / 2);
  };
  EXPECT_NEAR(middle("x2y1").first, middle("x2y3").first, 0.2);
  EXPECT_NEAR(middle("x0y3").second, middle("x2y3").second, 0.2);
  EXPECT_LT(middle("x0y3").first, middle("x1y3").first);
  EXPECT_LT(middle("x1y0").second, middle("x1y1").second);
}

Fabric hostile_fabric() {
  Fabric::Builder builder;
  const NodeId a = builder.add_rank("<script>alert('1')</script>&amp;\"");
  const NodeId b = builder.add_rank("back\\slash\\");
  const NodeId c = builder.add_switch("]]>--> ümläut 交換機 \xEF\xBF\xBE");
  builder.add_cable({.from = a, .to = c, .bandwidth = Bandwidth::gigabytes_per_second(1)});
  builder.add_cable({.from = b, .to = c, .bandwidth = Bandwidth::gigabytes_per_second(1)});
  return std::move(builder).build();
}

Schedule pair_exchange(const Fabric& fabric, CollectiveKind kind) {
  Schedule::Builder builder(fabric, Collective::make(fabric, {.kind = kind}));
  const std::vector<LinkId> forth{LinkId{0}, LinkId{3}}, back{LinkId{2}, LinkId{1}};
  const std::vector<RouteId> to_b{builder.add_route(forth)}, to_a{builder.add_route(back)};
  const NodeId a = fabric.ranks()[0], b = fabric.ranks()[1];
  if (kind == CollectiveKind::all_reduce) {
    builder.add_chunk({.root = a, .units = 1, .in_tree = to_a, .out_tree = to_b});
    builder.add_chunk({.root = b, .units = 3, .in_tree = to_b, .out_tree = to_a});
  } else {
    builder.add_chunk({.root = a, .units = 1, .out_tree = to_b});
    builder.add_chunk({.root = b, .units = 1, .out_tree = to_a});
  }
  return std::move(builder).build();
}

TEST(Picture, EscapesHostileNames) {
  const Fabric fabric = hostile_fabric();
  const pugi::xml_document drawn = parse(draw_fabric(fabric, Format::svg));
  EXPECT_EQ(count(drawn, "rank", "data-name")["<script>alert('1')</script>&amp;\""], 1);
  EXPECT_EQ(drawn.select_nodes("//script").size(), 0u);
  const pugi::xml_document trees = parse(draw_trees(pair_exchange(fabric, CollectiveKind::all_gather), Format::svg));
  EXPECT_EQ(trees.select_nodes("//script").size(), 0u);
  // U+FFFE is UTF-8 but no XML.
  EXPECT_THAT(draw_fabric(fabric, Format::svg), Not(HasSubstr("\xEF\xBF\xBE")));
  const std::string dot = draw_fabric(fabric, Format::dot);
  EXPECT_THAT(dot, HasSubstr("label=\"<script>alert('1')</script>&amp;\\\"\""));
  EXPECT_THAT(dot, HasSubstr("label=\"back\\\\slash\\\\\""));
}

TEST(Picture, IsTheSameEveryTime) {
  for (const Format format : {Format::svg, Format::dot}) {
    EXPECT_EQ(draw_fabric(fabric::generate_fabric("mi250:2"), format),
              draw_fabric(fabric::generate_fabric("mi250:2"), format));
    const Schedule schedule = pair_exchange(hostile_fabric(), CollectiveKind::all_reduce);
    EXPECT_EQ(draw_trees(schedule, format), draw_trees(schedule, format));
  }
}

TEST(Picture, RefusesWhatNobodyCouldSee) {
  EXPECT_THROW(draw_fabric(fabric::generate_fabric("star:20001"), Format::svg), Error);
  EXPECT_THROW(draw_fabric(fabric::generate_fabric("star:20001"), Format::dot), Error);
}

TEST(TreePictures, AnAllreduceShowsBothTreesOfAChunk) {
  const Fabric fabric = fabric::parse_fabric_text("a <-> sw 1GB/s; b <-> sw 2GB/s");
  const Schedule schedule = pair_exchange(fabric, CollectiveKind::all_reduce);
  const std::string svg = draw_trees(schedule, Format::svg, {.root = fabric.at("b")});
  const pugi::xml_document document = parse(svg);
  const auto cards = document.select_nodes("//g[@class='tree']");
  ASSERT_EQ(cards.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const pugi::xml_node card = cards[i].node();
    EXPECT_EQ(count(card, "root", "data-name"), (std::map<std::string, int>{{"b", 1}}));
    EXPECT_EQ(count(card, "rank", "data-name"), (std::map<std::string, int>{{"a", 1}}));
    EXPECT_EQ(count(card, "edge", "data-from"), (std::map<std::string, int>{{i == 0 ? "a" : "b", 1}}));
    EXPECT_EQ(count(card, "edge", "data-to"), (std::map<std::string, int>{{i == 0 ? "b" : "a", 1}}));
  }
  EXPECT_THAT(svg, HasSubstr("3/4 of the buffer, height 1"));
  EXPECT_THAT(svg, HasSubstr("a -&gt; b, through sw"));
  EXPECT_THAT(svg, HasSubstr("stroke-dasharray=\"6 3\""));
}

// A broadcast in which rank i feeds ranks 2i+1 and 2i+2, on a complete graph, as `copies` equal chunks.
Schedule heap_broadcast(uint32_t ranks, size_t copies) {
  const Fabric fabric = fabric::generate_fabric("full:" + std::to_string(ranks));
  Schedule::Builder builder(fabric, Collective::make(fabric, {.kind = CollectiveKind::broadcast}));
  std::vector<RouteId> tree;
  for (uint32_t child = 1; child < ranks; ++child) {
    for (const LinkId link : fabric.in_links(fabric.ranks()[child])) {
      if (fabric.link(link).from == fabric.ranks()[(child - 1) / 2])
        tree.push_back(builder.add_route(std::vector{link}));
    }
  }
  for (size_t i = 0; i < copies; ++i) builder.add_chunk({.root = fabric.ranks()[0], .units = 1, .out_tree = tree});
  return std::move(builder).build();
}

TEST(TreePictures, ShowEveryRankAndEdgeOnceByLevel) {
  const pugi::xml_document document = parse(draw_trees(heap_broadcast(15, 1), Format::svg));
  EXPECT_EQ(count(document, "root", "data-name").size(), 1u);
  EXPECT_EQ(count(document, "rank", "data-name").size(), 14u);
  const std::map<std::string, int> children = count(document, "edge", "data-to");
  EXPECT_EQ(children.size(), 14u);
  for (const auto& [name, times] : children) EXPECT_EQ(times, 1) << name;
  std::map<double, int> levels;
  for (const auto& match : document.select_nodes("//g[@data-name]/rect")) ++levels[number(match.node(), "y")];
  std::vector<int> sizes;
  for (const auto& [y, size] : levels) sizes.push_back(size);
  EXPECT_THAT(sizes, ::testing::ElementsAre(1, 2, 4, 8));
}

TEST(TreePictures, ExplainEveryKindOfLineByItsOwnColour) {
  const Fabric fabric = fabric::parse_fabric_text("a <-> sw 1GB/s; b <-> sw 2GB/s");
  const std::string one_box =
      draw_trees(pair_exchange(fabric, CollectiveKind::all_gather), Format::svg, {.name = "p.json"});
  EXPECT_THAT(one_box, AllOf(HasSubstr("through a switch<"), HasSubstr("<title>p.json: allgather among 2 ranks, ")));
  EXPECT_EQ(parse(one_box).select_nodes("//line[@class='legend' and @stroke='#0072B2']").size(), 1u);
  const pugi::xml_document direct = parse(draw_trees(heap_broadcast(15, 1), Format::svg));
  EXPECT_EQ(direct.select_nodes("//line[@class='legend']").size(), 1u);
  EXPECT_EQ(direct.select_nodes("//line[@class='legend' and @stroke='#0072B2']").size(), 1u);
}

TEST(TreePictures, StandSideBySideWithoutOverlap) {
  const std::string four = draw_trees(heap_broadcast(7, 9), Format::svg);
  EXPECT_EQ(parse(four).select_nodes("//g[@class='tree']").size(), 4u);
  EXPECT_THAT(four, HasSubstr("4 of the 9 chunks of gpu0"));
  EXPECT_EQ(
      parse(draw_trees(heap_broadcast(7, 9), Format::svg, {.max_trees = 20})).select_nodes("//g[@class='tree']").size(),
      9u);
  expect_no_overlap(draw_trees(heap_broadcast(64, 1), Format::svg));
  expect_no_overlap(draw_trees(heap_broadcast(100, 1), Format::svg));
}

TEST(TreePictures, SwitchesThatMulticastAreNodesOfTheirOwnKind) {
  const Fabric fabric =
      fabric::parse_fabric_text("sw: switch multicast; a <-> sw 1GB/s; b <-> sw 1GB/s; c <-> sw 1GB/s");
  Schedule::Builder builder(fabric, Collective::make(fabric, {.kind = CollectiveKind::broadcast}));
  std::vector<RouteId> tree;
  for (const LinkId link : {LinkId{0}, LinkId{3}, LinkId{5}}) tree.push_back(builder.add_route(std::vector{link}));
  builder.add_chunk({.root = fabric.at("a"), .units = 1, .out_tree = tree});
  const Schedule schedule = std::move(builder).build();
  const pugi::xml_document document = parse(draw_trees(schedule, Format::svg));
  EXPECT_EQ(document.select_nodes("//g[@class='switch']").size(), 1u);
  EXPECT_EQ(document.select_nodes("//g[@class='rank']").size(), 2u);
  EXPECT_THAT(draw_trees(schedule, Format::dot), HasSubstr("sw"));
}

TEST(TreePictures, NameWhatIsMissingOrBroken) {
  const Schedule schedule = heap_broadcast(4, 1);
  EXPECT_THROW(draw_trees(schedule, Format::svg, {.root = schedule.fabric().ranks()[2]}), Error);
  EXPECT_THROW(draw_trees(schedule, Format::svg, {.root = NodeId{999}}), Error);
  EXPECT_THROW(draw_trees(schedule, Format::svg, {.max_trees = 0}), Error);
  // Well formed, but the edge into the root closes a cycle: what a file may hold.
  const Fabric fabric = fabric::generate_fabric("ring:3");
  Schedule::Builder builder(fabric, Collective::make(fabric, {.kind = CollectiveKind::broadcast}));
  std::vector<RouteId> cycle;
  for (uint32_t i = 0; i < 3; ++i) {
    for (const LinkId link : fabric.out_links(NodeId{i})) {
      if (fabric.link(link).to == NodeId{(i + 1) % 3}) cycle.push_back(builder.add_route(std::vector{link}));
    }
  }
  builder.add_chunk({.root = NodeId{0}, .units = 1, .out_tree = cycle});
  const Schedule broken = std::move(builder).build();
  EXPECT_THROW(draw_trees(broken, Format::svg), Error);
  EXPECT_THROW(draw_trees(broken, Format::dot), Error);
}

// Reads DOT as we write it: one statement a line, every name quoted. Returns the statements with quoted strings cut
// out, and fails on unbalanced quotes or braces.
std::map<std::string, int> dot_statements(const std::string& dot) {
  std::map<std::string, int> statements;
  std::string bare;
  int depth = 0;
  bool in_quotes = false;
  for (size_t i = 0; i < dot.size(); ++i) {
    const char c = dot[i];
    if (in_quotes) {
      if (c == '\\') ++i;
      if (c == '"') in_quotes = false;
      EXPECT_NE(c, '\n');
      continue;
    }
    in_quotes = c == '"';
    depth += c == '{' ? 1 : c == '}' ? -1 : 0;
    EXPECT_GE(depth, 0);
    if (c == '\n') {
      ++statements[bare];
      bare.clear();
    } else if (c != ' ') {
      bare += c;
    }
  }
  EXPECT_FALSE(in_quotes);
  EXPECT_EQ(depth, 0);
  return statements;
}

TEST(Curves, StandAtPowersOfTwoAndPlainNumbers) {
  Curve curve{.label = "allreduce", .points = {}};
  for (int power = 10; power <= 26; ++power) {
    curve.points.push_back({.bytes = std::exp2(power), .value = 12000.0 * (power - 9), .note = "n"});
  }
  curve.points.push_back({.bytes = 0, .value = 5, .note = "left out"});
  const std::string svg = draw_curves({.title = "allreduce, 2 ranks",
                                       .subtitle = "banyan 1.2.3 on host, 2030-01-02",
                                       .value = "time (us)",
                                       .curves = {curve}});
  const pugi::xml_document document = parse(svg);
  EXPECT_EQ(document.select_nodes("//circle").size(), 17u);
  EXPECT_THAT(svg, AllOf(HasSubstr(">allreduce, 2 ranks<"), HasSubstr(">banyan 1.2.3 on host, 2030-01-02<"),
                         HasSubstr(">1 KiB<"), HasSubstr(">10,000<"), Not(HasSubstr("e+0"))));
  EXPECT_THAT(svg, Not(HasSubstr("left out")));
  for (Curve::Point& point : curve.points) point.value *= 1e-9;
  const std::string small = draw_curves({.title = "small", .subtitle = "s", .value = "GB/s", .curves = {curve}});
  EXPECT_THAT(small, AllOf(HasSubstr(">0.00001<"), HasSubstr(">0.0002<"), Not(HasSubstr("e-0"))));
  EXPECT_THROW(draw_curves({}), Error);
}

TEST(DotPicture, QuotesEveryNameAndHasEveryNodeAndEdge) {
  int nodes = 0, edges = 0;
  for (const auto& [statement, times] :
       dot_statements(draw_fabric(fabric::generate_fabric("dgx-h100:2"), Format::dot))) {
    if (statement.starts_with("\"[label=")) nodes += times;
    if (statement.starts_with("\"->\"[")) edges += times;
  }
  EXPECT_EQ(nodes, 19);
  EXPECT_EQ(edges, 32);
  nodes = edges = 0;
  for (const auto& [statement, times] : dot_statements(draw_trees(heap_broadcast(7, 2), Format::dot))) {
    if (statement.starts_with("\"[label=")) nodes += times;
    if (statement.starts_with("\"->\"[")) edges += times;
  }
  EXPECT_EQ(nodes, 14);
  EXPECT_EQ(edges, 12);
  dot_statements(draw_fabric(hostile_fabric(), Format::dot));
}

}  // namespace
}  // namespace banyan::picture
