#include "banyan/fabric/gpu_matrix.h"

#include "banyan/fabric/generate.h"
#include "banyan/fabric/test_rates.h"
#include "banyan/testing/test.h"

namespace banyan::fabric {
namespace {

constexpr Bandwidth kPci = Bandwidth::gigabytes_per_second(24);

Fabric parse_matrix(const std::string& name, const BoxOptions& options = {},
                    std::vector<std::string>* notes = nullptr) {
  std::vector<std::string> own;
  return parse_gpu_matrix({corpus_file("gpu_matrix/" + name), name, kPci}, options, notes == nullptr ? own : *notes);
}

std::string matrix_error(const std::string& text, std::optional<Bandwidth> pci = kPci) {
  std::vector<std::string> notes;
  return testing::error_of([&] { parse_gpu_matrix({text, "topo.txt", pci}, {}, notes); });
}

TEST(GpuMatrix, PutsAnNvswitchWhereEveryTwoGpusHaveAllLinks) {
  std::vector<std::string> notes;
  const Fabric fabric = parse_gpu_matrix({corpus_file("gpu_matrix/hgx_h100.txt"), "topo.txt", kPci}, {}, notes);
  EXPECT_EQ(fabric.ranks().size(), 8u);
  for (int gpu = 0; gpu < 8; ++gpu) EXPECT_DOUBLE_EQ(rate_between(fabric, "gpu" + std::to_string(gpu), "nvsw0"), 450);
  EXPECT_THAT(names_of(fabric, NodeKind::switch_), ElementsAre("nvsw0")) << "no PCI beside NVLink";
  EXPECT_THAT(notes, Contains(HasSubstr("every NVLink is taken as 25 GB/s each way")));
  EXPECT_TRUE(fabric.link(LinkId{0}).assumed);
}

TEST(GpuMatrix, TakesTheSpeedOfLinksFromTheDeviceTable) {
  const Fabric fabric = parse_matrix("hgx_h100.txt", {.gpu = "b200"});
  EXPECT_DOUBLE_EQ(rate_between(fabric, "gpu0", "nvsw0"), 900);
}

TEST(GpuMatrix, JoinsBoxesByTheNicsOfTheirPciSwitches) {
  const Fabric fabric = parse_matrix("hgx_h100.txt", {.boxes = 2, .nic = Bandwidth::gigabits_per_second(400)});
  EXPECT_EQ(fabric.ranks().size(), 16u);
  EXPECT_DOUBLE_EQ(rate_between(fabric, "box1/gpu5", "box1/pci5"), 24);
  EXPECT_DOUBLE_EQ(rate_between(fabric, "box1/nic5", "box1/pci5"), 24);
  EXPECT_DOUBLE_EQ(rate_between(fabric, "box1/nic5", "ib0"), 50);
  EXPECT_FALSE(fabric.find("box1/cpu1").has_value()) << "its own NIC is nearer to every GPU";
}

// The box by its name and by its table are one network.
TEST(GpuMatrix, IsTheBoxThatTheGeneratorMakes) {
  const Fabric table = parse_matrix("hgx_h100.txt", {.gpu = "h100"}), known = generate_fabric("dgx-h100:1");
  EXPECT_EQ(table.fingerprint(), known.fingerprint());
  EXPECT_TRUE(std::ranges::none_of(table.links(), [](const Link& link) { return link.assumed; }));
}

std::vector<double> nvswitch_rates(const Fabric& fabric) {
  std::vector<double> rates;
  for (const NodeId rank : fabric.ranks()) rates.push_back(rate_between(fabric, fabric.name(rank), "nvsw0"));
  return rates;
}

TEST(GpuMatrix, KeepsTheNvswitchOfABoxOneOfWhoseGpusLostALink) {
  EXPECT_THAT(nvswitch_rates(parse_matrix("one_link_down.txt", {.gpu = "h100"})), ElementsAre(450, 450, 425));
  EXPECT_THAT(nvswitch_rates(parse_matrix("one_link_down.txt")), ElementsAre(450, 450, 425));
  EXPECT_THAT(nvswitch_rates(parse_matrix("h100_three.txt", {.gpu = "h100"})), ElementsAre(450, 450, 450));
}

std::string full_table(size_t gpus, const std::string& cell) {
  std::string text, rows;
  for (size_t a = 0; a < gpus; ++a) {
    text += "\tGPU" + std::to_string(a);
    rows += "\nGPU" + std::to_string(a);
    for (size_t b = 0; b < gpus; ++b) rows += a == b ? "\tX" : "\t" + cell;
  }
  return text + rows + "\n";
}

// What a GPU has tells whether NVLinks can join every two directly: --gpu, or the largest count where it is all that a
// GPU behind NVSwitches has.
TEST(GpuMatrix, JoinsGpusDirectlyOnlyByAsManyLinksAsTheyHave) {
  std::vector<std::string> notes;
  const auto parse = [&](size_t gpus, const std::string& cell, const std::string& gpu) {
    return parse_gpu_matrix({full_table(gpus, cell), "topo.txt", kPci}, {.gpu = gpu}, notes);
  };
  EXPECT_THAT(nvswitch_rates(parse(4, "NV6", "")), ElementsAre(150, 150, 150, 150)) << "V100 of a DGX-2";
  EXPECT_THAT(notes, Contains(HasSubstr("as four H100 that are joined directly have, say --gpu h100")));
  EXPECT_DOUBLE_EQ(rate_between(parse(4, "NV6", "h100"), "gpu0", "gpu3"), 150);
  EXPECT_DOUBLE_EQ(rate_between(parse(4, "NV4", ""), "gpu0", "gpu3"), 100);
  EXPECT_DOUBLE_EQ(rate_between(parse(4, "NV4", "a100"), "gpu0", "gpu3"), 100);
  EXPECT_THAT(nvswitch_rates(parse(3, "NV8", "a800")), ElementsAre(200, 200, 200));
  EXPECT_DOUBLE_EQ(rate_between(parse(2, "NV12", ""), "gpu0", "gpu1"), 300);
  EXPECT_THAT(testing::error_of([&] { parse(3, "NV12", "a800"); }),
              HasSubstr("gpu0 has 12 links in this file, but --gpu a800 has 8"));
  EXPECT_THAT(testing::error_of([&] { parse(2, "NV12", "a6000"); }), HasSubstr("but --gpu a6000 has 4"));
}

TEST(GpuMatrix, LeavesAGpuWithoutNvlinkOutsideOfTheNvswitch) {
  std::vector<std::string> notes;
  const Fabric fabric = parse_gpu_matrix(
      {"\tGPU0\tGPU1\tGPU2\tGPU3\nGPU0\tX\tNV18\tNV18\tPHB\nGPU1\tNV18\tX\tNV18\tPHB\nGPU2\tNV18\tNV18\tX\tPHB\n"
       "GPU3\tPHB\tPHB\tPHB\tX\n",
       "topo.txt", kPci},
      {.gpu = "h100"}, notes);
  EXPECT_THAT(nvswitch_rates(fabric), ElementsAre(450, 450, 450, 0));
  EXPECT_DOUBLE_EQ(rate_between(fabric, "gpu3", "cpu0"), 24);
  EXPECT_DOUBLE_EQ(rate_between(fabric, "gpu0", "cpu0"), 24) << "PCI is the only way to gpu3";
}

TEST(GpuMatrix, KnowsTheBridgesOfWorkstationCards) {
  for (const std::string gpu : {"a6000", "a40", "rtx3090"}) {
    const Fabric fabric = parse_matrix("bridges.txt", {.gpu = gpu});
    EXPECT_DOUBLE_EQ(rate_between(fabric, "gpu0", "gpu2"), 56.25) << gpu;
    EXPECT_DOUBLE_EQ(rate_between(fabric, "gpu0", "gpu1"), 0);
    EXPECT_DOUBLE_EQ(rate_between(fabric, "gpu0", "cpu0"), 24);
  }
  const Fabric given = parse_matrix("bridges.txt", {.nvlink = Bandwidth::gigabytes_per_second(14)});
  EXPECT_DOUBLE_EQ(rate_between(given, "gpu0", "gpu2"), 56);
  EXPECT_TRUE(std::ranges::none_of(given.links(), [](const Link& link) { return link.assumed; }));
}

// A link of the fabric may be used by all ways that it is a part of, and no way is forbidden: PCI that gpu0 needs for
// gpu1 counts between gpu0 and gpu2, too.
TEST(GpuMatrix, SaysWherePciIsCountedBesideNvlink) {
  std::vector<std::string> notes;
  parse_matrix("bridges.txt", {.gpu = "a40"}, &notes);
  EXPECT_THAT(notes, Contains(HasSubstr("gpu0 and gpu1 have no NVLink between them, so all GPUs have PCI, too; where "
                                        "both join two, as gpu0 and gpu2, both are counted, but a GPU runtime takes "
                                        "NVLink alone")));
  notes.clear();
  parse_matrix("hgx_h100.txt", {}, &notes);
  EXPECT_THAT(notes, Not(Contains(HasSubstr("both are counted"))));
}

// A rack of NVL72 by one of its trays, and two racks.
TEST(GpuMatrix, JoinsTheTraysOfARackByNvlink) {
  const BoxOptions rack{.boxes = 18, .gpu = "gb200", .nic = Bandwidth::gigabits_per_second(400)};
  const Fabric one = parse_matrix("nvl72_tray.txt", rack);
  EXPECT_EQ(one.ranks().size(), 72u);
  EXPECT_THAT(names_of(one, NodeKind::switch_), ElementsAre("nvsw0"));
  EXPECT_DOUBLE_EQ(rate_between(one, "box17/gpu3", "nvsw0"), 900);
  EXPECT_EQ(generate_group(one.symmetries(), 100).size(), 18u);
  BoxOptions two = rack;
  two.boxes = 36;
  const Fabric both = parse_matrix("nvl72_tray.txt", two);
  EXPECT_DOUBLE_EQ(rate_between(both, "box17/gpu3", "nvsw0"), 900);
  EXPECT_DOUBLE_EQ(rate_between(both, "box18/gpu3", "nvsw1"), 900);
  EXPECT_DOUBLE_EQ(rate_between(both, "box35/nic0", "ib0"), 50);
  EXPECT_EQ(generate_group(both.symmetries(), 100).size(), 36u);
  BoxOptions lone = rack;
  lone.gpu = "b200";
  EXPECT_DOUBLE_EQ(rate_between(parse_matrix("nvl72_tray.txt", lone), "box17/gpu3", "box17/nvsw0"), 900);
}

TEST(GpuMatrix, LeavesOutNicsThatAreNearNoGpu) {
  std::vector<std::string> notes;
  BoxOptions options{.boxes = 2, .gpu = "a100", .nic = Bandwidth::gigabits_per_second(100)};
  const auto parse = [&](const std::string& nics) {
    options.nics = nics;
    return parse_gpu_matrix({corpus_file("gpu_matrix/far_nic.txt"), "topo.txt", kPci}, options, notes);
  };
  const Fabric near = parse("");
  EXPECT_EQ(near.in_links(near.at("ib0")).size(), 4u);
  EXPECT_THAT(notes, Contains(HasSubstr("NIC2 is left out, since every GPU has nearer network interfaces")));
  EXPECT_EQ(parse("-NIC2").fingerprint(), near.fingerprint());
  EXPECT_EQ(parse("^NIC2").fingerprint(), near.fingerprint());
  EXPECT_EQ(parse("NIC0,NIC1").fingerprint(), near.fingerprint());
  const Fabric all = parse("NIC0,NIC1,NIC2");
  EXPECT_EQ(all.in_links(all.at("ib0")).size(), 6u);
  EXPECT_THAT(testing::error_of([&] { parse("NIC3"); }),
              AllOf(HasSubstr("there is no network interface 'NIC3'"), HasSubstr("there are NIC0, NIC1, NIC2")));
  EXPECT_THAT(testing::error_of([&] { parse("NIC0,-NIC1"); }), HasSubstr("say one of both"));
  EXPECT_THAT(testing::error_of([&] { parse("-NIC0,-NIC1,-NIC2"); }), HasSubstr("leaves no network interface"));
}

TEST(GpuMatrix, ReadsOneGpuWithOneNic) {
  EXPECT_TRUE(is_gpu_matrix(corpus_file("gpu_matrix/one_gpu.txt")));
  EXPECT_FALSE(is_gpu_matrix("GPU0 <-> GPU1 400Gb/s"));
  const Fabric fabric = parse_matrix("one_gpu.txt", {.boxes = 4, .nic = Bandwidth::gigabits_per_second(100)});
  EXPECT_EQ(fabric.ranks().size(), 4u);
  EXPECT_DOUBLE_EQ(rate_between(fabric, "box3/nic0", "ib0"), 12.5);
}

TEST(GpuMatrix, RefusesSeveralTablesInWords) {
  EXPECT_THAT(matrix_error(corpus_file("gpu_matrix/two_servers.txt")),
              AllOf(HasSubstr("topo.txt line 5: a second table begins here"), HasSubstr("--boxes 2")));
}

TEST(GpuMatrix, SaysWhereTheTableContradictsItself) {
  std::vector<std::string> notes;
  parse_gpu_matrix({"\tGPU0\tGPU1\tCPU Affinity\nGPU0\tX\tSYS\t0-31\nGPU1\tSYS\tX\t0-31\n", "topo.txt", kPci}, {},
                   notes);
  EXPECT_THAT(notes, Contains(HasSubstr("GPU0 and GPU1 are SYS to each other, at different CPUs, but have the same")));
}

// No table says it: the figure is a mark of the link, told with the option that settles it.
TEST(GpuMatrix, AssumesTheLinksBetweenCpusUnlessTheyAreGiven) {
  std::vector<std::string> notes;
  const std::string table = corpus_file("gpu_matrix/pcie.txt");
  const auto between = [](const Fabric& fabric) {
    const auto links = fabric.links();
    return *std::ranges::find_if(
        links, [&](const Link& link) { return fabric.name(link.from) == "cpu0" && fabric.name(link.to) == "cpu1"; });
  };
  const Link guess = between(parse_gpu_matrix({table, "topo.txt", kPci}, {}, notes));
  EXPECT_TRUE(guess.assumed);
  EXPECT_EQ(guess.bandwidth, Bandwidth::gigabytes_per_second(6));
  EXPECT_THAT(notes,
              Contains(AllOf(HasSubstr("a link between CPUs has 6 GB/s each way"), HasSubstr("--cpu-link 64GB/s"))));
  notes.clear();
  const BoxOptions options{.cpu_link = Bandwidth::gigabytes_per_second(64)};
  const Link given = between(parse_gpu_matrix({table, "topo.txt", kPci}, options, notes));
  EXPECT_FALSE(given.assumed);
  EXPECT_EQ(given.bandwidth, Bandwidth::gigabytes_per_second(64));
  EXPECT_THAT(notes, ::testing::Not(Contains(HasSubstr("CPU"))));
}

// The table has what the generator knows of the same box.
TEST(GpuMatrix, JoinsTheGpusOfADgx1Directly) {
  const Fabric table = parse_matrix("dgx1_v100.txt"), known = generate_fabric("dgx1-v100:1");
  for (int a = 0; a < 8; ++a) {
    for (int b = 0; b < 8; ++b) {
      const std::string from = "gpu" + std::to_string(a), to = "gpu" + std::to_string(b);
      EXPECT_DOUBLE_EQ(rate_between(table, from, to), rate_between(known, from, to)) << from << " " << to;
    }
  }
}

TEST(GpuMatrix, JoinsGpusWithoutNvlinkByPci) {
  const Fabric fabric = parse_matrix("pcie.txt");
  EXPECT_THAT(names_of(fabric, NodeKind::rank), ElementsAre("gpu0", "gpu1", "gpu2", "gpu3"));
  EXPECT_DOUBLE_EQ(rate_between(fabric, "gpu2", "pci1"), 24);
  EXPECT_DOUBLE_EQ(rate_between(fabric, "pci1", "cpu1"), 24);
  EXPECT_DOUBLE_EQ(rate_between(fabric, "gpu0", "pci0"), 24);
}

// `topo -mp` leaves NVLinks out, and a card in a PCI slot may have none: neither is a box behind an NVSwitch.
TEST(GpuMatrix, RefusesGpusWithLinksWhereTheTableShowsNone) {
  const std::string table = "GPU0 GPU1 NIC0 CPU Affinity\nGPU0 X NODE PIX 0-3\nGPU1 NODE X NODE 0-3\nNIC0 PIX NODE X\n";
  const auto error = [&](const char* gpu) {
    return testing::error_of([&] {
      std::vector<std::string> notes;
      parse_gpu_matrix({table, "topo.txt", kPci}, {.gpu = gpu}, notes);
    });
  };
  EXPECT_THAT(error("h100"), AllOf(HasSubstr("--gpu h100 has 18 links of its own, but the table shows none"),
                                   HasSubstr("topo -mp"), HasSubstr("--gpu pcie")));
  EXPECT_THAT(error("a6000"), HasSubstr("--gpu pcie"));
  EXPECT_EQ(error("pcie"), "no error");
}

TEST(GpuMatrix, AsksForTheSpeedOfPci) {
  EXPECT_THAT(matrix_error(corpus_file("gpu_matrix/pcie.txt"), std::nullopt),
              AllOf(HasSubstr("does not say how fast PCI links are"), HasSubstr("topo.txt@48GB/s")));
}

TEST(GpuMatrix, SaysWhatIsWrongAndWhere) {
  EXPECT_THAT(matrix_error(corpus_file("gpu_matrix/broken.txt")), HasSubstr("topo.txt line 2: cell 'NV99' is none of"));
  EXPECT_THAT(matrix_error(corpus_file("gpu_matrix/cut_off.txt")), HasSubstr("the row of GPU1 is missing"));
  EXPECT_THAT(matrix_error("\tGPU0\tGPU1\nGPU0\tX\n"), HasSubstr("line 2: the row of GPU0 has 1 of 2 cells"));
  EXPECT_THAT(matrix_error("\tGPU0\tGPU1\nGPU7\tX\tX\n"), HasSubstr("'GPU7' is of no device of the header"));
  EXPECT_THAT(matrix_error("\tGPU0\tGPU0\n"), HasSubstr("'GPU0' stands twice"));
  EXPECT_THAT(matrix_error("nothing\n"), HasSubstr("there is no header line"));
}

}  // namespace
}  // namespace banyan::fabric
