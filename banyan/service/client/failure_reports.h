// FailureReports: which failures of a communicator's sessions its peers are told. The failure of a session that has no
// calls yet is kept until calls go over to it: nobody needs to know it before. Two failures for the same reason are
// told once.
//
// Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "banyan/base/error.h"

namespace banyan::service {

class FailureReports {
 public:
  explicit FailureReports(std::function<void(const Error& error)> tell_peers) : tell_peers_(std::move(tell_peers)) {}

  // The session of this generation has failed. May tell at once, as go_over() may.
  void note(uint32_t generation, const Error& error);
  // Calls go over to the session of this generation.
  void go_over(uint32_t generation);

 private:
  const std::function<void(const Error& error)> tell_peers_;
  std::mutex mutex_;  // protects what follows
  uint32_t in_force_ = 0;
  std::optional<std::pair<uint32_t, Error>> early_;  // of a next session, by its generation
  std::optional<std::string> told_;                  // the last
};

}  // namespace banyan::service
