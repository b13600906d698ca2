// Faults: allocations and system calls that fail, for tests.
//
// test_faults.cc becomes a library that is loaded before all others (LD_PRELOAD) and takes the place of libc's
// functions. Until faults_begin() it only passes calls on. Then it numbers, per kind of thread, the calls that may
// fail, and makes one of them fail with an errno that its manual page names, or that one and all after it.
//
// Numbered are calls that come from Banyan, the C++ library and libcrypto, and those of libc on their behalf. Left out,
// by the address they return to: calls of UCX and of the libraries that it loads (libuc*, libib*, librdma*, libnl*,
// libmlx*, libnuma: they end the process when memory is short, and Banyan cannot help it), of the dynamic linker, and
// of the program itself. Threads that UCX makes are left out as a whole, and what OpenSSL does when it is used for the
// first time. Calls that only give something back (close, munmap, free, futex wakes) never fail.
#pragma once

#include <cstdint>

namespace banyan::c {

enum class FaultThread : uint8_t { main, agent, progress, other };
enum class FaultKind : uint8_t { allocation, call };
constexpr int kFaultThreads = 4, kFaultKinds = 2;

struct FaultPlan {
  FaultKind kind = FaultKind::allocation;
  FaultThread thread = FaultThread::main;
  uint32_t number = 0;       // from 1; 0: none fails
  bool all_after = false;    // and those after it, but for calls that were only interrupted
  bool shows_stack = false;  // where it failed, to stderr
};

// The functions of the library, to be found by dlsym(), since it may not be loaded.
using FaultsBegin = void(const FaultPlan* plan);
// How many calls there were so far, by kind and thread, and how many of them failed.
using FaultsCount = void(uint32_t counts[kFaultKinds][kFaultThreads], uint32_t* fired);
// The name of the function that failed first; null when none did.
using FaultsFailed = const char*();

}  // namespace banyan::c
