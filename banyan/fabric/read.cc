#include "banyan/fabric/read.h"

#include <filesystem>
#include <string_view>

#include "banyan/base/error.h"
#include "banyan/base/file.h"
#include "banyan/base/nearest.h"
#include "banyan/fabric/generate.h"
#include "banyan/fabric/json.h"
#include "banyan/fabric/nccl_xml.h"
#include "banyan/fabric/text.h"

namespace banyan::fabric {
namespace {

enum class Format : uint8_t { json, xml, text };

// Told by the first character that is neither space nor the mark that some editors put in front of UTF-8.
Format format_of(std::string_view contents, const std::string& path) {
  if (contents.starts_with("\xef\xbb\xbf")) contents.remove_prefix(3);
  const size_t first = contents.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) throw Error(ErrorCode::invalid_input, "is empty", path);
  switch (contents[first]) {
    case '{':
    case '[':
      return Format::json;
    case '<':
      return contents.substr(first).starts_with("<->") ? Format::text : Format::xml;
    default:
      return Format::text;
  }
}

// Everything but XML says by itself how many boxes there are and how fast its links are.
void refuse_xml_options(const FabricSource& source) {
  const char* option = source.boxes != 1 ? "--boxes" : !source.gpu.empty() ? "--gpu" : source.nic ? "--nic" : nullptr;
  if (option == nullptr) return;
  throw Error(ErrorCode::invalid_input,
              std::string(option) + " is for NCCL topology XML only, and this is none; leave it out",
              source.fabric.substr(0, 200));
}

// A file that is not there was perhaps meant to be a spec.
Error no_such_fabric(const std::string& fabric) {
  const std::string_view name = std::string_view(fabric).substr(0, fabric.find(':'));
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

Fabric read_fabric_file(const FabricSource& source) {
  const std::string& path = source.fabric;
  const std::string contents = read_file(path, FabricSource::kMaxFileBytes);
  const Format format = format_of(contents, path);
  if (format == Format::xml) {
    return parse_nccl_xml(contents, {.boxes = source.boxes, .gpu = source.gpu, .nic = source.nic}, path);
  }
  refuse_xml_options(source);
  return format == Format::json ? parse_fabric_json(contents, path) : parse_fabric_text(contents, path);
}

Fabric load_unedited(const FabricSource& source) {
  const std::string& fabric = source.fabric;
  if (fabric.empty())
    throw Error(ErrorCode::invalid_input, "the fabric's name is empty; give a file or a spec such as dgx-h100:8");
  if (exists(fabric)) return read_fabric_file(source);
  if (fabric.find("->") != std::string::npos) {
    refuse_xml_options(source);
    return parse_fabric_text(fabric);
  }
  if (is_fabric_spec(fabric)) {
    refuse_xml_options(source);
    return generate_fabric(fabric);
  }
  throw no_such_fabric(fabric);
}

}  // namespace

Fabric load_fabric(const FabricSource& source) {
  const Fabric fabric = load_unedited(source);
  try {
    return edit_fabric(fabric, source.edits);
  } catch (const Error& error) {
    throw error.within(source.fabric.substr(0, 200));
  }
}

}  // namespace banyan::fabric
