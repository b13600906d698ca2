// The values that the module exchanges with Python: those of Banyan as objects, and those that Python gives.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/answer/predicted_plans.h"
#include "banyan/base/error.h"
#include "banyan/plan/bound/bound.h"
#include "banyan/predict/report/report_input.h"
#include "banyan/schedule/schedule_file.h"

namespace banyan::python {

// A fractions.Fraction of the same value.
pybind11::object to_python(const Fraction& fraction);
// Seconds.
double to_seconds(Picoseconds time);
std::optional<double> to_seconds(const std::optional<Picoseconds>& time);

// The NamedTuple banyan.NAME, to be called with its fields by name.
pybind11::object record(const char* name);

// The list of make(type, item) for each item, where the type is banyan.NAME.
template <typename Items, typename Make>
pybind11::list records(const char* name, const Items& items, Make make) {
  const pybind11::object type = record(name);
  pybind11::list made;
  for (const auto& item : items) made.append(make(type, item));
  return made;
}

// The report of a prediction; those of plans and of jobs have it in common.
struct Predicted {
  predict::ReportInput report;
};

// banyan.Link of a link of the fabric.
pybind11::object link_record(const Fabric& fabric, LinkId link);

// A plan whose schedule is shared with the predictions made of it.
struct SharedPlan {
  std::shared_ptr<const schedule::ScheduleFile> file;
  std::shared_ptr<const Bound> bound;  // null where nobody has computed it

  const Schedule& schedule() const { return file->schedule; }
  const Fabric& fabric() const { return file->schedule.fabric(); }
  const Collective& collective() const { return file->schedule.collective(); }
  answer::NamedPlan named(std::string name) const { return {std::move(name), {file, &file->schedule}}; }
};

// A collective as Python gives it: its ranks, as a text ("0-3,8") or as names, the root and the rest. Fields that were
// not given are empty.
struct CollectiveWords {
  std::string kind;
  std::string ranks_text;
  std::vector<std::string> ranks;
  std::string root;
  std::vector<uint64_t> weights;
  std::vector<uint64_t> traffic;  // one row per sender

  // Throws Error that names the argument which is wrong.
  Collective on(const Fabric& fabric) const;
};

// Errors of Banyan are raised as banyan.Error.
void translate_errors();

void add_fabric(pybind11::module_& module);
void add_plan(pybind11::module_& module);
void add_prediction(pybind11::module_& module);
void add_jobs(pybind11::module_& module);

}  // namespace banyan::python
