// The Python module banyan_torch._C. What users see is in banyan_torch/__init__.py.
#include <pybind11/chrono.h>
#include <pybind11/stl.h>
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/pybind.h>

#include <string>

#include "banyan/compose/settings.h"
#include "banyan/element/isa.h"
#include "banyan/run/system/cores.h"
#include "banyan/run/transport/ucx/transport.h"
#include "bindings/torch/compression.h"
#include "bindings/torch/errors.h"
#include "bindings/torch/marks.h"
#include "bindings/torch/process_group.h"
#include "bindings/torch/shared_allocator.h"

namespace banyan::pytorch {
namespace {

namespace py = pybind11;

template <typename T>
void set(std::optional<T>& field, const py::dict& fields, const char* name) {
  if (fields.contains(name) && !fields[name].is_none()) field = fields[name].cast<T>();
}

compose::Settings settings_from(const py::dict& fields) {
  compose::Settings settings;
  settings.where = "Options.";
  settings.progress = run::Communicator::Progress::soon;
  set(settings.timeout, fields, "timeout");
  set(settings.join_timeout, fields, "join_timeout");
  set(settings.transport, fields, "transport");
  set(settings.fabric, fields, "fabric");
  set(settings.plan, fields, "plan");
  set(settings.routes, fields, "routes");
  set(settings.checksums, fields, "checksums");
  set(settings.zero_copy, fields, "zero_copy");
  set(settings.connections, fields, "connections");
  set(settings.encryption, fields, "encryption");
  return settings;
}

using Group = c10::intrusive_ptr<BackendBase>;

ProcessGroupBanyan& banyan_group(const Group& group) {
  auto* const found = dynamic_cast<ProcessGroupBanyan*>(group.get());
  if (found == nullptr) throw py::value_error("this group's backend is not banyan");
  return *found;
}

Group create(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, const std::string& name,
             const std::vector<int64_t>& global_ranks, const py::dict& fields) {
  compose::Settings settings = settings_from(fields);
  settings.name = name;
  const py::gil_scoped_release release;
  return ProcessGroupBanyan::create(store, {.rank = rank, .size = size, .name = name, .global_ranks = global_ranks},
                                    settings);
}

std::shared_ptr<Compression> compression_of(const Group& group, const std::string& scheme,
                                            const std::map<std::string, double>& options, bool keeps_residuals,
                                            const std::vector<std::pair<std::string, at::Tensor>>& parameters) {
  std::vector<NamedParameter> named;
  for (const auto& [name, tensor] : parameters) named.push_back({.name = name, .tensor = tensor});
  banyan_group(group);  // or it throws
  try {
    const py::gil_scoped_release release;
    return std::make_shared<Compression>(c10::static_intrusive_pointer_cast<ProcessGroupBanyan>(group), scheme, options,
                                         keeps_residuals, std::move(named));
  } catch (const c10::Error& error) {
    throw py::value_error(error.what_without_backtrace());
  }
}

void add_compression(py::module_& module) {
  using Release = py::call_guard<py::gil_scoped_release>;
  py::class_<Compression, std::shared_ptr<Compression>>(module, "Compression")
      .def(py::init(&compression_of), py::arg("group"), py::arg("scheme"), py::arg("options"),
           py::arg("keeps_residuals"), py::arg("parameters"))
      .def_property_readonly("scheme", &Compression::scheme)
      .def_property_readonly("keeps_residuals", &Compression::keeps_residuals)
      .def(
          "average",
          [](Compression& self, c10d::GradBucket& bucket) {
            return std::make_shared<torch::jit::PythonFutureWrapper>(self.average(bucket));
          },
          Release())
      .def(
          "average_of",
          [](Compression& self, const at::Tensor& buffer, const std::vector<at::Tensor>& parameters) {
            return std::make_shared<torch::jit::PythonFutureWrapper>(self.average_of(buffer, parameters));
          },
          Release())
      .def("install", [](Compression& self, const std::shared_ptr<c10d::Reducer>& reducer) { self.install(*reducer); })
      .def("state", &Compression::state, Release())
      .def("set_state", &Compression::set_state, Release())
      .def("residual_norms", &Compression::residual_norms, Release())
      .def("scale", &Compression::scale, Release())
      .def("report", &Compression::report, Release());
}

void add_survivors(py::module_& module) {
  using Release = py::call_guard<py::gil_scoped_release>;
  py::class_<Survivors>(module, "Survivors")
      .def_property_readonly("rank", &Survivors::rank)
      .def_property_readonly("size", &Survivors::size)
      .def_property_readonly("ranks", &Survivors::ranks)
      .def_property_readonly("lost", &Survivors::lost)
      .def("own_address", &Survivors::own_address)
      .def("spread", &Survivors::spread, Release());
  module.def(
      "survivors",
      [](const Group& group, double seconds) {
        return banyan_group(group).survivors(compose::milliseconds_of(seconds, "timeout"));
      },
      py::arg("group"), py::arg("seconds"), Release());
}

}  // namespace

PYBIND11_MODULE(_C, module) {
  module.doc() = "The inside of banyan_torch.";
  py::module_::import("torch._C._distributed_c10d");  // knows the classes of groups and stores

  pass_marked_tensors_on();
  add_error_classes(module);

  // Groups reach Python as objects of the base class, which lets go of the interpreter's lock when it destroys them.
  module.def(
      "abort", [](const Group& group, const std::string& why) { banyan_group(group).abort(why); }, py::arg("group"),
      py::arg("why"), py::call_guard<py::gil_scoped_release>());
  module.def("is_banyan", [](const Group& group) { return dynamic_cast<ProcessGroupBanyan*>(group.get()) != nullptr; });
  module.def("error", [](const Group& group) { return banyan_group(group).error(); });
  module.def("is_on_one_host", [](const Group& group) { return banyan_group(group).is_on_one_host(); });
  module.def("reroutes", [](const Group& group) { return banyan_group(group).reroutes(); });
  module.def("create", &create, py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("name"),
             py::arg("global_ranks"), py::arg("options"));
  module.def("finish_all_groups", &finish_all_groups, py::call_guard<py::gil_scoped_release>());

  module.def("use_shared_memory", &SharedAllocator::use, py::arg("use"));
  module.def("uses_shared_memory", &SharedAllocator::is_used);
  module.def("trim_shared_memory", &SharedAllocator::trim, py::call_guard<py::gil_scoped_release>());
  module.def("shared_memory_usage", [] {
    const SharedAllocator::Usage usage = SharedAllocator::usage();
    return py::make_tuple(usage.used_bytes, usage.kept_bytes);
  });

  add_survivors(module);
  add_compression(module);

  module.attr("version") = BANYAN_VERSION;
  module.attr("torch_version") = TORCH_VERSION;
  // Names, and why each is missing here or "".
  module.def("transports", [] {
    return std::vector<std::pair<std::string, std::string>>{
        {"shared memory", ""}, {"TCP", ""}, {"UCX", run::ucx::why_unavailable()}};
  });
  module.def("processor", [] { return std::string(to_string(element::active_isa())); });
}

}  // namespace banyan::pytorch
