#include "banyan/fabric/read.h"

#include <filesystem>
#include <string_view>

#include "banyan/base/error.h"
#include "banyan/base/nearest.h"
#include "banyan/base/place.h"
#include "banyan/base/plain_text.h"
#include "banyan/base/text.h"
#include "banyan/base/text_lines.h"
#include "banyan/fabric/generate.h"
#include "banyan/fabric/gpu_matrix.h"
#include "banyan/fabric/hwloc_xml.h"
#include "banyan/fabric/ib_topology.h"
#include "banyan/fabric/json.h"
#include "banyan/fabric/nccl_xml.h"
#include "banyan/fabric/slurm_topology.h"
#include "banyan/fabric/text.h"

namespace banyan::fabric {
namespace {

enum class Format : uint8_t { json, nccl, hwloc, gpu_matrix, ib, slurm, text };

// The file and what stands behind its name: "topology.conf@400Gb/s".
struct NamedFile {
  std::string path;
  std::optional<Bandwidth> bandwidth;
};

// Of what is neither JSON nor XML.
Format format_of_text(std::string_view contents) {
  if (is_slurm_topology(contents)) return Format::slurm;
  if (is_ib_topology(contents)) return Format::ib;
  return is_gpu_matrix(contents) ? Format::gpu_matrix : Format::text;
}

// As the text form, topology.conf and ibnetdiscover have them.
bool has_comments_only(std::string_view contents) {
  bool has_others = false;
  for_each_line(contents, [&](std::string_view line, size_t) {
    line = trim(line);
    has_others = !line.empty() && line.front() != '#';
    return !has_others;
  });
  return !has_others;
}

// Told by the first character that is no space.
Format format_of(std::string_view contents, const std::string& path) {
  const size_t first = contents.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) throw invalid("is empty").within(path);
  if (contents[first] == '#' && has_comments_only(contents)) {
    throw invalid("holds nothing but comments").within(path);
  }
  switch (contents[first]) {
    case '{':
    case '[':
      return Format::json;
    case '<':
      if (contents.substr(first).starts_with("<->")) return Format::text;
      return is_hwloc_xml(contents) ? Format::hwloc : Format::nccl;
    default:
      return format_of_text(contents);
  }
}

// Everything but the description of one server says by itself how many boxes there are and what is in them.
void refuse_box_options(const FabricSource& source) {
  const BoxOptions& box = source.box;
  const char* option = box.boxes != 1      ? "--boxes"
                       : !box.gpu.empty()  ? "--gpu"
                       : box.nic           ? "--nic"
                       : !box.nics.empty() ? "--nics"
                       : box.nvlink        ? "--nvlink"
                       : box.cpu_link      ? "--cpu-link"
                                           : nullptr;
  if (option == nullptr) return;
  throw invalid(std::string(option) +
                " is for descriptions of one server only (NCCL or hwloc XML, nvidia-smi topo -m), and this is none; "
                "leave it out")
      .within(source.fabric.substr(0, 200));
}

// A file that is not there was perhaps meant to be a spec, unless its name is that of a file.
Error no_such_fabric(const std::string& fabric) {
  const std::string_view name = std::string_view(fabric).substr(0, fabric.find(':'));
  if (name.find_first_of("./") != std::string_view::npos) {
    return Error(ErrorCode::not_found, "no such file", fabric.substr(0, 200));
  }
  NearestName nearest(name);
  std::string names;
  for (const GeneratorHelp& generator : fabric_generators()) {
    const std::string known = generator.spec.substr(0, generator.spec.find(':'));
    nearest.offer(known);
    names += (names.empty() ? "" : ", ") + known;
  }
  const std::string mend = nearest.best().empty() ? " (generators: " + names + ")" : nearest.hint();
  return Error(ErrorCode::not_found, "no such file, nor a generator of that name" + mend, fabric.substr(0, 200));
}

bool exists(const std::string& path) {
  std::error_code why;
  // Links that go round in a circle, and folders that may not be looked into, are there: read_file says what is wrong.
  return std::filesystem::exists(path, why) || why == std::errc::too_many_symbolic_link_levels ||
         why == std::errc::permission_denied;
}

void refuse_bandwidth(const NamedFile& file) {
  if (!file.bandwidth) return;
  throw invalid("this file says itself how fast its links are; leave '@" + file.bandwidth->to_string() + "' out")
      .within(file.path);
}

// A path may hold an '@' of its own: a file that is there wins.
std::optional<NamedFile> find_file(const std::string& fabric) {
  if (exists(fabric)) return NamedFile{.path = fabric, .bandwidth = std::nullopt};
  const size_t at = fabric.rfind('@');
  if (at == std::string::npos || !exists(fabric.substr(0, at))) return std::nullopt;
  return at_place(fabric.substr(0, 200), [&] {
    return NamedFile{.path = fabric.substr(0, at), .bandwidth = Bandwidth::parse(fabric.substr(at + 1))};
  });
}

// Formats that people have and that are not read: by what only they hold, and what to give instead.
void refuse_foreign_format(std::string_view contents, const std::string& path) {
  struct Foreign {
    std::string_view mark, also, name, mend;
  };
  constexpr std::string_view kNcclDump = "give NCCL's topology: run a job with NCCL_TOPO_DUMP_FILE=topo.xml";
  constexpr std::string_view kIbnetdiscover = "give what ibnetdiscover prints without options";
  constexpr std::string_view kTopologyConf = "give what `scontrol show topology` prints, or topology.conf";
  constexpr std::string_view kTextForm = "write its links in the text form, as in 'npu0 <-> npu1 28GB/s'";
  constexpr Foreign kForeign[] = {
      {"<graphs", "<graph ", "a dump of NCCL's graphs (NCCL_GRAPH_DUMP_FILE)", kNcclDump},
      {"Weight between two GPUs", "", "the table of rocm-smi --showtopo", kNcclDump},
      {"(Topology) Weight between DRM devices", "", "the table of rocm-smi --showtopo", kNcclDump},
      {"WEIGHT TABLE:", "HOPS TABLE:", "the table of amd-smi topology", kNcclDump},
      {"==(", "CA: ", "what iblinkinfo prints", kIbnetdiscover},
      {"==(", "Switch: 0x", "what iblinkinfo prints", kIbnetdiscover},
      {" ( '", "' - '", "what ibnetdiscover -p prints", kIbnetdiscover},
      {"switches:", "topology:", "Slurm's topology.yaml", kTopologyConf},
      {"blocks:", "topology:", "Slurm's topology.yaml", kTopologyConf},
      {"flat:", "topology:", "Slurm's topology.yaml", kTopologyConf},
      {"npus_count:", "topology:", "ASTRA-sim's network.yml", "write a spec such as torus:4x4 (banyan fabric --list)"},
      {"Gbps 0.", "ms 0", "a topology of SimAI", kTextForm},
      {"digraph", " -> ", "a graph for Graphviz", "'banyan fabric -o FILE' writes one that can be read again"},
      {"HCCS", "NPU0", "the table of npu-smi info -t topo", kTextForm}};
  const std::string_view head = contents.substr(0, size_t{1} << 16);
  for (const Foreign& foreign : kForeign) {
    if (head.find(foreign.mark) == std::string_view::npos || head.find(foreign.also) == std::string_view::npos)
      continue;
    throw Error(ErrorCode::unsupported,
                "is " + std::string(foreign.name) + ", which is not read; " + std::string(foreign.mend), path);
  }
}

std::string read_included(const std::string& path, const std::string& name) {
  const std::filesystem::path beside = std::filesystem::path(path).parent_path() / name;  // an absolute name stays so
  return read_plain_text(beside.string(), FabricSource::kMaxFileBytes).text;
}

// What reading finds beside the fabric.
struct Findings {
  std::vector<std::string> notes;     // what was assumed
  std::vector<std::string> left_out;  // nodes that --remove left out before the fabric was made
};

// Nodes that `--remove` names may be what keeps a network from having one part: they are left out before that is
// checked, when it is not read without. `read` is given their names, and where to put those that it met.
template <typename Read>
Fabric read_network(const FabricSource& source, Findings& findings, Read read) {
  std::vector<std::string> left_out;
  for (const FabricEdit& edit : source.edits) {
    if (edit.kind == FabricEdit::Kind::remove) left_out.push_back(edit.text);
  }
  const size_t noted = findings.notes.size();
  if (!left_out.empty()) {
    try {
      return read({}, nullptr);
    } catch (const Error&) {
      findings.notes.resize(noted);
    }
  }
  return read(std::move(left_out), &findings.left_out);
}

Fabric read_slurm(const PlainText& plain, const FabricSource& source, const NamedFile& file, Findings& findings) {
  return read_network(source, findings, [&](std::vector<std::string> left_out, std::vector<std::string>* found) {
    const auto include = [&](const std::string& name) { return read_included(file.path, name); };
    return parse_slurm_topology({plain.text, file.path, file.bandwidth}, findings.notes,
                                {.left_out = std::move(left_out), .met = found, .include = include});
  });
}

Fabric read_ib(const PlainText& plain, const FabricSource& source, const NamedFile& file, Findings& findings) {
  return read_network(source, findings, [&](std::vector<std::string> left_out, std::vector<std::string>* found) {
    return parse_ib_topology(plain.text, file.path, findings.notes,
                             {.fallback = file.bandwidth, .left_out = std::move(left_out), .met = found});
  });
}

Fabric read_fabric_file(const FabricSource& source, const NamedFile& file, Findings& findings) {
  std::vector<std::string>& notes = findings.notes;
  const std::string& path = file.path;
  PlainText plain = read_plain_text(path, FabricSource::kMaxFileBytes);
  plain.begin_at(
      [](std::string_view line) { return is_gpu_matrix(line) || is_slurm_topology(line) || is_ib_topology(line); });
  notes.insert(notes.end(), plain.notes.begin(), plain.notes.end());
  const std::string& contents = plain.text;
  const Format format = format_of(contents, path);
  const BoxOptions& box = source.box;
  if (format == Format::hwloc) return parse_hwloc_xml({contents, path, file.bandwidth}, box, notes);
  if (format == Format::gpu_matrix) return parse_gpu_matrix({contents, path, file.bandwidth}, box, notes);
  if (format != Format::nccl) refuse_box_options(source);
  if (format == Format::slurm) return read_slurm(plain, source, file, findings);
  if (format == Format::ib) return read_ib(plain, source, file, findings);
  if (format == Format::nccl || format == Format::text || contents.find("\"banyan\"") == std::string::npos) {
    refuse_foreign_format(contents, path);
  }
  if (format == Format::text && contents.find("->") == std::string::npos) {
    throw Error(
        ErrorCode::invalid_input,
        "does not describe a fabric in a known format (JSON or text of Banyan, NCCL or hwloc XML, nvidia-smi topo "
        "-m, ibnetdiscover, Slurm's topology.conf)",
        path);
  }
  const Fabric fabric = format == Format::nccl   ? parse_nccl_xml(contents, box, path, notes)
                        : format == Format::json ? parse_fabric_json(contents, path)
                                                 : parse_fabric_text(contents, path);
  refuse_bandwidth(file);
  return fabric;
}

Fabric load_unedited(const FabricSource& source, Findings& findings) {
  const std::string& fabric = source.fabric;
  if (fabric.empty()) throw invalid("the fabric's name is empty; give a file or a spec such as dgx-h100:8");
  if (const auto file = find_file(fabric)) return read_fabric_file(source, *file, findings);
  if (fabric.find("->") != std::string::npos) {
    refuse_box_options(source);
    return parse_fabric_text(fabric);
  }
  if (is_fabric_spec(fabric)) {
    refuse_box_options(source);
    return generate_fabric(fabric);
  }
  throw no_such_fabric(fabric);
}

}  // namespace

Fabric load_fabric(const FabricSource& source, std::vector<std::string>* notes) {
  Findings findings;
  const Fabric fabric = load_unedited(source, findings);
  if (notes != nullptr) notes->insert(notes->end(), findings.notes.begin(), findings.notes.end());
  return at_place(source.fabric.substr(0, 200), [&] { return edit_fabric(fabric, source.edits, findings.left_out); });
}

}  // namespace banyan::fabric
