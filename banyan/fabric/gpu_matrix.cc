#include "banyan/fabric/gpu_matrix.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/base/place.h"
#include "banyan/base/text.h"
#include "banyan/base/text_lines.h"
#include "banyan/fabric/disjoint_sets.h"
#include "banyan/fabric/nccl_box.h"

namespace banyan::fabric {
namespace {

constexpr size_t kMaxMatrixDevices = 256;
constexpr uint32_t kMaxNvlinks = 36;  // in a cell
// NVLink 2, 3 and 4 (V100, A100, H100): 25 GB/s each way. A guess, as the table does not say what GPUs there are.
constexpr NcclBox::Speed kNvlink = {.rate = Bandwidth::gigabytes_per_second(25), .assumed = true};

// Without what colours a terminal: nvidia-smi underlines the header.
std::string without_escapes(std::string_view line) {
  std::string plain;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\x1b') {
      plain += line[i];
      continue;
    }
    while (i < line.size() && line[i] != 'm') ++i;
  }
  return plain;
}

std::vector<std::string> words_of(std::string_view line) {
  const std::string plain = without_escapes(line);
  const std::vector<std::string_view> words = split_words(plain);
  return {words.begin(), words.end()};
}

bool is_gpu_name(std::string_view name) {
  return name.starts_with("GPU") && name.size() > 3 && name.size() <= 7 &&
         std::all_of(name.begin() + 3, name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// What stands in cells besides NVLinks.
enum class Path : uint8_t { self, switch_, cpu, system };  // of PCI
std::optional<Path> path_of(std::string_view word) {
  if (word == "X") return Path::self;
  if (word == "PIX" || word == "PXB" || word == "PSB") return Path::switch_;
  if (word == "PHB" || word == "NODE") return Path::cpu;
  if (word == "SYS" || word == "SOC" || word == "N/A") return Path::system;
  return std::nullopt;
}

// The name of a device, as the header has them: "GPU1", "NIC0", "mlx5_0".
bool is_device_name(std::string_view word) {
  const bool is_plain = std::ranges::all_of(word, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
  });
  return is_plain && !word.empty() && word.back() >= '0' && word.back() <= '9' && !path_of(word) &&
         !(word.starts_with("NV") && word[2 % word.size()] >= '0' && word[2 % word.size()] <= '9');
}

// "GPU0 GPU1 ... CPU Affinity": a first GPU, and behind it another device or the columns that describe devices.
bool is_header(const std::vector<std::string>& words) {
  return words.size() > 1 && is_gpu_name(words[0]) && (is_device_name(words[1]) || words[1] == "CPU");
}

// How two devices are joined.
struct Cell {
  Path path = Path::system;
  uint32_t nvlinks = 0;
};

class GpuMatrixReader : LineReader {
 public:
  void read(std::string_view text) {
    for_each_line(text, [&](std::string_view line, size_t number) {
      line_ = number;
      const std::vector<std::string> words = words_of(line);
      if (words.empty()) return true;
      if (names_.empty()) {
        if (is_gpu_name(words.front())) read_header(words);
      } else if (rows_.size() < names_.size() && !has_ended_) {
        has_ended_ = words.front() == "Legend:";
        if (!has_ended_) read_row(words);
      } else {
        read_below(words);
      }
      return true;
    });
    line_ = 0;
    if (names_.empty()) throw bad("there is no header line, which begins with GPU0");
    for (const std::string& name : names_) {
      if (!rows_.contains(name)) throw bad("the row of " + name + " is missing; is the table complete?");
    }
  }

  NcclBox box(Bandwidth pci, std::vector<std::string>& notes) const {
    DisjointSets<size_t> cpus(names_.size()), switches(names_.size());
    group(cpus, switches, notes);
    NcclBox box;
    box.rows_are_pairs = true;
    std::map<size_t, uint32_t> cpu_node, switch_node;  // by the name of their group
    std::map<size_t, size_t> members;                  // of a group of a switch, by its name
    const CpuLink link = cpu_link("", "", 0, 0);
    for (size_t i = 0; i < names_.size(); ++i) {
      ++members[switches.find(i)];
      if (cpus.find(i) == i) cpu_node[i] = box.add_cpu(0, link);
    }
    for (size_t i = 0; i < names_.size(); ++i) {
      if (members[i] < 2) continue;
      switch_node[i] = static_cast<uint32_t>(box.switches.size());
      box.switches.push_back(
          {.name = "pci" + std::to_string(switch_node.size() - 1), .parent = cpu_node.at(cpus.find(i)), .up = {pci}});
    }
    for (size_t i = 0; i < names_.size(); ++i) {
      const uint32_t cpu = cpu_node.at(cpus.find(i));
      const auto shared = switch_node.find(switches.find(i));
      const uint32_t plug = shared == switch_node.end() ? cpu : shared->second;
      if (is_gpu_name(names_[i])) {
        box.gpus.push_back({.busid = names_[i],
                            .host = 0,
                            .cpu = cpu,
                            .node = plug,
                            .up = {pci},
                            .link = kNvlink,
                            .rows = rows_of(i)});
      } else {
        box.nics.push_back({.node = plug, .up = NcclBox::Speed{pci}, .names = {names_[i]}});
        if (const auto name = legend_.find(names_[i]); name != legend_.end())
          box.nics.back().names.push_back(name->second);
      }
    }
    return box;
  }

 private:
  // "GPU0 GPU1 ... NIC0 ... CPU Affinity NUMA Affinity GPU NUMA ID"
  void read_header(const std::vector<std::string>& words) {
    for (const std::string& word : words) {
      if (word == "CPU" || word == "NUMA" || word == "GPU") break;
      if (names_.size() == kMaxMatrixDevices) throw bad("more than " + std::to_string(kMaxMatrixDevices) + " devices");
      if (std::find(names_.begin(), names_.end(), word) != names_.end()) throw bad(in_quotes(word) + " stands twice");
      names_.push_back(word);
    }
  }

  // "GPU0 X NV18 ... PIX 0-55,112-167 0 N/A"
  void read_row(const std::vector<std::string>& words) {
    const std::string& name = words.front();
    const bool is_known = std::find(names_.begin(), names_.end(), name) != names_.end();
    if (!is_known) throw bad("the row of " + in_quotes(name) + " is of no device of the header");
    if (words.size() < names_.size() + 1) {
      throw bad("the row of " + name + " has " + std::to_string(words.size() - 1) + " of " +
                std::to_string(names_.size()) + " cells");
    }
    Row row;
    for (size_t i = 0; i < names_.size(); ++i) row.cells.push_back(cell_of(words[i + 1]));
    if (words.size() > names_.size() + 1) row.affinity = words[names_.size() + 1];
    if (!rows_.emplace(name, std::move(row)).second) throw bad("the row of " + name + " stands twice");
  }

  // Behind the table: "NIC0: mlx5_0" of the legend, and perhaps the table of another server.
  void read_below(const std::vector<std::string>& words) {
    if (is_header(words)) {
      throw bad(
          "a second table begins here, but a file describes one server; give one of them, and for several servers like "
          "it say --boxes, as in --boxes 2");
    }
    if (words.size() == 2 && words[0].ends_with(':'))
      legend_.emplace(words[0].substr(0, words[0].size() - 1), words[1]);
  }

  Cell cell_of(const std::string& word) const {
    if (const auto path = path_of(word)) return {.path = *path};
    Cell cell;
    const auto [end, code] =
        std::from_chars(word.data() + std::min<size_t>(2, word.size()), word.data() + word.size(), cell.nvlinks);
    const bool is_nvlink = word.starts_with("NV") && code == std::errc() && end == word.data() + word.size();
    if (!is_nvlink || cell.nvlinks == 0 || cell.nvlinks > kMaxNvlinks) {
      throw bad("cell " + in_quotes(word) + " is none of X, NV1 to NV" + std::to_string(kMaxNvlinks) +
                ", PIX, PXB, PHB, NODE, SYS");
    }
    return cell;
  }

  const Cell& cell(size_t a, size_t b) const { return rows_.at(names_[a]).cells[b]; }

  // Between GPUs that NVLinks join, the table does not tell of PCI. Devices beside both do, and their cores.
  void group(DisjointSets<size_t>& cpus, DisjointSets<size_t>& switches, std::vector<std::string>& notes) const {
    std::string contradiction;
    for (size_t a = 0; a < names_.size(); ++a) {
      for (size_t b = 0; b < names_.size(); ++b) {
        const Path path = cell(a, b).path;
        if (path == Path::switch_) switches.join(a, b);
        if (path == Path::switch_ || path == Path::cpu) cpus.join(a, b);
        const std::string &own = rows_.at(names_[a]).affinity, &other = rows_.at(names_[b]).affinity;
        const bool have_cores = !own.empty() && own != "N/A" && own.find_first_of("0123456789") == 0;
        if (a == b || !is_gpu_name(names_[a]) || !is_gpu_name(names_[b]) || !have_cores || own != other) continue;
        if (cell(a, b).nvlinks > 0) cpus.join(a, b);
        if (path == Path::system && cell(a, b).nvlinks == 0 && contradiction.empty()) {
          contradiction = names_[a] + " and " + names_[b] + " are " +
                          "SYS to each other, at different CPUs, but have the same cores (" + own + ")";
        }
      }
    }
    if (!contradiction.empty()) notes.push_back("the table contradicts itself: " + contradiction + "; SYS is believed");
  }

  // The NVLinks that a GPU has in common with others.
  std::vector<NcclBox::LinkRow> rows_of(size_t gpu) const {
    std::vector<NcclBox::LinkRow> rows;
    for (size_t other = 0; other < names_.size(); ++other) {
      const uint32_t count = is_gpu_name(names_[other]) ? cell(gpu, other).nvlinks : 0;
      if (count == 0) continue;
      rows.push_back({.kind = NcclBox::LinkRow::Target::gpu, .busid = names_[other], .count = count, .line = 0});
    }
    return rows;
  }

  struct Row {
    std::vector<Cell> cells;
    std::string affinity;  // the cores that are near
  };

  std::vector<std::string> names_;             // of the columns
  std::map<std::string, Row> rows_;            // by name
  std::map<std::string, std::string> legend_;  // "NIC0": "mlx5_0"
  bool has_ended_ = false;                     // before all rows were there
};

}  // namespace

bool is_gpu_matrix(std::string_view text) {
  bool is_one = false;
  for_each_line(text, [&](std::string_view line, size_t) {
    const std::vector<std::string> words = words_of(line.substr(0, 4096));
    is_one = is_header(words);
    return words.empty();
  });
  return is_one;
}

Fabric parse_gpu_matrix(const SiteFile& file, const BoxOptions& options, std::vector<std::string>& notes) {
  return at_place(file.name, [&] {
    GpuMatrixReader reader;
    reader.read(file.text);
    if (!file.bandwidth) {
      throw invalid(
          "the table of nvidia-smi does not say how fast PCI links are; put their speed behind the file's "
          "name: " +
          file.name + "@48GB/s (about 12 GB/s for 16 lanes of Gen3, 24 of Gen4, 48 of Gen5)");
    }
    return build_nccl_fabric(reader.box(*file.bandwidth, notes), options, notes);
  });
}

}  // namespace banyan::fabric
