// The libFuzzer side of fuzz.h: feeds the one registered reader of this program.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "banyan/base/check.h"
#include "banyan/testing/fuzz.h"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const auto& fuzzers = banyan::testing::Fuzzer::registered();
  CHECK_EQ(fuzzers.size(), 1u) << "one x_fuzz.cc registers one reader";
  if (*argc == 2 && std::string_view((*argv)[1]) == "--corpus") {
    std::printf("%s/%s\n", BANYAN_SOURCE_DIR, fuzzers.front()->corpus().c_str());
    std::exit(0);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  banyan::testing::Fuzzer::registered().front()->read({reinterpret_cast<const char*>(data), size});
  return 0;
}
