// The Python module banyan._core. Users see the package's Python files, which make objects of what this hands them.
#include "bindings/python/values.h"

PYBIND11_MODULE(_core, module) {
  module.doc() = "The inside of banyan.";
  module.attr("__version__") = BANYAN_VERSION;
  banyan::python::translate_errors();
  banyan::python::add_fabric(module);
  banyan::python::add_plan(module);
  banyan::python::add_prediction(module);
  banyan::python::add_jobs(module);
}
