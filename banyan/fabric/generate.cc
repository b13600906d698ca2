#include "banyan/fabric/generate.h"

#include <algorithm>
#include <array>

#include "banyan/base/error.h"
#include "banyan/fabric/generate_spec.h"
#include "banyan/fabric/powers.h"

namespace banyan::fabric {
namespace {

struct Generator {
  std::string_view kind;
  std::string_view arguments;
  std::string_view description;
  std::string_view example;
  Fabric (*generate)(const GeneratorSpec& spec);
};

template <void (*generate)(const GeneratorSpec& spec, Fabric::Builder& builder)>
Fabric built(const GeneratorSpec& spec) {
  Fabric::Builder builder;
  generate(spec, builder);
  return std::move(builder).build();
}

constexpr std::array kGenerators = {
    Generator{"dgx-a100", "B[@NIC]", "B boxes of 8 A100 on an NVSwitch of 300 GB/s; NICs of 25 GB/s", "dgx-a100:8",
              built<generate_dgx_a100>},
    Generator{"dgx-h100", "B[@NIC]", "B boxes of 8 H100 on an NVSwitch of 450 GB/s; NICs of 50 GB/s", "dgx-h100:8",
              built<generate_dgx_h100>},
    Generator{"dgx-h200", "B[@NIC]", "B boxes of 8 H200 on an NVSwitch of 450 GB/s; NICs of 50 GB/s", "dgx-h200:8",
              built<generate_dgx_h200>},
    Generator{"dgx-b200", "B[@NIC]", "B boxes of 8 B200 on an NVSwitch of 900 GB/s; NICs of 50 GB/s", "dgx-b200:8",
              built<generate_dgx_b200>},
    Generator{"gb200-nvl72", "R[@NIC]", "R racks of 72 GB200 GPUs on NVLink switches of 900 GB/s; NICs of 50 GB/s",
              "gb200-nvl72:2", built<generate_gb200_nvl72>},
    Generator{"dgx1-v100", "B[@NIC]", "B boxes of 8 V100 in a hybrid cube mesh; one NIC of 12.5 GB/s a box",
              "dgx1-v100:2", built<generate_dgx1_v100>},
    Generator{"mi250", "B[@NIC]", "B boxes of 16 MI250 dies joined by xGMI; NICs of 16 GB/s", "mi250:4",
              built<generate_mi250>},
    Generator{"mi300x", "B[@NIC]", "B boxes of 8 MI300X, each joined to each by xGMI; NICs of 50 GB/s", "mi300x:4",
              built<generate_mi300x>},
    Generator{"ring", "N[@BANDWIDTH]", "N ranks in a circle", "ring:8", built<generate_ring>},
    Generator{"full", "N[@BANDWIDTH]", "N ranks, each joined to each", "full:8", built<generate_full>},
    Generator{"star", "N[@BANDWIDTH]", "N ranks round one switch", "star:8", built<generate_star>},
    Generator{"torus", "AxBx..[@BANDWIDTH]", "a grid with wrap-around, up to six dimensions", "torus:8x8x8",
              built<generate_torus>},
    Generator{"mesh", "AxBx..[@BANDWIDTH]", "a grid without wrap-around, up to six dimensions", "mesh:4x4",
              built<generate_mesh>},
    Generator{"hypercube", "D[@BANDWIDTH]", "2^D ranks, joined where one bit differs", "hypercube:6",
              built<generate_hypercube>},
    Generator{"circulant", "N,a,b,..[@BANDWIDTH]", "N ranks; rank i is joined to i+a, i+b, ...", "circulant:16,3,4",
              built<generate_circulant>},
    Generator{"cayley", "m=M[,k=K][,r=R],by=a.i+b.j+..[@BANDWIDTH]",
              "M*K ranks (x, y), one-way links to (x + R^y a mod M, y + i mod K) and so on",
              "cayley:m=8,k=2,r=7,by=2.1+5.1+1+6", built<generate_cayley>},
    Generator{"bipartite", "MxN[@BANDWIDTH]", "M + N ranks, each of the M joined to each of the N", "bipartite:4x4",
              built<generate_bipartite>},
    Generator{"hamming", "AxBx..[@BANDWIDTH]", "a grid, up to six dimensions; ranks of a line are all joined",
              "hamming:4x4", built<generate_hamming>},
    Generator{"diamond", "[@BANDWIDTH]", "8 ranks, two one-way links out of each; three steps at full bandwidth",
              "diamond", built<generate_diamond>},
    Generator{"kautz", "n=N,d=D[@BANDWIDTH]", "generalized Kautz digraph: N ranks, D one-way links out of each",
              "kautz:n=64,d=4", built<generate_kautz>},
    Generator{"debruijn", "k=K,n=N[@BANDWIDTH]", "de Bruijn digraph: words of N letters out of K, one-way links",
              "debruijn:k=2,n=5", built<generate_debruijn>},
    Generator{"modified-debruijn", "k=K,n=N[@BANDWIDTH]",
              "the same with a one-way ring through the words of one letter, which point to themselves there",
              "modified-debruijn:k=2,n=4", built<generate_modified_debruijn>},
    Generator{"line", "(SPEC)[^K][@BANDWIDTH]", "the line graph of SPEC, K times: a rank for each link",
              "line:(circulant:16,3,4)^2", generate_line},
    Generator{"copies", "(SPEC)xK[@BANDWIDTH]", "K copies of each rank of SPEC, and of each link K times K",
              "copies:(ring:4)x2", generate_copies},
    Generator{"product", "(SPEC)x(SPEC)..[@BANDWIDTH]", "the Cartesian product: a SPEC along each dimension",
              "product:(ring:4)x(full:3)", generate_product},
    Generator{"power", "(SPEC)^K[@BANDWIDTH]", "the Cartesian product of K times the same SPEC", "power:(diamond)^2",
              generate_power},
    Generator{"leaf-spine", "leaves=L,hosts=H,spines=S[,uplink=BANDWIDTH][@BANDWIDTH]",
              "L leaf switches of H ranks, each joined to S spines", "leaf-spine:leaves=4,hosts=4,spines=2",
              built<generate_leaf_spine>},
    Generator{"fat-tree", "k=K[@BANDWIDTH]", "the K-ary fat tree: K^3/4 ranks, three levels of switches of K ports",
              "fat-tree:k=4", built<generate_fat_tree>},
    Generator{"rail", "boxes=B,gpus=G[,spines=S][,nvlink=BANDWIDTH][@NIC]",
              "B boxes of G GPUs on NVSwitch; GPU g of each box on rail switch g", "rail:boxes=4,gpus=8",
              built<generate_rail>},
    Generator{"dragonfly", "groups=G,routers=R,hosts=H[,globals=N][@BANDWIDTH]",
              "G groups of R routers of H ranks, routers of a group and groups all joined",
              "dragonfly:groups=5,routers=2,hosts=2", built<generate_dragonfly>},
    Generator{"subways", "racks=R,hosts=H,ports=P,spines=S[,uplink=BANDWIDTH][@BANDWIDTH]",
              "R racks in a circle of H ranks with P ports, on the switches of their own rack and the next ones",
              "subways:racks=6,hosts=4,ports=2,spines=2", built<generate_subways>},
    Generator{"shufflecast", "fanout=P,columns=K[@BANDWIDTH]",
              "K columns of P^K racks; a passive splitter takes what a rack sends to P racks of the next column",
              "shufflecast:fanout=2,columns=2", built<generate_shufflecast>},
    Generator{"random", "n=N,links=L[,seed=S][@UNIT]",
              "N ranks and L cables, connected, each of 1 to 16 times 1 GB/s (or UNIT)", "random:n=16,links=40,seed=7",
              built<generate_random>},
};

const Generator* find_generator(std::string_view kind) {
  const auto found = std::ranges::find(kGenerators, kind, &Generator::kind);
  return found == kGenerators.end() ? nullptr : &*found;
}

std::string known_kinds() {
  std::string kinds;
  for (const Generator& generator : kGenerators) kinds += (kinds.empty() ? "" : ", ") + std::string(generator.kind);
  return kinds;
}

}  // namespace

std::vector<GeneratorHelp> fabric_generators() {
  std::vector<GeneratorHelp> help;
  for (const Generator& generator : kGenerators) {
    const bool has_arguments = !generator.arguments.starts_with('[');
    help.push_back({.spec = std::string(generator.kind) + (has_arguments ? ":" : "") + std::string(generator.arguments),
                    .description = std::string(generator.description)});
  }
  return help;
}

std::vector<GeneratorHelp> fabric_suffixes() {
  std::vector<GeneratorHelp> help;
  for (const PowerSuffix& suffix : power_suffixes()) {
    help.push_back({.spec = "SPEC" + std::string(suffix.text), .description = std::string(suffix.description)});
  }
  return help;
}

bool is_fabric_spec(std::string_view text) {
  return find_generator(text.substr(0, text.find_first_of(":@+"))) != nullptr;
}

Fabric generate_fabric(std::string_view text) {
  const SpecWithPowers asked = split_powers(text);
  GeneratorSpec spec = GeneratorSpec::parse(asked.spec);
  const Generator* generator = find_generator(spec.kind());
  if (generator == nullptr) {
    throw spec.error("no generator has this name; known are " + known_kinds());
  }
  spec.set_example(generator->example);
  try {
    return apply_powers(generator->generate(spec), asked);
  } catch (const Error& error) {
    // What the builder refuses (one rank, a graph that falls apart) does not yet name the spec.
    if (!error.where().empty()) throw;
    throw spec.error(error.message());
  }
}

}  // namespace banyan::fabric
