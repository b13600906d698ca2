#include "banyan/fabric/hwloc_xml.h"

#include "banyan/fabric/test_rates.h"
#include "banyan/testing/test.h"

namespace banyan::fabric {
namespace {

Fabric parse_hwloc(const std::string& name, const BoxOptions& options = {},
                   std::optional<Bandwidth> pci = std::nullopt) {
  std::vector<std::string> notes;
  return parse_hwloc_xml({corpus_file("hwloc/" + name), name, pci}, options, notes);
}

std::string hwloc_error(const std::string& xml) {
  std::vector<std::string> notes;
  return testing::error_of([&] { parse_hwloc_xml({xml, "topo.xml"}, {}, notes); });
}

TEST(HwlocXml, JoinsGpusByThePciTreeOfTheirPackages) {
  const Fabric fabric = parse_hwloc("two_gpus.xml");
  EXPECT_THAT(names_of(fabric, NodeKind::rank), ElementsAre("gpu0", "gpu1"));
  EXPECT_THAT(names_of(fabric, NodeKind::switch_), UnorderedElementsAre("cpu0", "cpu1", "pci0000:11:00.0"))
      << "bridges with one device beneath them are a part of the way";
  EXPECT_NEAR(rate_between(fabric, "gpu1", "pci0000:11:00.0"), 63.015385, 1e-9);
  EXPECT_NEAR(rate_between(fabric, "gpu0", "cpu1"), 63.015385, 1e-9) << "nvml0 is on the second package";
  EXPECT_DOUBLE_EQ(rate_between(fabric, "cpu0", "cpu1"), 22);
}

TEST(HwlocXml, PutsNicsWithVerbsBetweenSeveralBoxes) {
  const Fabric fabric =
      parse_hwloc("two_gpus.xml", {.boxes = 2, .gpu = "h100", .nic = Bandwidth::gigabits_per_second(400)});
  EXPECT_EQ(fabric.ranks().size(), 4u);
  EXPECT_DOUBLE_EQ(rate_between(fabric, "box0/gpu1", "box0/nvsw0"), 450);
  EXPECT_DOUBLE_EQ(rate_between(fabric, "box0/gpu1", "box0/pci0000:11:00.0"), 50) << "as much as its NIC takes";
  EXPECT_NEAR(rate_between(fabric, "box0/nic0", "box0/pci0000:11:00.0"), 31.507692, 1e-9) << "its port is narrower";
  EXPECT_DOUBLE_EQ(rate_between(fabric, "box1/nic1", "ib0"), 50);
  EXPECT_FALSE(fabric.find("box0/nic2").has_value()) << "eno1 has no verbs";
}

TEST(HwlocXml, ReadsTheMatrixOfNvlinks) {
  std::vector<std::string> notes;
  const Fabric fabric = parse_hwloc_xml({corpus_file("hwloc/nvlink.xml"), "topo.xml"}, {}, notes);
  EXPECT_DOUBLE_EQ(rate_between(fabric, "gpu0", "gpu1"), 50);
  EXPECT_TRUE(names_of(fabric, NodeKind::switch_).empty()) << "no PCI beside NVLink";
  EXPECT_THAT(notes, ::testing::IsEmpty()) << "there is one CPU, and nothing is assumed";
}

// A matrix may be wrapped. Memory without end was taken for one.
TEST(HwlocXml, ReadsAMatrixOfSeveralLines) {
  std::string xml = corpus_file("hwloc/nvlink.xml");
  xml.replace(xml.find("50000 50000") + 5, 1, "\r\n\n  ");
  std::vector<std::string> notes;
  const Fabric fabric = parse_hwloc_xml({xml, "topo.xml"}, {}, notes);
  EXPECT_DOUBLE_EQ(rate_between(fabric, "gpu0", "gpu1"), 50);
}

TEST(HwlocXml, ReadsNvswitchesAndLinksToCpus) {
  const Fabric dgx2 = parse_hwloc("nvswitch.xml");
  EXPECT_DOUBLE_EQ(rate_between(dgx2, "gpu0", "nvsw0"), 150);
  EXPECT_DOUBLE_EQ(rate_between(dgx2, "gpu2", "nvsw0"), 125) << "one of its six links is down";
  const Fabric power8 = parse_hwloc("power8.xml");
  EXPECT_DOUBLE_EQ(rate_between(power8, "gpu0", "gpu1"), 40);
  EXPECT_NEAR(rate_between(power8, "gpu0", "cpu0"), 15.753846 + 40, 1e-9);
  EXPECT_NEAR(rate_between(power8, "gpu2", "cpu1"), 15.753846 + 40, 1e-9);
  EXPECT_DOUBLE_EQ(rate_between(power8, "cpu0", "cpu1"), 32);
  EXPECT_THAT(testing::error_of([] { parse_hwloc("nvswitch.xml", {.gpu = "p100"}); }),
              HasSubstr("gpu0 has links of 150 GB/s in this file, but --gpu p100 has 80 GB/s"));
}

TEST(HwlocXml, ReadsTheMatrixOfXgmi) {
  const Fabric fabric = parse_hwloc("xgmi.xml");
  EXPECT_DOUBLE_EQ(rate_between(fabric, "gpu0", "gpu1"), 100);
  EXPECT_DOUBLE_EQ(rate_between(fabric, "gpu2", "gpu0"), 50);
  EXPECT_DOUBLE_EQ(rate_between(fabric, "gpu1", "gpu2"), 0);
  EXPECT_NEAR(rate_between(fabric, "gpu1", "cpu0"), 31.507692, 1e-9) << "the only way to gpu2";
}

TEST(HwlocXml, SaysWhatIsWrongWithAMatrix) {
  std::string xml = corpus_file("hwloc/nvlink.xml");
  xml.replace(xml.find("50000 50000"), 5, "5000x");
  EXPECT_THAT(hwloc_error(xml), HasSubstr("a value of the matrix is '5000x' but must be a whole number of MB/s"));
  xml.erase(xml.find("5000x"), 6);
  EXPECT_THAT(hwloc_error(xml), HasSubstr("line 20: matrix NVLinkBandwidth has 3 values for 2 objects"));
}

TEST(HwlocXml, ReadsTheDeviceTypesOfVersion3) {
  std::string xml = corpus_file("hwloc/two_gpus.xml");
  for (const auto& [from, to] :
       {std::pair{"version=\"2.0\"", "version=\"3.0\""}, std::pair{"osdev_type=\"2\"", "osdev_type=\"16\""},
        std::pair{"osdev_type=\"3\"", "osdev_type=\"48\""}}) {
    const std::string old = from;
    for (size_t at = xml.find(old); at != std::string::npos; at = xml.find(old, at + 1))
      xml.replace(at, old.size(), to);
  }
  std::vector<std::string> notes;
  const BoxOptions options{.boxes = 2, .gpu = "h100", .nic = Bandwidth::gigabits_per_second(400)};
  EXPECT_EQ(parse_hwloc_xml({xml, "topo.xml"}, options, notes).fingerprint(),
            parse_hwloc("two_gpus.xml", options).fingerprint());
}

TEST(HwlocXml, ReadsVersion1) {
  const Fabric fabric = parse_hwloc("version1.xml");
  EXPECT_NEAR(rate_between(fabric, "gpu1", "cpu0"), 15.753846, 1e-9);
}

TEST(HwlocXml, AsksForSpeedsThatTheFileGivesAsZero) {
  EXPECT_THAT(hwloc_error(corpus_file("hwloc/no_speeds.xml")),
              AllOf(HasSubstr("does not say how fast the link of PCI device 0000:"), HasSubstr("topo.xml@24GB/s")));
  const Fabric fabric = parse_hwloc("no_speeds.xml", {}, Bandwidth::gigabytes_per_second(24));
  EXPECT_DOUBLE_EQ(rate_between(fabric, "gpu0", "cpu1"), 24);
}

TEST(HwlocXml, SaysWhatItAssumes) {
  std::vector<std::string> notes;
  parse_hwloc_xml({corpus_file("hwloc/two_gpus.xml"), "topo.xml"}, {}, notes);
  EXPECT_THAT(notes, Contains(HasSubstr("GPUs are joined by PCI only")));
}

TEST(HwlocXml, SaysWhatIsWrongAndWhere) {
  EXPECT_THAT(hwloc_error(corpus_file("hwloc/no_gpu.xml")), HasSubstr("topo.xml line 3: no GPU is in this file"));
  EXPECT_THAT(hwloc_error(corpus_file("hwloc/wrong.xml")), HasSubstr("pci_busid is '0000:zz'"));
  EXPECT_THAT(hwloc_error("<topology><object type=\"PCIDev\" pci_busid=\"0000:01:00.0\" pci_link_speed=\"fast\"/>"),
              HasSubstr("broken XML"));
  EXPECT_THAT(hwloc_error("<topology><object type=\"Machine\"><object type=\"PCIDev\" pci_busid=\"0000:01:00.0\" "
                          "pci_link_speed=\"fast\"/></object></topology>"),
              HasSubstr("pci_link_speed is 'fast' but must be a number of GB/s"));
}

}  // namespace
}  // namespace banyan::fabric
