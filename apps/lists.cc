#include "apps/lists.h"

#include <nlohmann/json.hpp>

#include "apps/report.h"
#include "banyan/plan/planner.h"
#include "banyan/predict/cost/devices.h"
#include "banyan/predict/train/model.h"

namespace banyan::app {

std::string list_models_and_devices(const Terminal& terminal, ListForm form) {
  Json models = Json::array(), devices = Json::array();
  Table model_table({"model", "parameters", "layers", "hidden", "experts"});
  for (const predict::TrainModel& model : predict::train_models()) {
    models.push_back({{"name", model.name},
                      {"parameters", model.parameters()},
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
                       {"memory", device.memory.count()},
                       {"memory_bytes_per_second", device.memory_bandwidth.bytes_per_second()}});
    device_table.add({device.name, device.memory.to_string(), device.memory_bandwidth.to_string()});
  }
  if (form == ListForm::json) return format_json({{"models", models}, {"devices", devices}});
  return model_table.format(terminal) + "\n" + device_table.format(terminal);
}

std::string list_planners(const Terminal& terminal, ListForm form) {
  Json names = Json::array();
  Table table({"planner", ""});
  for (const plan::Planner& planner : plan::planners()) {
    names.push_back(planner.name);
    table.add({std::string(planner.name), std::string(planner.summary)});
  }
  return form == ListForm::json ? format_json({{"planners", names}}) : table.format(terminal);
}

}  // namespace banyan::app
