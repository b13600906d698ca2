// How a reader is fuzzed, and how its corpus is replayed as a test.
//
// A fuzzer is one file x_fuzz.cc, named under FUZZERS in its module's CMakeLists.txt, that registers one reader:
//
//   const testing::Fuzzer kFuzzer("fabric_json", "banyan/fabric/corpus/json",
//                                 [](std::string_view input) { parse_fabric_json(input, "fuzz"); });
//
// The reader may return or throw banyan::Error, which is swallowed here because bad input is the point; anything else
// that escapes is a finding. The file knows nothing of libFuzzer, so banyan_module compiles it twice: with fuzz_main.cc
// into the program x_fuzz (preset fuzz), and with fuzz_replay_test.cc into the module's tests, where any number of
// fuzzers live together and each file of each corpus is read once. `x_fuzz --corpus` prints the corpus folder.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "banyan/base/error.h"

namespace banyan::testing {

class Fuzzer {
 public:
  using Reader = void (*)(std::string_view input);

  // `corpus` is a folder, relative to the root of the source tree.
  Fuzzer(std::string name, std::string corpus, Reader reader)
      : name_(std::move(name)), corpus_(std::move(corpus)), reader_(reader) {
    registered().push_back(this);
  }
  Fuzzer(const Fuzzer&) = delete;
  Fuzzer& operator=(const Fuzzer&) = delete;

  const std::string& name() const { return name_; }
  const std::string& corpus() const { return corpus_; }
  void read(std::string_view input) const {
    try {
      reader_(input);
    } catch (const Error&) {
    }
  }

  // All fuzzers of this program; complete once main has begun.
  static std::vector<const Fuzzer*>& registered() {
    static std::vector<const Fuzzer*> fuzzers;
    return fuzzers;
  }

 private:
  std::string name_;
  std::string corpus_;
  Reader reader_;
};

}  // namespace banyan::testing
