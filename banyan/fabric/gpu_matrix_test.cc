#include "banyan/fabric/gpu_matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "banyan/fabric/generate.h"
#include "banyan/fabric/test_rates.h"
#include "banyan/testing/thrown.h"

namespace banyan::fabric {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Bandwidth kPci = Bandwidth::gigabytes_per_second(24);

Fabric parse_matrix(const std::string& name, const BoxOptions& options = {}) {
  std::vector<std::string> notes;
  return parse_gpu_matrix(corpus_file("gpu_matrix/" + name), options, kPci, name, notes);
}

std::string matrix_error(const std::string& text, std::optional<Bandwidth> pci = kPci) {
  std::vector<std::string> notes;
  return testing::error_of([&] { parse_gpu_matrix(text, {}, pci, "topo.txt", notes); });
}

TEST(GpuMatrix, PutsAnNvswitchWhereEveryTwoGpusHaveAllLinks) {
  std::vector<std::string> notes;
  const Fabric fabric = parse_gpu_matrix(corpus_file("gpu_matrix/hgx_h100.txt"), {}, kPci, "topo.txt", notes);
  EXPECT_EQ(fabric.ranks().size(), 8u);
  for (int gpu = 0; gpu < 8; ++gpu) EXPECT_DOUBLE_EQ(rate_between(fabric, "gpu" + std::to_string(gpu), "nvsw0"), 450);
  EXPECT_DOUBLE_EQ(rate_between(fabric, "gpu3", "cpu0") + rate_between(fabric, "gpu3", "pci3"), 24);
  EXPECT_GT(rate_between(fabric, "cpu0", "cpu1"), 0);
  EXPECT_THAT(notes, Contains(HasSubstr("every NVLink is taken as 25 GB/s each way")));
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
  EXPECT_DOUBLE_EQ(rate_between(fabric, "box1/pci5", "box1/cpu1"), 24);
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
