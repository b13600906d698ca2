#include "apps/fabric_option.h"

#include <algorithm>
#include <array>
#include <map>

#include "apps/command.h"
#include "apps/lists.h"
#include "apps/report.h"
#include "banyan/base/utf8.h"

namespace banyan::app {
namespace {

constexpr uint64_t kMaxBoxes = 100'000;

}  // namespace

void FabricOption::declare(CommandSyntax& command, const std::string& name, Place place) {
  const std::string help =
      "a file (JSON, text, NCCL or hwloc XML, nvidia-smi topo -m, ibnetdiscover, Slurm's topology.conf) or a spec such "
      "as dgx-h100:8; 'banyan fabric --list' shows all specs";
  OptionSyntax& fabric =
      name.starts_with("-") ? command.option(name, &text_, "FABRIC", help) : command.word(name, &text_, help);
  fabric.is_required = place == Place::required;
  fabric.values = fabric_specs();
  fabric.paths = OptionSyntax::Paths::files;
  command.group("Edits of the fabric (repeatable, applied in the order given)");
  edits_ = {{fabric::FabricEdit::Kind::fail, nullptr, {}},
            {fabric::FabricEdit::Kind::degrade, nullptr, {}},
            {fabric::FabricEdit::Kind::remove, nullptr, {}},
            {fabric::FabricEdit::Kind::in_network, nullptr, {}}};
  const auto add_edit = [&](Edit& edit, const char* option, const char* placeholder, const char* text) {
    edit.option = &command.option(option, &edit.texts, placeholder, text);
  };
  add_edit(edits_[0], "--fail", "A-B|A", "cut the links between two nodes, or all links of one");
  add_edit(edits_[1], "--degrade", "A-B=BANDWIDTH", "set the bandwidth of the links between two nodes");
  add_edit(edits_[2], "--remove", "NODES", "remove a node and its links, or several: 'n[01-16],login', 'n*'");
  add_edit(edits_[3], "--in-network", "SWITCH[=multicast|reduce|none]",
           "let a switch multicast and reduce, or one of both; 'nvsw*' for all that begin so");
  command.group("Files that describe one server (NCCL or hwloc XML, nvidia-smi topo -m)");
  command.option("--boxes", &boxes_, "N", "join N such boxes by one switch");
  command.option("--gpu", &gpu_, "NAME", "the GPU whose links a skeleton file leaves out, such as h100").values =
      nccl_gpus();
  command.option("--nvlink", &nvlink_, "BANDWIDTH", "the speed of one NVLink or xGMI link each way, such as 14GB/s");
  command.option("--cpu-link", &cpu_link_, "BANDWIDTH",
                 "the speed of the links between CPUs each way, such as 64GB/s; else it is assumed");
  command.option("--nic", &nic_, "BANDWIDTH", "the speed of each NIC that the file leaves out, such as 400Gb/s");
  command.option("--nics", &nics_, "NAMES",
                 "the NICs that join boxes, such as NIC0,NIC1, or all but ^NIC2 (default: those nearest to some GPU)");
  command.group("Options");
}

bool FabricOption::any_edit() const {
  const auto given = [](const std::string* text) { return !text->empty(); };
  return std::ranges::any_of(std::array{&boxes_, &gpu_, &nvlink_, &cpu_link_, &nic_, &nics_}, given) ||
         std::any_of(edits_.begin(), edits_.end(), [](const Edit& edit) { return !edit.texts.empty(); });
}

std::vector<fabric::FabricEdit> FabricOption::edits_in_order() const {
  std::map<size_t, fabric::FabricEdit> by_place;
  for (const Edit& edit : edits_) {
    for (size_t i = 0; i < edit.texts.size(); ++i) {
      by_place[edit.option->places.at(i)] = {.kind = edit.kind, .text = edit.texts[i]};
    }
  }
  std::vector<fabric::FabricEdit> ordered;
  for (auto& [place, edit] : by_place) ordered.push_back(std::move(edit));
  return ordered;
}

std::string FabricOption::described() const {
  std::string text = text_;
  for (const auto& [option, value] : {std::pair("--boxes", &boxes_),
                                      {"--gpu", &gpu_},
                                      {"--nic", &nic_},
                                      {"--nics", &nics_},
                                      {"--nvlink", &nvlink_},
                                      {"--cpu-link", &cpu_link_}}) {
    if (!value->empty()) text += " " + std::string(option) + " " + *value;
  }
  for (const fabric::FabricEdit& edit : edits_in_order()) {
    for (const Edit& known : edits_) {
      if (known.kind == edit.kind) text += " " + known.option->name() + " " + edit.text;
    }
  }
  return harmless(text);
}

fabric::FabricSource FabricOption::source() const {
  fabric::FabricSource source{.fabric = text_, .edits = edits_in_order(), .box = {.gpu = gpu_, .nics = nics_}};
  if (!boxes_.empty()) source.box.boxes = static_cast<uint32_t>(parse_count(boxes_, "--boxes", {.most = kMaxBoxes}));
  const auto set = [](std::optional<Bandwidth>& bandwidth, const char* option, const std::string& text) {
    if (!text.empty()) bandwidth = parse_option(option, [&] { return Bandwidth::parse(text); });
  };
  set(source.box.nic, "--nic", nic_);
  set(source.box.nvlink, "--nvlink", nvlink_);
  set(source.box.cpu_link, "--cpu-link", cpu_link_);
  return source;
}

Fabric FabricOption::load(std::vector<std::string>* notes) const { return fabric::load_fabric(source(), notes); }

}  // namespace banyan::app
