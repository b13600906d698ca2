#include "banyan/fabric/read.h"

#include "banyan/base/file.h"
#include "banyan/fabric/generate.h"
#include "banyan/fabric/json.h"
#include "banyan/fabric/text.h"
#include "banyan/testing/temporary_folder.h"
#include "banyan/testing/test.h"

namespace banyan::fabric {
namespace {

using Kind = FabricEdit::Kind;

class ReadFabric : public ::testing::Test, protected testing::TemporaryFolder {
 protected:
  std::string file(const std::string& name, std::string_view contents) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << contents;
    return path;
  }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
};

std::string error_of(const FabricSource& source) {
  return testing::error_of([&] { load_fabric(source); });
}

constexpr const char* kTriangle = "a <-> b 1GB/s; b <-> c 2GB/s; c <-> a 3GB/s";

TEST_F(ReadFabric, TellsFormatsApartByContentsNotByName) {
  const Fabric triangle = parse_fabric_text(kTriangle);
  const std::string json = format_fabric_json(triangle);
  for (const std::string& contents : {std::string(kTriangle), "# a comment\n\n" + std::string(kTriangle), json,
                                      "\n \t" + json, "\xef\xbb\xbf" + json}) {
    EXPECT_EQ(load_fabric({.fabric = file("fabric.xml", contents)}).fingerprint(), triangle.fingerprint()) << contents;
  }
}

TEST_F(ReadFabric, GivesXmlToTheReaderOfNcclTopologies) {
  const std::string path = file("topo.json", "  <?xml version=\"1.0\"?>\n<hwloc/>");
  EXPECT_THAT(error_of({.fabric = path}), StartsWith(path));
  EXPECT_THAT(error_of({.fabric = file("t", "<system")}), Not(HasSubstr("expected 'a -> b")));
}

TEST_F(ReadFabric, TakesSpecsAndTextInPlaceOfAFile) {
  EXPECT_EQ(load_fabric({.fabric = "ring:4@1GB/s"}).fingerprint(), generate_fabric("ring:4@1GB/s").fingerprint());
  EXPECT_EQ(load_fabric({.fabric = kTriangle}).fingerprint(), parse_fabric_text(kTriangle).fingerprint());
  EXPECT_THAT(error_of({.fabric = "a -> b"}), StartsWith("fabric text line 1 column 1"));
}

TEST_F(ReadFabric, PrefersAFileToASpec) {
  const std::filesystem::path before = std::filesystem::current_path();
  file("ring:4", kTriangle);
  std::filesystem::current_path(path(""));
  const std::string fingerprint = load_fabric({.fabric = "ring:4"}).fingerprint();
  std::filesystem::current_path(before);
  EXPECT_EQ(fingerprint, parse_fabric_text(kTriangle).fingerprint());
}

TEST_F(ReadFabric, SaysWhatItCouldHaveMeant) {
  EXPECT_THAT(error_of({.fabric = "torsu:4x4"}),
              StartsWith("torsu:4x4: no such file, nor a generator of that name (did you mean 'torus'?)"));
  EXPECT_THAT(error_of({.fabric = "nothing-like-it"}), AllOf(HasSubstr("generators: "), HasSubstr("dgx-h100")));
  EXPECT_EQ(error_of({.fabric = path("gone.json")}), path("gone.json") + ": no such file") << "no spec has a dot";
  EXPECT_THAT(error_of({.fabric = file("passwd", "root:x:0:0:root:/root:/bin/bash\n")}),
              AllOf(HasSubstr("passwd: does not describe a fabric"), HasSubstr("topology.conf")));
  EXPECT_THAT(error_of({.fabric = ""}), HasSubstr("name is empty"));
  EXPECT_THAT(error_of({.fabric = path("")}), HasSubstr("Is a directory"));
  EXPECT_THAT(error_of({.fabric = std::string(100'000, 'x')}), HasSubstr("no such file"));
}

TEST_F(ReadFabric, NamesTheFileOfWhatIsWrong) {
  const std::string json = file("bad.json", "{\n\"banyan\": \"fabric/1\",\n\"nodes\": 7}");
  EXPECT_THAT(error_of({.fabric = json}), StartsWith(json + " line 3: nodes is not an array"));
  const std::string text = file("bad.txt", "a <-> b 1GB/s\nb <-> c 100\n");
  EXPECT_THAT(error_of({.fabric = text}), StartsWith(text + " line 2 column 1: link b <-> c has no bandwidth"));
  const std::string cut = file("cut.txt", "a -> b 1GB/s");
  EXPECT_THAT(error_of({.fabric = cut}), StartsWith(cut + ": rank 'b' cannot reach rank 'a'"));
  for (const char* contents : {"", " \n\t\n", "\xef\xbb\xbf"}) {
    EXPECT_THAT(error_of({.fabric = file("empty", contents)}), EndsWith("empty: is empty"));
  }
  for (const char* contents : {"# one", "\n  # one\r\n\n#two\n", "\xef\xbb\xbf#"}) {
    const std::string named = file("remarks", contents);
    for (const char* behind : {"", "@400Gb/s"}) {
      EXPECT_THAT(error_of({.fabric = named + behind}), EndsWith("remarks: holds nothing but comments"));
    }
  }
  EXPECT_NE(error_of({.fabric = file("binary", std::string("\x7f"
                                                           "ELF\0\0\1\2",
                                                           8))}),
            "");
}

TEST_F(ReadFabric, AppliesEditsOnTop) {
  const std::string path = file("f.txt", kTriangle);
  const Fabric fabric = load_fabric({.fabric = path, .edits = {{Kind::fail, "a-b"}, {Kind::degrade, "b-c=1GB/s"}}});
  EXPECT_EQ(fabric.fingerprint(), parse_fabric_text("a: rank; b <-> c 1GB/s; c <-> a 3GB/s").fingerprint());
  EXPECT_THAT(error_of({.fabric = path, .edits = {{Kind::fail, "a-x"}}}),
              StartsWith(path + " --fail a-x: node 'x' is not declared"));
  EXPECT_THAT(error_of({.fabric = "ring:4", .edits = {{Kind::remove, "nobody"}}}),
              StartsWith("ring:4 --remove nobody: "));
}

// The files of the corpus, by names that tell nothing.
TEST_F(ReadFabric, KnowsTheFilesOfSitesByTheirContents) {
  const auto copy = [&](const std::string& name) {
    return file("copy", read_file(BANYAN_SOURCE_DIR "/banyan/fabric/corpus/" + name));
  };
  EXPECT_TRUE(load_fabric({.fabric = copy("slurm/tree.conf") + "@400Gb/s"}).find("tux08"));
  EXPECT_TRUE(load_fabric({.fabric = copy("slurm/blocks.conf") + "@50GB/s"}).find("rack1"));
  EXPECT_TRUE(load_fabric({.fabric = copy("ib/two_leaves.txt")}).find("node10/mlx5_0"));
  EXPECT_TRUE(load_fabric({.fabric = copy("hwloc/two_gpus.xml"), .box = {.gpu = "h100"}}).find("nvsw0"));
  EXPECT_TRUE(load_fabric({.fabric = copy("gpu_matrix/hgx_h100.txt") + "@48GB/s"}).find("nvsw0"));
  EXPECT_TRUE(load_fabric({.fabric = copy("gpu_matrix/pcie.txt") + "@24GB/s"}).find("pci1"));
  EXPECT_TRUE(load_fabric({.fabric = copy("nccl/h100_dump.xml")}).find("nvsw0"));
}

TEST_F(ReadFabric, TakesABandwidthBehindTheNameOfAFileThatNeedsOne) {
  const std::string tree = file("topology.conf", "SwitchName=s0 Nodes=n[0-3]\n"), text = file("f.txt", kTriangle);
  std::vector<std::string> notes;
  const Fabric fabric = load_fabric({.fabric = tree + "@100Gb/s", .edits = {{Kind::degrade, "n0-s0=1GB/s"}}}, &notes);
  EXPECT_EQ(fabric.link(LinkId{2}).bandwidth, Bandwidth::gigabits_per_second(100));
  EXPECT_THAT(notes, ::testing::Contains(HasSubstr("every node has one cable of 12.5 GB/s")));
  EXPECT_THAT(error_of({.fabric = tree}), HasSubstr(tree + "@400Gb/s"));
  EXPECT_THAT(error_of({.fabric = tree + "@quick"}), AllOf(StartsWith(tree + "@quick"), HasSubstr("bandwidth")));
  EXPECT_THAT(error_of({.fabric = text + "@100Gb/s"}), HasSubstr("says itself how fast its links are; leave '@"));
  EXPECT_THAT(error_of({.fabric = tree + "@100Gb/s", .box = {.boxes = 2}}), HasSubstr("--boxes is for"));
  EXPECT_EQ(load_fabric({.fabric = file("a@100Gbps", kTriangle)}).ranks().size(), 3u) << "a file of that name wins";
}

TEST_F(ReadFabric, RefusesOptionsOfOneServerOnOtherFormats) {
  EXPECT_THAT(error_of({.fabric = "ring:4", .box = {.boxes = 2}}),
              HasSubstr("--boxes is for descriptions of one server only"));
  EXPECT_THAT(error_of({.fabric = kTriangle, .box = {.gpu = "h100"}}), HasSubstr("--gpu is for"));
  EXPECT_THAT(error_of({.fabric = file("f.txt", kTriangle), .box = {.nic = Bandwidth::gigabits_per_second(400)}}),
              HasSubstr("--nic is for"));
}

// What stands between the fences of the first block of that language in the manual.
std::string example(const std::string& manual, const std::string& fence) {
  const size_t begin = manual.find(fence + "\n") + fence.size() + 1;
  return manual.substr(begin, manual.find("```", begin) - begin);
}

TEST(FabricManual, ShowsFabricsThatCanBeRead) {
  const std::string manual = read_file(BANYAN_SOURCE_DIR "/docs/formats/fabric.md");
  const Fabric json = parse_fabric_json(example(manual, "```json"), "docs/formats/fabric.md");
  EXPECT_EQ(json.nodes().size(), 4u);
  EXPECT_EQ(json.links().size(), 6u);
  const Fabric text = parse_fabric_text(example(manual.substr(manual.find("## The text form")), "```"));
  EXPECT_EQ(text.ranks().size(), 3u);
  EXPECT_EQ(text.links().size(), 9u);
}

TEST(LoadFabric, SaysThatALinkGoesRoundInACircle) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.path() + "/fabric.json";
  std::filesystem::create_symlink(path, path);
  EXPECT_THAT(testing::error_of([&] { load_fabric({.fabric = path}); }), ::testing::HasSubstr("symbolic links"));
}

}  // namespace
}  // namespace banyan::fabric
