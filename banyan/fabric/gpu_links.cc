#include "banyan/fabric/gpu_links.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/base/text.h"
#include "banyan/fabric/disjoint_sets.h"

namespace banyan::fabric {
namespace {

constexpr uint32_t kMostNvlinks = 18;  // of a GPU, up to NVLink 5

// Links between two ends: so many, and bytes a second of those that the file tells by their rate.
struct LinkTally {
  uint64_t count = 0, rate = 0;
  void add(const NcclBox::LinkRow& row) {
    count += row.rate == Bandwidth() ? row.count : 0;
    rate += row.rate.bytes_per_second();
  }
};

class GpuLinksReader {
  using Speed = NcclBox::Speed;
  using LinkRow = NcclBox::LinkRow;

 public:
  GpuLinksReader(const NcclBox& box, const BoxOptions& options, const GpuModel* model, std::vector<std::string>& notes)
      : box_(box), options_(options), model_(model), notes_(notes), to_switch_(box.gpus.size()), to_cpu_(to_switch_) {}

  GpuLinks read() && {
    const bool rows = std::ranges::any_of(box_.gpus, [](const auto& gpu) { return !gpu.rows.empty(); });
    links_.to_switch.resize(box_.gpus.size());
    links_.to_cpu.resize(box_.gpus.size());
    if (rows) {
      read_rows();
    } else if (model_ != nullptr) {
      expect_untold(*model_);
      take_model(*model_);
    } else {
      expect_known();
    }
    return std::move(links_);
  }

 private:
  size_t gpu_count() const { return box_.gpus.size(); }
  static Error bad(const std::string& message, size_t line = 0) {
    return Error(ErrorCode::invalid_input, message, line == 0 ? "" : "line " + std::to_string(line));
  }
  static std::string name(uint32_t gpu) { return "gpu" + std::to_string(gpu); }
  std::string option() const { return "--gpu " + std::string(model_->name); }

  void expect_known() const {
    if (options_.nvlink) {
      throw bad("--nvlink is the speed of links that the file names, and it names none; say by --gpu what GPUs it has");
    }
    if (!box_.gpus_guessed) return;
    std::string known;
    for (const GpuModel& model : gpu_models()) known += (known.empty() ? "" : ", ") + std::string(model.name);
    throw bad("the file is a PCI skeleton and does not say what GPUs and NVLinks it has; say it with --gpu, one of " +
              known);
  }

  // A description that tells how GPUs are joined, and of no links between them, contradicts a GPU that has some.
  void expect_untold(const GpuModel& model) const {
    if (!box_.rows_are_pairs || gpu_count() < 2 || model.wiring == GpuWiring::none) return;
    throw bad(option() + " has " + plural(model.links, "link") +
              " of its own, but the table shows none between GPUs: nvidia-smi topo -mp leaves NVLinks out (give what "
              "topo -m prints), and cards without bridges have none (say --gpu pcie)");
  }

  // Of one link.
  Speed link_of(uint32_t gpu) const {
    if (options_.nvlink) return {.rate = *options_.nvlink};
    return model_ != nullptr ? Speed{.rate = model_->link} : box_.gpus[gpu].link;
  }
  Speed speed_of(uint32_t gpu, const LinkTally& tally) const {
    const Speed link = link_of(gpu);
    return {.rate = Bandwidth::bytes_per_second(tally.count * link.rate.bytes_per_second() + tally.rate),
            .assumed = tally.count > 0 && link.assumed};
  }

  void read_rows() {
    if (model_ != nullptr && model_->wiring == GpuWiring::none) {
      throw bad(option() + " says that GPUs have no links of their own, but the file has some");
    }
    for (uint32_t i = 0; i < gpu_count(); ++i)
      gpu_by_busid_.emplace(std::pair(box_.gpus[i].host, box_.gpus[i].busid), i);
    for (uint32_t i = 0; i < gpu_count(); ++i) {
      for (const LinkRow& row : box_.gpus[i].rows) read_row(i, row);
    }
    if (box_.rows_are_pairs) find_nvswitch();
    for (uint32_t i = 0; i < gpu_count(); ++i) expect_as_many(i);
    for (const auto& [ends, tally] : direct_)
      links_.direct.push_back({.from = ends.first, .to = ends.second, .speed = speed_of(ends.first, tally)});
    for (uint32_t i = 0; i < gpu_count(); ++i) {
      links_.to_switch[i] = speed_of(i, to_switch_[i]);
      links_.to_cpu[i] = speed_of(i, to_cpu_[i]);
    }
    if (std::ranges::any_of(box_.gpus, [](const auto& gpu) { return !gpu.rows.empty() && gpu.link.assumed; }) &&
        model_ == nullptr && !options_.nvlink) {
      notes_.push_back("every NVLink is taken as " + link_of(0).rate.to_string() +
                       " each way, which is right for V100, A100, H100 and H200 only; say which GPU it is, as in --gpu "
                       "b200, or how fast a link is, as in --nvlink 14GB/s");
    }
  }

