// Files as people have them: what a terminal, a web form, a launcher or an editor has made of them.

#include "banyan/base/file.h"
#include "banyan/fabric/read.h"
#include "banyan/testing/temporary_folder.h"
#include "banyan/testing/test.h"

namespace banyan::fabric {
namespace {

class HandedOn : public ::testing::Test, protected testing::TemporaryFolder {
 protected:
  Fabric load(const std::string& text, const std::string& behind, std::vector<FabricEdit> edits = {}) {
    const std::string path = folder_ + "/file";
    write_file(path, text);
    notes_.clear();
    return load_fabric({.fabric = path + behind, .edits = std::move(edits)}, &notes_);
  }
  std::string problem(const std::string& text, const std::string& behind, std::vector<FabricEdit> edits = {}) {
    return testing::error_of([&] { load(text, behind, std::move(edits)); });
  }
  std::vector<std::string> notes_;
};

constexpr char kTable[] = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV12\t0-3\nGPU1\tNV12\t X \t0-3\n";
constexpr char kConf[] = "SwitchName=s0 Nodes=n[0-1]\nSwitchName=s1 Nodes=n[2-3]\nSwitchName=top Switches=s0,s1\n";
const FabricEdit kRemoved[] = {{FabricEdit::Kind::remove, "n13"}, {FabricEdit::Kind::remove, "n23"}};

TEST_F(HandedOn, TablesOfGpusAreTheSameHoweverTheyWerePasted) {
  const std::string expected = load(kTable, "@24GB/s").fingerprint();
  EXPECT_EQ(load("\xef\xbb\xbf" + std::string(kTable), "@24GB/s").fingerprint(), expected);
  EXPECT_EQ(load("GPU Topology:\n" + std::string(kTable), "@24GB/s").fingerprint(), expected);
  EXPECT_THAT(notes_, Contains("1 line above what is read was passed over"));
  EXPECT_EQ(
      load("\t[4mGPU0\tGPU1\tCPU Affinity[0m\nGPU0\t X \tNV12\t0-3\nGPU1\tNV12\t X \t0-3\n", "@24GB/s").fingerprint(),
      expected);
}

TEST_F(HandedOn, SlurmIsTheSameInAllItsSpellings) {
  const std::string expected = load(kConf, "@400Gb/s").fingerprint();
  const std::string upper = "SwitchName=s1 Nodes=n[2-3]\nSwitchName=top Switches=s0,s1\n";
  for (const std::string& text :
       {"\xef\xbb\xbf" + std::string(kConf), "SwitchName=\"s0\" Nodes=\"n[0-1]\"\n" + upper,
        "SwitchName=s0 \\\n  Nodes=n[0-1]\n" + upper, "user@head:~$ cat topology.conf\n" + std::string(kConf),
        std::string(
            "SwitchName = s0 Nodes = n[0-1]\nSwitchName = s1 Nodes = n[2-3]\nSwitchName = top Switches = s0,s1"),
        std::string("SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[0-1]\nSwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[2-3]\n"
                    "SwitchName=top Level=1 LinkSpeed=1 Nodes=n[0-3] Switches=s[0-1]\n")}) {
    EXPECT_EQ(load(text, "@400Gb/s").fingerprint(), expected) << text;
  }
  write_file(folder_ + "/leaf.conf", "SwitchName=s0 Nodes=n[0-1]\n");
  EXPECT_EQ(load("Include leaf.conf\n" + upper, "@400Gb/s").fingerprint(), expected);
  write_file(folder_ + "/leaf.conf", "Include leaf.conf\n");
  EXPECT_THAT(problem("Include leaf.conf\n" + upper, "@400Gb/s"), HasSubstr("more than 8 files include one another"));
}

TEST_F(HandedOn, PartsOfATreeAreNamedAndMayBeLeftOut) {
  const std::string text =
      "SwitchName=core Switches=leaf[1-2]\nSwitchName=leaf1 Nodes=n[11-12]\nSwitchName=leaf2 Nodes=n[21-22]\n"
      "SwitchName=no-topology Nodes=n[13,23]\n";
  EXPECT_THAT(problem(text, "@400Gb/s"),
              HasSubstr("the tree is in 2 parts (4 nodes below 'core', 2 nodes below 'no-topology'); join them by a "
                        "switch above, or leave one out: --remove n13 --remove n23"));
  const Fabric fabric = load(text, "@400Gb/s", {kRemoved[0], kRemoved[1]});
  EXPECT_EQ(fabric.ranks().size(), 4u);
  EXPECT_TRUE(fabric.find("n22"));
  EXPECT_FALSE(fabric.find("n13"));
  for (const char* list : {"n[13,23]", "n13,n23", "n13*,n[23]"}) {
    EXPECT_EQ(load(text, "@400Gb/s", {{FabricEdit::Kind::remove, list}}).fingerprint(), fabric.fingerprint()) << list;
  }
  EXPECT_EQ(load(text, "@400Gb/s", {{FabricEdit::Kind::remove, "n1*"}, {FabricEdit::Kind::remove, "n23,leaf1"}})
                .nodes()
                .size(),
            5u);
}

// What is wrong without the nodes that are left out does not hide that one of them is not there.
TEST_F(HandedOn, NodesToLeaveOutThatAreUnknownAreNamedFirst) {
  const std::string tree = "SwitchName=s0 Nodes=n[0-1]\nSwitchName=s1 Nodes=n[2-3]\n";
  for (const auto& [list, says] : {std::pair("n2,n8", "--remove n2,n8: node 'n8' is not declared (did you mean"),
                                   std::pair("node[2-3]", "--remove node[2-3]: node 'node2' is not declared"),
                                   std::pair("k*", "--remove k*: no node has a name like 'k*'"),
                                   std::pair("n2", "the tree is in 2 parts (2 nodes below 's0', 1 node below 's1')")}) {
    EXPECT_THAT(problem(tree, "@400Gb/s", {{FabricEdit::Kind::remove, list}}), HasSubstr(says));
  }
}

TEST_F(HandedOn, PartsOfASubnetAreNamedAndMayBeLeftOut) {
  const auto adapter = [](const std::string& id, const std::string& name, const std::string& leaf, int port) {
    return "Ca\t1 \"H-" + id + "\"\t\t# \"" + name + " mlx5_0\"\n[1](0)\t\"S-" + leaf + "\"[" + std::to_string(port) +
           "]\t\t# lid 1 lmc 0 \"" + leaf + "\" lid 2 4xHDR\n";
  };
  const std::string text = "vendid=0x2c9\nSwitch\t40 \"S-a\"\t\t# \"leaf1\"\nSwitch\t40 \"S-b\"\t\t# \"leaf2\"\n" +
                           adapter("1", "n1", "a", 1) + adapter("2", "n2", "a", 2) + adapter("3", "n3", "a", 3) +
                           adapter("4", "n13", "b", 1) + adapter("5", "n23", "b", 2);
  EXPECT_THAT(problem(text, ""),
              HasSubstr("the network is in 2 parts (3 adapters with 'n1/mlx5_0', 2 adapters with 'n13/mlx5_0'); join "
                        "them by a switch above, or leave one out: --remove n13/mlx5_0 --remove n23/mlx5_0"));
  const Fabric fabric = load(text, "",
                             {{FabricEdit::Kind::remove, "n13/mlx5_0"},
                              {FabricEdit::Kind::remove, "n23/mlx5_0"},
                              {FabricEdit::Kind::remove, "n2/mlx5_0"}});
  EXPECT_EQ(fabric.ranks().size(), 2u);
  EXPECT_TRUE(fabric.find("n3/mlx5_0"));
  const FabricEdit list = {FabricEdit::Kind::remove, "n[13,2]/mlx5_0,n23*"};
  EXPECT_EQ(load(text, "", {list}).fingerprint(), fabric.fingerprint());
  EXPECT_THAT(problem(text, "", {{FabricEdit::Kind::remove, "n[13,24]/mlx5_0"}}),
              HasSubstr("--remove n[13,24]/mlx5_0: node 'n24/mlx5_0' is not declared (did you mean 'n2/mlx5_0'?)"));
}

// Where the file gives no figure: a node's cable was given after '@', and how wide switches are joined is a guess.
TEST_F(HandedOn, UplinksOfSlurmAreAssumed) {
  const Fabric fabric = load(kConf, "@400Gb/s");
  size_t assumed = 0;
  for (const Link& link : fabric.links()) {
    const bool has_rank = fabric.is_rank(link.from) || fabric.is_rank(link.to);
    EXPECT_EQ(link.assumed, !has_rank) << fabric.name(link.from) << " " << fabric.name(link.to);
    assumed += link.assumed;
  }
  EXPECT_EQ(assumed, 4u);
}

TEST_F(HandedOn, FormatsThatAreNotReadAreNamedWithWhatToGiveInstead) {
  EXPECT_THAT(problem("====== ROCm System Management Interface ======\nWeight between two GPUs\n", "@24GB/s"),
              HasSubstr("is the table of rocm-smi --showtopo, which is not read; give NCCL's topology"));
  EXPECT_THAT(problem("- topology: a\n  tree:\n    switches:\n      - switch: s0\n", ""),
              HasSubstr("is Slurm's topology.yaml, which is not read; give what `scontrol show topology` prints"));
  EXPECT_THAT(problem("topology: [ Ring ]\nnpus_count: [ 4 ]\n", ""), HasSubstr("is ASTRA-sim's network.yml"));
  EXPECT_THAT(problem("<graphs version=\"1\"><graph id=\"0\"/></graphs>", "@24GB/s"), HasSubstr("NCCL_TOPO_DUMP_FILE"));
  EXPECT_THAT(problem("{\"system\": {\"(Topology) Weight between DRM devices 0 and 1\": \"15\"}}", "@24GB/s"),
              HasSubstr("is the table of rocm-smi --showtopo"));
  EXPECT_THAT(problem("ACCESS TABLE:\n  0000:0c:00.0\nWEIGHT TABLE:\nHOPS TABLE:\n", "@24GB/s"),
              HasSubstr("is the table of amd-smi topology"));
  EXPECT_THAT(
      problem("CA: n1 mlx5_0:\n  0x2c9  4  1[  ] ==( 4X 25.78 Gbps Active/ LinkUp)==>  0x2c8 2 1[  ] \"a\"\n", ""),
      HasSubstr("is what iblinkinfo prints, which is not read; give what ibnetdiscover prints"));
  EXPECT_THAT(
      problem("CA    21  1 0x0002c9030005f34c 4x HDR - SW     2 13 0x0002c90200422d98 ( 'n1 mlx5_0' - 'leaf' )\n", ""),
      HasSubstr("is what ibnetdiscover -p prints, which is not read; give what ibnetdiscover prints without"));
  EXPECT_THAT(problem("16 8 4 8 20 H100\n16 17 18\n0 16 2880Gbps 0.000025ms 0\n", ""),
              HasSubstr("is a topology of SimAI"));
  EXPECT_THAT(problem("\t   NPU0       NPU1       CPU Affinity\nNPU0       X          HCCS       0-23\n", "@28GB/s"),
              HasSubstr("is the table of npu-smi info -t topo"));
  EXPECT_THAT(problem("digraph fabric {\n  \"a\" -> \"b\" [label=\"400 Gb/s\"];\n}\n", ""),
              HasSubstr("is a graph for Graphviz, which is not read; 'banyan fabric -o FILE' writes"));
  EXPECT_THAT(problem("{\"some\": 1}", "@24GB/s"), ::testing::Not(HasSubstr("leave '@")));
}

}  // namespace
}  // namespace banyan::fabric
