#include "apps/lists.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/report.h"
#include "banyan/base/check.h"
#include "banyan/base/collective_kind.h"
#include "banyan/compose/settings.h"
#include "banyan/element/data_type.h"
#include "banyan/fabric/device_table.h"
#include "banyan/fabric/generate.h"
#include "banyan/plan/planner.h"
#include "banyan/predict/cost/devices.h"
#include "banyan/predict/train/model.h"
#include "banyan/tensor/tensor_report.h"

namespace banyan::app {
namespace {

template <typename Rows, typename Name>
std::vector<std::string> names_of(const Rows& rows, Name name) {
  std::vector<std::string> names;
  for (const auto& row : rows) names.emplace_back(name(row));
  return names;
}

template <typename Value>
std::vector<std::string> names_up_to(size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.emplace_back(to_string(static_cast<Value>(i)));
  return names;
}

}  // namespace

std::vector<std::string> planned_collectives() {
  std::vector<std::string> names;
  for (const CollectiveTraits& each : kCollectives) {
    if (each.is_planned) names.emplace_back(each.name);
  }
  return names;
}

std::vector<std::string> element_types() { return names_up_to<element::DataType>(element::kDataTypes); }

std::vector<std::string> reductions() { return names_up_to<element::ReduceOp>(element::kReduceOps); }

std::vector<std::string> codec_names() {
  std::vector<std::string> names;
  for (const codec::Codec& codec : tensor::every_codec()) names.push_back(to_string(codec));
  return names;
}

std::vector<std::string> fabric_specs() {
  return names_of(fabric::fabric_generators(),
                  // "torus:", to go on; "diamond", which has no arguments
                  [](const auto& each) {
                    const size_t end = each.spec.find_first_of(":[");
                    return each.spec.substr(0, each.spec[end] == ':' ? end + 1 : end);
                  });
}

std::vector<std::string> nccl_gpus() {
  return names_of(fabric::gpu_models(), [](const auto& each) { return each.name; });
}

std::vector<Meaning> runtime_variables() {
  std::vector<Meaning> all;
  for (const compose::Variable& each : compose::variables())
    all.push_back({std::string(each.name), std::string(each.meaning)});
  return all;
}

Meaning runtime_variable(std::string_view name) {
  const std::vector<Meaning> all = runtime_variables();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Meaning& each) { return each.name == name; });
  CHECK(found != all.end()) << "no variable " << name;
  return *found;
}

namespace {

struct Listed {
  Json object = Json::object();
  std::string text;
};

Listed models_and_devices(const Terminal& terminal) {
  Json models = Json::array(), devices = Json::array();
  Table model_table({"model", "parameters", "layers", "hidden", "experts"});
  for (const predict::TrainModel& model : predict::train_models()) {
    models.push_back({{"name", model.name},
                      {"parameters", static_cast<uint64_t>(model.parameters())},
                      {"layers", model.layers},
                      {"hidden", model.hidden},
                      {"experts", model.experts},
                      {"source", model.source}});
    model_table.add({model.name, format_decimals(model.parameters() * 1e-9, 1) + " billion",
                     std::to_string(model.layers), std::to_string(model.hidden), std::to_string(model.experts)});
  }
  Table device_table({"device", "memory", "memory bandwidth"});
  for (const predict::Device& device : predict::DeviceTable::builtin().devices()) {
    devices.push_back({{"name", device.name},
                       {"memory_bytes", device.memory.count()},
                       {"memory_bytes_per_second", device.memory_bandwidth.bytes_per_second()}});
    device_table.add({device.name, device.memory.to_string(), device.memory_bandwidth.to_string()});
  }
  return {.object = {{"models", models}, {"devices", devices}},
          .text = model_table.format(terminal) + "\n" + device_table.format(terminal)};
}

Listed all_planners(const Terminal& terminal) {
  Json names = Json::array();
  Table table({"planner", ""});
  for (const plan::Planner& planner : plan::planners()) {
    names.push_back(planner.name);
    table.add({std::string(planner.name), std::string(planner.summary)});
  }
  return {.object = {{"planners", names}}, .text = table.format(terminal)};
}

std::string in_form(const Listed& listed, ListForm form) {
  return form == ListForm::json ? format_json(listed.object) : listed.text;
}

}  // namespace

std::string list_models_and_devices(const Terminal& terminal, ListForm form) {
  return in_form(models_and_devices(terminal), form);
}

std::string list_planners(const Terminal& terminal, ListForm form) { return in_form(all_planners(terminal), form); }

std::string list_predictable(const Terminal& terminal, ListForm form) {
  Listed listed = models_and_devices(terminal), planners = all_planners(terminal);
  listed.object.update(planners.object);
  listed.text += "\n" + planners.text;
  return in_form(listed, form);
}

}  // namespace banyan::app
