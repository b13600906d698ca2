#include "bindings/python/values.h"

#include "banyan/base/error_names.h"
#include "banyan/fabric/rank_names.h"

namespace banyan::python {

namespace py = pybind11;
using namespace py::literals;

py::object to_python(const Fraction& fraction) {
  return py::module_::import("fractions").attr("Fraction")(fraction.to_string());
}

double to_seconds(Picoseconds time) { return std::chrono::duration<double>(time).count(); }

std::optional<double> to_seconds(const std::optional<Picoseconds>& time) {
  return time ? std::optional(to_seconds(*time)) : std::nullopt;
}

py::object record(const char* name) { return py::module_::import("banyan").attr(name); }

py::object link_record(const Fabric& fabric, LinkId id) {
  const Link& link = fabric.link(id);
  return record("Link")("source"_a = fabric.name(link.from), "target"_a = fabric.name(link.to),
                        "bandwidth"_a = link.bandwidth.bytes_per_second(), "latency"_a = to_seconds(link.latency),
                        "loss"_a = link.loss, "assumed"_a = link.assumed);
}

Collective CollectiveWords::on(const Fabric& fabric) const {
  Collective::Options options{.kind = parse_collective_kind(kind, is_planned), .weights = weights, .traffic = traffic};
  if (!ranks_text.empty()) options.ranks = fabric::parse_ranks(ranks_text, fabric, "ranks");
  for (const std::string& name : ranks) options.ranks.push_back(fabric::parse_rank(name, fabric, "ranks"));
  if (!root.empty()) options.root = fabric::parse_rank(root, fabric, "root");
  return Collective::make(fabric, options);
}

void translate_errors() {
  py::register_exception_translator([](std::exception_ptr exception) {
    try {
      if (exception) std::rethrow_exception(exception);
    } catch (const Error& error) {
      const py::object type = py::module_::import("banyan._error").attr("Error");
      const py::object made = type(name_of(error.code()), error.message(), error.where());
      PyErr_SetObject(type.ptr(), made.ptr());
    }
  });
}

}  // namespace banyan::python
