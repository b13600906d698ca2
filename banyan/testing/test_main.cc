// main() of every test program. What its tests write to the folder of temporary files, flight records too, is theirs
// alone, and gone at the end, so names there need not differ from those of other programs.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace {

// Until the process that made it ends; forked ones leave it alone.
class TemporaryFiles {
 public:
  TemporaryFiles() : path_(std::filesystem::temp_directory_path() / "banyan-test-XXXXXX"), owner_(getpid()) {
    if (mkdtemp(path_.data()) == nullptr) {
      std::perror(path_.c_str());
      std::exit(1);
    }
    for (const char* const name : {"TMPDIR", "TEST_TMPDIR"}) setenv(name, path_.c_str(), 1);
    setenv("BANYAN_RECORDER_DIR", (path_ + "/records").c_str(), 1);
  }
  ~TemporaryFiles() {
    std::error_code ignored;
    if (owner_ == getpid()) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFiles(const TemporaryFiles&) = delete;
  TemporaryFiles& operator=(const TemporaryFiles&) = delete;

 private:
  std::string path_;
  const pid_t owner_;
};

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const TemporaryFiles files;
  return RUN_ALL_TESTS();
}
