#include "banyan/fabric/nccl_xml.h"

#include "banyan/base/file.h"
#include "banyan/fabric/cpu_table.h"
#include "banyan/fabric/device_table.h"
#include "banyan/fabric/test_rates.h"
#include "banyan/testing/test.h"

namespace banyan::fabric {
namespace {

Fabric parse_xml(const std::string& xml, const BoxOptions& options = {}) {
  std::vector<std::string> notes;
  return parse_nccl_xml(xml, options, "topo.xml", notes);
}

Fabric parse_nccl(const std::string& name, const BoxOptions& options = {}) {
  return parse_xml(corpus_file("nccl/" + name), options);
}

std::string nccl_error(const std::string& xml, const BoxOptions& options = {}) {
  return testing::error_of([&] { parse_xml(xml, options); });
}

std::set<std::string> switches(const Fabric& fabric) {
  const std::vector<std::string> names = names_of(fabric, NodeKind::switch_);
  return {names.begin(), names.end()};
}

void expect_balanced_switches(const Fabric& fabric) {
  for (uint32_t v = 0; v < fabric.nodes().size(); ++v) {
    uint64_t in = 0, out = 0;
    for (const LinkId id : fabric.in_links(NodeId{v})) in += fabric.link(id).bandwidth.bytes_per_second();
    for (const LinkId id : fabric.out_links(NodeId{v})) out += fabric.link(id).bandwidth.bytes_per_second();
    if (!fabric.is_rank(NodeId{v})) {
      EXPECT_EQ(in, out) << fabric.name(NodeId{v});
    }
  }
}

std::string one_pci(const std::string& attributes, const std::string& content) {
  return "<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"0000:1a:00.0\" " + attributes + ">" + content +
         "</pci><pci busid=\"0000:2a:00.0\" class=\"0x030200\"><gpu dev=\"1\" sm=\"80\"/></pci></cpu></system>";
}

TEST(NcclXml, ReadsADumpOfAnNvswitchBox) {
  const Fabric fabric = parse_nccl("h100_dump.xml");
  EXPECT_EQ(fabric.ranks().size(), 8u);
  for (int i = 0; i < 8; ++i) {
    EXPECT_DOUBLE_EQ(rate_between(fabric, "gpu" + std::to_string(i), "nvsw0"), 370.8)
        << i;  // 5 + 4 + 5 + 4 links of 20.6
    EXPECT_DOUBLE_EQ(rate_between(fabric, "nvsw0", "gpu" + std::to_string(i)), 370.8) << i;
  }
  EXPECT_EQ(switches(fabric), (std::set<std::string>{"nvsw0"})) << "no PCI beside NVLink";
  expect_balanced_switches(fabric);
}

// The file lists GPUs by bus; their dev attribute says which number CUDA gives them.
TEST(NcclXml, NumbersGpusByDev) {
  const Fabric fabric = parse_nccl("h100_dump.xml", {.boxes = 2});
  EXPECT_DOUBLE_EQ(rate_between(fabric, "box0/gpu1", "box0/pci0000:10:00.0"), 48);
  EXPECT_DOUBLE_EQ(rate_between(fabric, "box0/gpu0", "box0/pci0000:20:00.0"), 48);
}

TEST(NcclXml, JoinsBoxesThroughTheirNics) {
  const Fabric fabric = parse_nccl("h100_dump.xml", {.boxes = 3});
  EXPECT_EQ(fabric.ranks().size(), 24u);
  EXPECT_EQ(fabric.nodes().size(), 3u * (8 + 1 + 8 + 8) + 1) << "no CPU: every GPU has a NIC at its own PCI switch";
  EXPECT_DOUBLE_EQ(rate_between(fabric, "box2/nic7", "ib0"), 50);
  EXPECT_DOUBLE_EQ(rate_between(fabric, "ib0", "box0/nic0"), 50);
  EXPECT_DOUBLE_EQ(rate_between(fabric, "box1/pci0000:10:00.0", "box1/nic0"), 48);
  EXPECT_EQ(generate_group(fabric.symmetries(), 24).size(), 3u);
  expect_balanced_switches(fabric);
  EXPECT_DOUBLE_EQ(rate_between(parse_nccl("h100_dump.xml", {.boxes = 2, .nic = Bandwidth::gigabits_per_second(200)}),
                                "box0/nic0", "ib0"),
                   25);
}

TEST(NcclXml, TakesNominalSpeedsFromTheDeviceTable) {
  EXPECT_DOUBLE_EQ(rate_between(parse_nccl("h100_dump.xml", {.gpu = "H100"}), "gpu0", "nvsw0"), 450);
}

// Two GPUs on two EPYC 9575F were measured at 32 to 36 GB/s (issue 2036 of NCCL).
TEST(NcclXml, AssumesTheLinksBetweenCpusAndSaysSo) {
  std::vector<std::string> notes;
  const Fabric fabric = parse_nccl_xml(corpus_file("nccl/two_sockets.xml"), {}, "topo.xml", notes);
  EXPECT_DOUBLE_EQ(rate_between(fabric, "cpu0", "cpu1"), 40);
  const auto assumed = [](const Fabric& of) {
    return std::ranges::count_if(of.links(), [](const Link& link) { return link.assumed; });
  };
  EXPECT_EQ(assumed(fabric), 2);
  EXPECT_THAT(notes,
              ::testing::ElementsAre(::testing::AllOf(HasSubstr("40 GB/s each way, as NCCL takes it for AMD Zen 5"),
                                                      HasSubstr("--cpu-link 64GB/s"))));
  const Fabric given = parse_nccl("two_sockets.xml", {.cpu_link = Bandwidth::gigabytes_per_second(64)});
  EXPECT_DOUBLE_EQ(rate_between(given, "cpu0", "cpu1"), 64);
  EXPECT_EQ(assumed(given), 0);
}

TEST(NcclXml, RefusesSeveralSystemsInWords) {
  EXPECT_THAT(nccl_error(corpus_file("nccl/two_documents.xml")),
              AllOf(HasSubstr("topo.xml line 9: a second <system> begins here"), HasSubstr("--boxes 2")));
}

TEST(NcclXml, RefusesMoreLinksThanAGpuHas) {
  const auto gpu = [](const std::string& count) {
    return one_pci("", "<gpu dev=\"0\" sm=\"80\"><nvlink target=\"0000:2a:00.0\" count=\"" + count + "\"/></gpu>");
  };
  EXPECT_THAT(nccl_error(gpu("13")), HasSubstr("gpu0 has 13 links in this file, but GPUs of its kind have 12"));
  EXPECT_EQ(nccl_error(gpu("12")), "no error");
}

TEST(NcclXml, ReadsDirectNvlinks) {
  const Fabric fabric = parse_nccl("v100_mesh_dump.xml");
  EXPECT_DOUBLE_EQ(rate_between(fabric, "gpu0", "gpu3"), 40);
  EXPECT_DOUBLE_EQ(rate_between(fabric, "gpu3", "gpu0"), 40);
  EXPECT_DOUBLE_EQ(rate_between(fabric, "gpu0", "gpu1"), 20);
  EXPECT_DOUBLE_EQ(rate_between(fabric, "gpu0", "gpu7"), 0);
  EXPECT_DOUBLE_EQ(rate_between(fabric, "gpu0", "pci0000:04:00.0"), 12);
  EXPECT_DOUBLE_EQ(rate_between(fabric, "cpu0", "cpu1"), 6);  // Broadwell
  EXPECT_EQ(switches(fabric).count("nvsw0"), 0u);
  expect_balanced_switches(fabric);
  EXPECT_DOUBLE_EQ(rate_between(parse_nccl("v100_mesh_dump.xml", {.boxes = 2}), "box0/nic0", "ib0"), 12.5);
}

TEST(NcclXml, FillsASkeletonFromTheOptions) {
  const Fabric a100 = parse_nccl("skeleton.xml", {.gpu = "a100"});
  EXPECT_EQ(a100.ranks().size(), 8u);
  EXPECT_DOUBLE_EQ(rate_between(a100, "gpu5", "nvsw0"), 300);
  EXPECT_EQ(switches(a100), (std::set<std::string>{"nvsw0"}));
  const Fabric v100 =
      parse_nccl("skeleton.xml", {.boxes = 2, .gpu = "v100", .nic = Bandwidth::gigabits_per_second(100)});
  EXPECT_DOUBLE_EQ(rate_between(v100, "box1/gpu0", "box1/gpu3"), 50);
  EXPECT_DOUBLE_EQ(rate_between(v100, "box1/cpu0", "box1/cpu1"), 24) << "Zen 3; gpu0 and gpu7 have no NVLink";
  EXPECT_DOUBLE_EQ(rate_between(v100, "box1/nic2", "ib0"), 12.5);
  EXPECT_DOUBLE_EQ(rate_between(v100, "box1/nic2", "box1/pciffff:ff:03.0"), 12);  // 8 GT/s, width 0 means 16 lanes
  expect_balanced_switches(v100);
  const Fabric mi300x = parse_nccl("skeleton.xml", {.gpu = "mi300x"});
  EXPECT_DOUBLE_EQ(rate_between(mi300x, "gpu2", "gpu7"), 64);
  EXPECT_EQ(switches(parse_nccl("skeleton.xml", {.gpu = "pcie"})).count("nvsw0"), 0u);
}

TEST(NcclXml, SaysWhichFlagASkeletonNeeds) {
  EXPECT_THAT(nccl_error(corpus_file("nccl/skeleton.xml")),
              AllOf(HasSubstr("topo.xml: "), HasSubstr("--gpu, one of p100, v100")));
  EXPECT_THAT(nccl_error(corpus_file("nccl/skeleton.xml"), {.boxes = 2, .gpu = "a100"}),
              AllOf(HasSubstr("its 4 network interfaces"), HasSubstr("--nic 400Gb/s")));
  EXPECT_THAT(nccl_error(corpus_file("nccl/skeleton.xml"), {.gpu = "h10"}), HasSubstr("did you mean 'h100'?"));
  EXPECT_THAT(nccl_error(corpus_file("nccl/skeleton.xml"), {.gpu = "mi250"}),
              HasSubstr("boxes of 16 GPUs, but the file has 8"));
  EXPECT_THAT(nccl_error(corpus_file("nccl/h100_dump.xml"), {.gpu = "pcie"}), HasSubstr("but the file has some"));
  EXPECT_THAT(nccl_error(corpus_file("nccl/h100_dump.xml"), {.boxes = 0}), HasSubstr("--boxes is 0"));
  EXPECT_THAT(nccl_error(corpus_file("nccl/xgmi_dump.xml"), {.boxes = 2}), HasSubstr("no network interfaces"));
  EXPECT_THAT(nccl_error(corpus_file("nccl/h100_dump.xml"), {.boxes = 1'000'000}),
              HasSubstr("1000000 boxes would have"));
}

// Containers and GB200 hide the switch; its busid is all f. Two hosts of one file meet there.
TEST(NcclXml, TakesAHiddenTargetForAnNvswitch) {
  const Fabric fabric = parse_nccl("hidden_nvswitch.xml");
  EXPECT_EQ(fabric.ranks().size(), 4u);
  EXPECT_DOUBLE_EQ(rate_between(fabric, "gpu0", "nvsw0"), 721.8);
  EXPECT_DOUBLE_EQ(rate_between(fabric, "gpu3", "nvsw0"), 721.8);
  EXPECT_EQ(switches(fabric), (std::set<std::string>{"nvsw0"}));
  expect_balanced_switches(fabric);
}

TEST(NcclXml, ReadsXgmiAndBusidsOfAnyWidth) {
  const Fabric fabric = parse_nccl("xgmi_dump.xml");
  EXPECT_DOUBLE_EQ(rate_between(fabric, "gpu0", "gpu1"), 48);
  EXPECT_DOUBLE_EQ(rate_between(fabric, "gpu1", "gpu0"), 48);
  EXPECT_TRUE(switches(fabric).empty());
}

TEST(NcclXml, PutsASwitchBeforeGpusThatShareASlot) {
  const Fabric fabric = parse_nccl("partitions.xml", {.boxes = 2});
  EXPECT_EQ(fabric.ranks().size(), 4u);
  EXPECT_DOUBLE_EQ(rate_between(fabric, "box0/gpu1", "box0/pci0000:1a:00.0"), 4.375) << "as much as its NIC takes";
  EXPECT_DOUBLE_EQ(rate_between(fabric, "box0/pci0000:1a:00.0", "box0/cpu0"), 96);
  EXPECT_DOUBLE_EQ(rate_between(fabric, "box0/nic0", "ib0"), (10 + 25) / 8.0);  // an unknown speed counts as 10 Gb/s
  expect_balanced_switches(fabric);
}

TEST(NcclXml, LeavesOutSwitchesThatLeadNowhere) {
  EXPECT_EQ(switches(parse_nccl("partitions.xml")), (std::set<std::string>{"nvsw0"}));
  EXPECT_EQ(switches(parse_nccl("partitions.xml", {.boxes = 2})).count("box0/cpu0"), 1u);  // the NICs hang on it
}

TEST(NcclXml, KeepsABrokenGpuLinkBroken) {
  std::string xml = corpus_file("nccl/h100_dump.xml");
  const size_t row = xml.find("          <nvlink target=\"0000:05:00.0\" count=\"5\"");
  xml.erase(row, xml.find('\n', row) + 1 - row);
  const Fabric fabric = parse_xml(xml);
  EXPECT_DOUBLE_EQ(rate_between(fabric, "gpu1", "nvsw0"), 370.8 - 5 * 20.6);
  EXPECT_DOUBLE_EQ(rate_between(fabric, "gpu0", "nvsw0"), 370.8);
}

TEST(NcclXml, ReadsEveryWayOfWritingPciSpeeds) {
  const auto to_cpu = [](const std::string& attributes) {
    const std::string gpu = "<gpu dev=\"0\" sm=\"80\"/>";
    return rate_between(parse_xml(one_pci(attributes, gpu)), "gpu0", "cpu0");
  };
  EXPECT_DOUBLE_EQ(to_cpu("link_speed=\"16 GT/s\" link_width=\"16\""), 24);
  EXPECT_DOUBLE_EQ(to_cpu("link_speed=\"16.0 GT/s PCIe\" link_width=\"8\""), 12);
  EXPECT_DOUBLE_EQ(to_cpu("link_speed=\"2.5 GT/s PCIe\" link_width=\"1\""), 0.1875);
  EXPECT_DOUBLE_EQ(to_cpu("link_speed=\"64.0 GT/s PCIe\" link_width=\"0\""), 96);
  EXPECT_DOUBLE_EQ(to_cpu("link_speed=\"Unknown speed\" link_width=\"16\""), 12);
  EXPECT_DOUBLE_EQ(to_cpu(""), 12);
}

TEST(NcclXml, RefusesWhatIsNotAnNcclTopology) {
  EXPECT_THAT(nccl_error("<topology version=\"2.0\"/>"), HasSubstr("this is XML of hwloc (lstopo), not of NCCL"));
  EXPECT_THAT(nccl_error(corpus_file("nccl/truncated.xml")),
              AllOf(HasSubstr("topo.xml line"), HasSubstr("is the file complete?")));
  EXPECT_THAT(nccl_error(""), HasSubstr("broken XML"));
  EXPECT_THAT(nccl_error("<html/>"), HasSubstr("'html' but NCCL's topology has 'system'"));
  EXPECT_THAT(nccl_error("<system version=\"3\"/>"), HasSubstr("system version '3'"));
  EXPECT_THAT(nccl_error(corpus_file("nccl/no_gpu.xml")), HasSubstr("no GPU is in this file"));
  EXPECT_THAT(nccl_error(corpus_file("nccl/deep.xml")), HasSubstr("nested more than 64 deep"));
}

TEST(NcclXml, NamesLineAndValueOfWhatIsWrong) {
  EXPECT_THAT(nccl_error(corpus_file("nccl/bad_count.xml")),
              HasSubstr("topo.xml line 5: nvlink count is '12x' but must be a whole number"));
  const auto gpu = [](const std::string& row) { return one_pci("", "<gpu dev=\"0\" sm=\"80\">\n" + row + "</gpu>"); };
  EXPECT_THAT(nccl_error(gpu("<nvlink count=\"1\"/>")), HasSubstr("line 2: nvlink has no target"));
  EXPECT_THAT(nccl_error(gpu("<nvlink target=\"0000:1a:00.0\" count=\"1\"/>")), HasSubstr("link to itself"));
  EXPECT_THAT(nccl_error(gpu("<nvlink target=\"0000:99:00.0\" count=\"1\"/>")), HasSubstr("is no GPU of this file"));
  EXPECT_THAT(nccl_error(gpu("<nvlink target=\"0000:2a:00.0\" count=\"-1\"/>")), HasSubstr("'-1'"));
  EXPECT_THAT(nccl_error(one_pci("link_width=\"x\"", "<gpu/>")), HasSubstr("pci link_width is 'x'"));
  EXPECT_THAT(nccl_error("<system><cpu><pci class=\"0x0302\"/></cpu></system>"), HasSubstr("pci busid is ''"));
  EXPECT_THAT(nccl_error("<system><cpu><pci busid=\"a:b\"/><pci busid=\"A:b\"/></cpu></system>"),
              HasSubstr("occurs twice"));
  EXPECT_THAT(nccl_error("<system><cpu><pci busid=\"a:b\"><gpu/></pci></cpu></system>"),
              HasSubstr("at least two ranks"));
}

TEST(NcclXml, LeavesOutLinksToGpusOfOtherJobs) {
  const std::string row = "<nvlink target=\"0000:99:00.0\" count=\"4\" tclass=\"0x030200\"/>";
  const Fabric fabric = parse_xml(one_pci("", "<gpu dev=\"0\" sm=\"80\">" + row + "</gpu>"));
  EXPECT_EQ(fabric.out_links(fabric.at("gpu0")).size(), 1u);
}

// A link is what its own end says: a one-sided row is a one-way link, which `banyan fabric` warns about.
TEST(NcclXml, KeepsDirectionsApart) {
  const std::string row = "<nvlink target=\"0000:2a:00.0\" count=\"4\" tclass=\"0x030200\"/>";
  const Fabric fabric = parse_xml(one_pci("", "<gpu dev=\"0\" sm=\"80\">" + row + "</gpu>"));
  EXPECT_DOUBLE_EQ(rate_between(fabric, "gpu0", "gpu1"), 80);
  EXPECT_DOUBLE_EQ(rate_between(fabric, "gpu1", "gpu0"), 0);
}

TEST(NcclXml, ReadsTheExampleOfItsDescription) {
  const std::string page = read_file(std::string(BANYAN_SOURCE_DIR) + "/docs/formats/nccl-topology.md");
  const size_t begin = page.find("<system");
  const std::string xml = page.substr(begin, page.find("```", begin) - begin);
  const Fabric one = parse_xml(xml);
  EXPECT_EQ(switches(one), (std::set<std::string>{"nvsw0"}));
  EXPECT_EQ(one.links().size(), 4u);
  EXPECT_DOUBLE_EQ(rate_between(one, "gpu1", "nvsw0"), 240);
  const Fabric two = parse_xml(xml, {.boxes = 2});
  EXPECT_DOUBLE_EQ(rate_between(two, "box0/nic0", "box0/pci0000:10:00.0"), 24);
  EXPECT_DOUBLE_EQ(rate_between(two, "box0/nic0", "ib0"), 25);
}

TEST(CpuTable, KnowsFamiliesBeforeAndAfterNcclMendedItsSum) {
  const auto gigabytes = [](const char* vendor, int64_t family, int64_t model) {
    return cpu_link("x86_64", vendor, family, model).rate.bytes_per_second() / 1'000'000'000;
  };
  for (const int64_t family : {23, 143}) EXPECT_EQ(gigabytes("AuthenticAMD", family, 49), 16u);
  for (const int64_t family : {25, 175}) EXPECT_EQ(gigabytes("AuthenticAMD", family, 1), 24u);
  for (const int64_t family : {26, 191}) EXPECT_EQ(gigabytes("AuthenticAMD", family, 2), 40u);
  EXPECT_EQ(gigabytes("GenuineIntel", 6, 0x4f), 6u);
  EXPECT_EQ(gigabytes("GenuineIntel", 6, 0x6a), 10u);
  EXPECT_EQ(gigabytes("GenuineIntel", 6, 0x8f), 22u);
  EXPECT_EQ(gigabytes("GenuineIntel", 6, 0xad), 40u) << "Granite Rapids";
  EXPECT_EQ(gigabytes("GenuineIntel", 6, 0xcf), 40u);
  EXPECT_EQ(gigabytes("CentaurHauls", 7, 0x5b), 9u);
  EXPECT_EQ(gigabytes("", 0, 0), 6u);
  EXPECT_EQ(cpu_link("", "", 0, 0).of, "");
  EXPECT_EQ(cpu_link("ppc64", "IBM", 0, 0).rate, Bandwidth::gigabytes_per_second(32));
}

TEST(DeviceTable, AgreesWithItself) {
  for (const GpuModel& model : gpu_models()) {
    EXPECT_EQ(&gpu_model(model.name), &model);
    std::vector<uint32_t> links(model.box, 0);
    for (const GpuCable& cable : model.mesh) {
      ASSERT_LT(cable.a, cable.b) << model.name;
      ASSERT_LT(cable.b, model.box) << model.name;
      links[cable.a] += cable.links;
      links[cable.b] += cable.links;
    }
    for (const uint32_t count : links) EXPECT_LE(count, model.links) << model.name;
    EXPECT_EQ(model.mesh.empty(), model.wiring != GpuWiring::mesh) << model.name;
    if (model.wiring == GpuWiring::all_to_all) {
      EXPECT_EQ(model.links % (model.box - 1), 0u) << model.name;
    }
  }
  EXPECT_EQ(gpu_model("h100").all_links(), Bandwidth::gigabytes_per_second(450));
  EXPECT_EQ(gpu_model("A100").all_links(), Bandwidth::gigabytes_per_second(300));
  EXPECT_EQ(gpu_model("b200").all_links(), Bandwidth::gigabytes_per_second(900));
}

}  // namespace
}  // namespace banyan::fabric