  // As NCCL does: a row is a link of the GPU it stands at, so a direct link appears at both ends and a row that is
  // missing is a direction that is missing. The way back from a switch or CPU is not written and is as fast.
  void read_row(uint32_t gpu, const LinkRow& row) {
    if (row.rate != Bandwidth() && options_.nvlink) {
      throw bad("the file says itself how fast its NVLinks are; leave --nvlink out", row.line);
    }
    const uint32_t peer = gpu_at(box_.gpus[gpu].host, row);
    if (peer == gpu) throw bad("gpu " + row.busid + " has a link to itself; remove the row", row.line);
    if (peer != NcclBox::kNone) {
      direct_[{gpu, peer}].add(row);
    } else if (row.kind == LinkRow::Target::nvswitch) {
      to_switch_[gpu].add(row);
    } else if (row.kind == LinkRow::Target::cpu) {
      to_cpu_[gpu].add(row);
    } else if (row.kind == LinkRow::Target::unknown) {
      throw bad("link target " + row.busid + " is no GPU of this file, and there is no tclass that says what it is",
                row.line);
    }
    // Else it leads to a GPU that the file leaves out, as dumps of jobs on part of a box do: no one's link.
  }

  // Which GPU a busid means. The targets of links are written without the host, so it is the row's own.
  uint32_t gpu_at(uint32_t host, const LinkRow& row) const {
    const auto [begin, end] = gpu_by_busid_.equal_range({host, row.busid});
    if (begin == end) return NcclBox::kNone;
    if (std::next(begin) != end) {
      throw bad("link target " + row.busid + " is ambiguous: several GPUs share this PCI device", row.line);
    }
    return begin->second;
  }

  uint64_t direct_links_of(uint32_t gpu) const {
    uint64_t sum = 0;
    for (auto at = direct_.lower_bound({gpu, 0}); at != direct_.end() && at->first.first == gpu; ++at)
      sum += at->second.count;
    return sum;
  }
  uint64_t largest_row_of(uint32_t gpu) const {
    uint64_t largest = 0;
    for (auto at = direct_.lower_bound({gpu, 0}); at != direct_.end() && at->first.first == gpu; ++at)
      largest = std::max(largest, at->second.count);
    return largest;
  }

  // All the links of a GPU behind NVSwitches, where the device table knows one with as many.
  static uint64_t links_by_largest(uint64_t largest) {
    const bool is_known = std::ranges::any_of(gpu_models(), [&](const GpuModel& model) {
      return model.wiring == GpuWiring::nvswitch && model.links == largest;
    });
    return is_known ? largest : kMostNvlinks;
  }

  void find_nvswitch() {
    DisjointSets<> joined(gpu_count());  // by NVLinks
    for (const auto& [ends, tally] : direct_) joined.join(ends.first, ends.second);
    std::map<uint32_t, std::vector<uint32_t>> groups;
    for (uint32_t i = 0; i < gpu_count(); ++i) groups[joined.find(i)].push_back(i);
    for (const auto& [first, members] : groups) {
      if (members.size() > 1) place_group(members);
    }
  }

  void place_group(const std::vector<uint32_t>& members) {
    uint64_t largest = 0, most = 0;
    for (const uint32_t gpu : members) {
      largest = std::max(largest, largest_row_of(gpu));
      most = std::max(most, direct_links_of(gpu));
    }
    const uint64_t has = model_ != nullptr ? model_->links : links_by_largest(largest);
    const bool leaves_box = model_ != nullptr && model_->nvlink_domain > 0;
    if (most <= has && !leaves_box) {
      notes_.push_back("NVLinks join " + names_of(members) + " directly");
      return;
    }
    for (const uint32_t gpu : members) to_switch_[gpu].count += largest_row_of(gpu);
    std::erase_if(direct_, [&](const auto& each) { return std::ranges::binary_search(members, each.first.first); });
    if (most <= has) return;
    notes_.push_back(
        "all NVLinks of " + names_of(members) +
        " go to NVSwitches: to each other they would need more links than the " + std::to_string(has) + " of a GPU" +
        (model_ == nullptr && has < kMostNvlinks
             ? "; a GPU with NV" + std::to_string(largest) + " is taken to have no more links: if it has " +
                   std::to_string(kMostNvlinks) + ", as four H100 that are joined directly have, say --gpu h100"
             : ""));
  }

