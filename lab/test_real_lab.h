// A lab of the test's own, in real network namespaces; where those are refused, the test is skipped by name.
#pragma once

#include <unistd.h>

#include "banyan/fabric/read.h"
#include "banyan/testing/test.h"
#include "lab/lab.h"
#include "lab/network_namespace.h"
#include "lab/tool.h"

namespace banyan::lab {

class RealLab : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string reason = why_no_lab();
    if (!reason.empty()) GTEST_SKIP() << reason;
  }
  void TearDown() override {
    if (!IsSkipped()) Lab::down(name_);
  }

  Lab up(const std::string& fabric, const LabOptions& options = {}) {
    return Lab::up(name_, fabric::load_fabric({.fabric = fabric}), {}, options);
  }
  static std::string list_namespaces() { return run_tool({"ip", "netns", "list"}); }

  const std::string name_ = "test" + std::to_string(getpid());
};

}  // namespace banyan::lab
