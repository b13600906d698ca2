// FABRIC and the options that go with it on every command that takes one: --fail, --degrade, --remove, --in-network
// (edits, applied in the order given), --boxes, --gpu, --nvlink, --cpu-link, --nic, --nics (for files that describe one
// server).
#pragma once

#include <string>
#include <vector>

#include "apps/syntax.h"
#include "banyan/fabric/read.h"

namespace banyan::app {

class FabricOption {
 public:
  enum class Place { required, optional };
  // `name` is "FABRIC" for a positional, "--fabric" for an option.
  void declare(CommandSyntax& command, const std::string& name, Place place);

  bool given() const { return !text_.empty(); }
  // True if any of the accompanying options was given, which makes no sense without a fabric.
  bool any_edit() const;
  const std::string& text() const { return text_; }  // as the user wrote it, without edits
  // The same with all that makes it another fabric, edits in order: "node.txt --boxes 8 --fail box0/gpu3"; what reports
  // call this fabric. Two fabrics never have one name.
  std::string described() const;
  void set_text(std::string text) { text_ = std::move(text); }

  // Throws Error as load_fabric does, or for a wrong --boxes, --nic, --nvlink or --cpu-link.
  fabric::FabricSource source() const;
  // Assumptions about what a file does not say are appended to `notes`.
  Fabric load(std::vector<std::string>* notes = nullptr) const;

 private:
  struct Edit {
    fabric::FabricEdit::Kind kind;
    const OptionSyntax* option = nullptr;
    std::vector<std::string> texts;
  };

  std::vector<fabric::FabricEdit> edits_in_order() const;

  std::string text_, boxes_, gpu_, nvlink_, cpu_link_, nic_, nics_;
  std::vector<Edit> edits_;
};

}  // namespace banyan::app