  static std::string names_of(const std::vector<uint32_t>& members) {
    std::string names = name(members.front());
    const bool is_run = members.back() - members.front() + 1 == members.size();
    if (is_run) return names + (members.size() > 2 ? "-" : ", ") + name(members.back());
    for (size_t i = 1; i < members.size(); ++i) names += ", " + name(members[i]);
    return names;
  }

  void expect_as_many(uint32_t gpu) const {
    const uint64_t count = direct_links_of(gpu) + to_switch_[gpu].count + to_cpu_[gpu].count;
    const uint64_t most = model_ != nullptr ? model_->links : box_.gpus[gpu].most_links;
    const size_t line = box_.gpus[gpu].rows.empty() ? 0 : box_.gpus[gpu].rows.front().line;
    const std::string whose = model_ != nullptr ? option() + " has " : "GPUs of its kind have ";
    if (most > 0 && count > most) {
      throw bad(name(gpu) + " has " + plural(count, "link") + " in this file, but " + whose + std::to_string(most),
                line);
    }
    uint64_t rate = to_switch_[gpu].rate + to_cpu_[gpu].rate;
    for (auto at = direct_.lower_bound({gpu, 0}); at != direct_.end() && at->first.first == gpu; ++at)
      rate += at->second.rate;
    if (model_ != nullptr && rate > model_->all_links().bytes_per_second()) {
      throw bad(name(gpu) + " has links of " + Bandwidth::bytes_per_second(rate).to_string() + " in this file, but " +
                    whose + model_->all_links().to_string(),
                line);
    }
  }

  void take_model(const GpuModel& model) {
    const auto count = static_cast<uint32_t>(gpu_count());
    if (model.wiring == GpuWiring::bridge) {
      throw bad(option() +
                ": bridges join some GPUs of this kind, and the file does not say which; say --gpu pcie, or "
                "give the table of nvidia-smi topo -m");
    }
    if (model.box != 0 && count != model.box) {
      throw bad(option() + " is known in boxes of " + std::to_string(model.box) + " GPUs, but the file has " +
                std::to_string(count));
    }
    for (uint32_t i = 0; i < count && model.wiring == GpuWiring::nvswitch; ++i) {
      links_.to_switch[i] = speed_of(i, {.count = model.links});
    }
    const auto join = [&](uint32_t a, uint32_t b, uint64_t links) {
      direct_[{a, b}].count += links;
      direct_[{b, a}].count += links;
    };
    for (uint32_t i = 0; i < count && model.wiring == GpuWiring::all_to_all; ++i) {
      for (uint32_t j = i + 1; j < count; ++j) join(i, j, 1);
    }
    for (const GpuCable& cable : model.mesh) join(cable.a, cable.b, cable.links);
    for (const auto& [ends, tally] : direct_)
      links_.direct.push_back({.from = ends.first, .to = ends.second, .speed = speed_of(ends.first, tally)});
  }

  const NcclBox& box_;
  const BoxOptions& options_;
  const GpuModel* const model_;
  std::vector<std::string>& notes_;
  std::multimap<std::pair<uint32_t, std::string>, uint32_t> gpu_by_busid_;
  std::map<std::pair<uint32_t, uint32_t>, LinkTally> direct_;
  std::vector<LinkTally> to_switch_, to_cpu_;
  GpuLinks links_;
};

}  // namespace

std::optional<GpuLinks::Pair> GpuLinks::first_pair(bool joined) const {
  std::set<Pair> one_way;
  for (const Direct& link : direct) one_way.emplace(link.from, link.to);
  for (uint32_t i = 0; i < to_switch.size(); ++i) {
    for (uint32_t j = i + 1; j < to_switch.size(); ++j) {
      const bool by_switch = to_switch[i].rate != Bandwidth() && to_switch[j].rate != Bandwidth();
      if ((by_switch || (one_way.contains({i, j}) && one_way.contains({j, i}))) == joined) return Pair{i, j};
    }
  }
  return std::nullopt;
}

GpuLinks links_of_gpus(const NcclBox& box, const BoxOptions& options, const GpuModel* model,
                       std::vector<std::string>& notes) {
  return GpuLinksReader(box, options, model, notes).read();
}

}  // namespace banyan::fabric
