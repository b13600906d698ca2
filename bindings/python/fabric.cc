// banyan._core.Fabric.
#include "banyan/fabric/fabric.h"

#include <pybind11/stl.h>

#include "banyan/fabric/describe.h"
#include "banyan/fabric/generate.h"
#include "banyan/fabric/json.h"
#include "banyan/fabric/read.h"
#include "banyan/picture/picture.h"
#include "bindings/python/values.h"

namespace banyan::python {
namespace {

namespace py = pybind11;
using namespace py::literals;
using fabric::FabricEdit;

// Speeds may be empty.
Fabric load(const std::string& text, uint32_t boxes, const std::string& gpu, const std::string& nic,
            const std::string& nics, const std::string& nvlink, const std::string& cpu_link) {
  const auto speed = [](const std::string& given) {
    return given.empty() ? std::nullopt : std::optional(Bandwidth::parse(given));
  };
  const fabric::FabricSource source{.fabric = text,
                                    .box = {.boxes = boxes,
                                            .gpu = gpu,
                                            .nic = speed(nic),
                                            .nics = nics,
                                            .nvlink = speed(nvlink),
                                            .cpu_link = speed(cpu_link)}};
  return fabric::load_fabric(source);
}

FabricEdit::Kind edit_kind(const std::string& verb) {
  if (verb == "fail") return FabricEdit::Kind::fail;
  if (verb == "in-network") return FabricEdit::Kind::in_network;
  return verb == "degrade" ? FabricEdit::Kind::degrade : FabricEdit::Kind::remove;
}

py::list nodes_of(const Fabric& fabric) {
  return records("Node", fabric.nodes(), [](const py::object& type, const Node& node) {
    return type("name"_a = node.name, "is_rank"_a = node.kind == fabric::NodeKind::rank, "multicast"_a = node.multicast,
                "reduce"_a = node.reduce);
  });
}

py::list links_of(const Fabric& fabric) {
  py::list links;
  for (uint32_t link = 0; link < fabric.links().size(); ++link) links.append(link_record(fabric, LinkId{link}));
  return links;
}

py::list generators() {
  return records("FabricSpec", fabric::fabric_generators(),
                 [](const py::object& type, const fabric::GeneratorHelp& each) {
                   return type("spec"_a = each.spec, "description"_a = each.description);
                 });
}

std::string draw_fabric(const Fabric& fabric, bool as_svg, const std::string& name) {
  return picture::draw_fabric(fabric, as_svg ? picture::Format::svg : picture::Format::dot, name);
}

}  // namespace

void add_fabric(py::module_& module) {
  const auto unlocked = py::call_guard<py::gil_scoped_release>();
  py::class_<Fabric>(module, "Fabric")
      .def_static("load", &load, "text"_a, "boxes"_a, "gpu"_a, "nic"_a, "nics"_a, "nvlink"_a, "cpu_link"_a, unlocked)
      .def_static("parse", &fabric::parse_fabric_json, "json"_a, "where"_a, unlocked)
      .def(
          "edit",
          [](const Fabric& fabric, const std::string& verb, const std::string& text) {
            const FabricEdit edit{.kind = edit_kind(verb), .text = text};
            return fabric::edit_fabric(fabric, {&edit, 1});
          },
          "verb"_a, "text"_a, unlocked)
      .def("nodes", &nodes_of)
      .def("links", &links_of)
      .def("fingerprint", &Fabric::fingerprint)
      .def("describe", &fabric::describe_counts)
      .def("warnings", &fabric::warnings, unlocked)
      .def("to_json", &fabric::format_fabric_json, unlocked)
      .def("draw", &draw_fabric, "as_svg"_a, "name"_a, unlocked);
  module.def("list_fabrics", &generators);
}

}  // namespace banyan::python
