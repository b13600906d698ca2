#include "apps/fabric_option.h"

#include <algorithm>
#include <map>

#include "apps/command.h"

namespace banyan::app {
namespace {

constexpr uint64_t kMaxBoxes = 100'000;

}  // namespace

void FabricOption::declare(CLI::App& command, const std::string& name, Place place) {
  command_ = &command;
  CLI::Option* fabric = command.add_option(
      name, text_, "a file (JSON, text, NCCL topology XML) or a spec such as dgx-h100:8;\nsee 'banyan fabric --list'");
  fabric->type_name(name.starts_with("-") ? "FABRIC" : "");
  if (place == Place::required) fabric->required();

  edits_ = {{FabricEdit::Kind::fail, nullptr, {}},
            {FabricEdit::Kind::degrade, nullptr, {}},
            {FabricEdit::Kind::remove, nullptr, {}}};
  const auto add_edit = [&](Edit& edit, const char* option, const char* type, const char* help) {
    // One value each, or a repeatable option would swallow the positionals after it.
    edit.option = command.add_option(option, edit.texts, help)
                      ->type_name(type)
                      ->allow_extra_args(false)
                      ->group("Edits of the fabric (repeatable, applied in order)");
  };
  add_edit(edits_[0], "--fail", "A-B|A", "cut the links between two nodes, or all links of one");
  add_edit(edits_[1], "--degrade", "A-B=BANDWIDTH", "set the bandwidth of the links between two nodes");
  add_edit(edits_[2], "--remove", "NODE", "take a node out, with its links");

  const auto add_xml = [&](const char* option, std::string& value, const char* type, const char* help) {
    command.add_option(option, value, help)->type_name(type)->group("NCCL topology files");
  };
  add_xml("--boxes", boxes_, "N", "join N such boxes by one switch");
  add_xml("--gpu", gpu_, "NAME", "the GPU whose links a skeleton file leaves out, such as h100");
  add_xml("--nic", nic_, "BANDWIDTH", "the speed of each NIC that the file leaves out, such as 400Gb/s");
}

bool FabricOption::any_edit() const {
  return !boxes_.empty() || !gpu_.empty() || !nic_.empty() ||
         std::any_of(edits_.begin(), edits_.end(), [](const Edit& edit) { return !edit.texts.empty(); });
}

// CLI11 keeps the values per option; the order across options is in parse_order, one entry per occurrence.
std::vector<FabricEdit> FabricOption::edits_in_order() const {
  std::vector<FabricEdit> ordered;
  std::map<const Edit*, size_t> taken;
  for (const CLI::Option* option : command_->parse_order()) {
    for (const Edit& edit : edits_) {
      if (edit.option != option) continue;
      size_t& next = taken[&edit];
      if (next < edit.texts.size()) ordered.push_back({.kind = edit.kind, .text = edit.texts[next++]});
    }
  }
  return ordered;
}

std::string FabricOption::described() const {
  std::string text = text_;
  for (const FabricEdit& edit : edits_in_order()) {
    for (const Edit& known : edits_) {
      if (known.kind == edit.kind) text += " " + known.option->get_name() + " " + edit.text;
    }
  }
  return text;
}

FabricSource FabricOption::source() const {
  FabricSource source{.fabric = text_, .edits = edits_in_order(), .gpu = gpu_};
  if (!boxes_.empty()) source.boxes = static_cast<uint32_t>(parse_count(boxes_, "--boxes", {.most = kMaxBoxes}));
  if (!nic_.empty()) source.nic = parse_option("--nic", [&] { return Bandwidth::parse(nic_); });
  return source;
}

Fabric FabricOption::load() const { return load_fabric(source()); }

}  // namespace banyan::app
