// A folder that is of one test alone.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "banyan/base/check.h"

namespace banyan::testing {

// It goes away with everything in it. Fixtures inherit it, other tests have one of their own.
class TemporaryFolder {
 public:
  TemporaryFolder() : folder_(std::filesystem::temp_directory_path() / "banyan-test-XXXXXX") {
    CHECK(mkdtemp(folder_.data()) != nullptr) << folder_;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return folder_; }

 protected:
  std::string folder_;
};

}  // namespace banyan::testing
