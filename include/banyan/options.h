// Options: how a communicator is made. Included by communicator.h; banyan.h says what each option means.
#pragma once

#include <banyan/cxx20.h>
#ifdef BANYAN_CXX20

#include <banyan/banyan.h>

#include <chrono>
#include <optional>
#include <stop_token>
#include <string>

namespace banyan {
inline namespace v0 {

// The options of a new communicator. Those that are left out come from the environment (banyan.h), else from defaults.
struct Options {
  std::string name = {};                          // in messages and flight records
  std::chrono::duration<double> timeout{0};       // for an operation to make no progress
  std::chrono::duration<double> join_timeout{0};  // for all ranks to come
  std::string fabric = {};                        // file or generator of the network
  std::string plan = {};                          // file
  std::string routes = {};                        // file
  std::string transport = {};                     // "auto", "shm", "tcp", "ucx"
  bool has_progress_thread = true;
  std::optional<bool> checksums = {}, zero_copy = {};
  int connections = 0;
  std::string survivors = {};   // who may shrink: "any", "majority", "3"
  std::string encryption = {};  // "off", "auth", "full"
  std::stop_token stop = {};    // ends join() when it is requested, on all ranks that have come, with an Error{aborted}

  banyan_config_t config() const {
    const auto text = [](const std::string& field) { return field.empty() ? nullptr : field.c_str(); };
    const auto flag = [](std::optional<bool> field) { return field ? static_cast<int>(*field) : -1; };
    banyan_config_t config = BANYAN_CONFIG_INIT;
    config.name = text(name);
    config.timeout = timeout.count();
    config.join_timeout = join_timeout.count();
    config.fabric = text(fabric);
    config.plan = text(plan);
    config.transport = text(transport);
    config.progress_thread = has_progress_thread ? -1 : 0;
    config.routes = text(routes);
    config.checksums = flag(checksums);
    config.zero_copy = flag(zero_copy);
    config.connections = connections;
    config.survivors = text(survivors);
    config.encryption = text(encryption);
    return config;
  }
};

}  // namespace v0
}  // namespace banyan

#endif  // BANYAN_CXX20
