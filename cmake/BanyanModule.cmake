# banyan_module(NAME [OWN_HEADERS] [COLD] [SEARCHES] [PROCESSES N] SOURCES ... [ALONE ...] [DEPS ...] [PRIVATE ...]
#               [TESTS ...] [TEST_DEPS ...] [FUZZERS ...] [BENCHES ...])
#
# One static library banyan_NAME, one test binary banyan_NAME_test, one program per benchmark and, with BANYAN_FUZZ, one
# libFuzzer program per fuzzer. Every gtest case is a ctest case; with PROCESSES, so many processes run all cases of a
# room whose tests leave no trace in their process: most cases take less time than a process that starts. DEPS are
# visible to users of the module, PRIVATE libraries are known to it alone. OWN_HEADERS: the module precompiles headers
# of its own. COLD: nothing in it is hot, so it is compiled for a short build. SEARCHES: its tests are compiled for
# speed. ALONE: of the SOURCES and TESTS, those that BANYAN_UNITY does not compile together with others, since names of
# their own meet.
#
# A fuzzer x_fuzz.cc registers one reader and its corpus, as banyan/testing/fuzz.h shows. Name it under FUZZERS only
# (not under TESTS): it is compiled into the test binary beside fuzz_replay_test.cc, so that `make test` replays every
# corpus, and with BANYAN_FUZZ into the program x_fuzz beside fuzz_main.cc. Any number of fuzzers may share one test
# binary.
#
# The library is built where something needs it. Without BANYAN_TESTS there are no tests, fuzzers and benchmarks; the
# target `benches` builds the benchmarks.

add_library(banyan_warnings INTERFACE)
target_compile_options(banyan_warnings INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion)
# g++ 12 sees overlaps and overruns in "literal" + std::string that are not there (gcc bug 105651 and its like).
target_compile_options(banyan_warnings INTERFACE
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict;-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread>)
if(BANYAN_UNITY)
  # A type of our own file may have members of types without a name outside; this warning takes it for a header.
  target_compile_options(banyan_warnings INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endif()
if(BANYAN_WERROR)
  target_compile_options(banyan_warnings INTERFACE -Werror)
endif()

# g++ 12 clears a struct of more than 32 bytes by `rep stos`, which takes some 30 cycles to start. A collective of a few
# bytes clears four such structs, and takes 300 cycles of its own. So structs are cleared by plain stores.
include(CheckCXXCompilerFlag)
set(BANYAN_CLEARS "-mmemset-strategy=vector_loop:256:noalign,rep_8byte:8192:noalign,libcall:-1:noalign")
check_cxx_compiler_flag(${BANYAN_CLEARS} BANYAN_CAN_CLEAR)
if(BANYAN_CAN_CLEAR)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:${BANYAN_CLEARS}>)
endif()

# One precompiled header of the standard library for the libraries of all modules, which saves each file half a second.
# The presets asan and tsan build without it, so that a forgotten include is found.
add_library(banyan_headers OBJECT EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/empty_main.cc)
target_precompile_headers(banyan_headers PRIVATE <algorithm> <array> <atomic> <chrono> <functional> <map> <memory>
  <mutex> <optional> <set> <span> <sstream> <string> <unordered_map> <utility> <variant> <vector>)

if(BANYAN_TESTS)
  include(${CMAKE_CURRENT_LIST_DIR}/BanyanTest.cmake)
endif()

function(banyan_module)
  cmake_parse_arguments(M "OWN_HEADERS;COLD;SEARCHES" "NAME;PROCESSES"
    "SOURCES;ALONE;DEPS;PRIVATE;TESTS;TEST_DEPS;FUZZERS;BENCHES" ${ARGN})
  set(lib banyan_${M_NAME})
  add_library(${lib} STATIC EXCLUDE_FROM_ALL ${M_SOURCES})
  target_include_directories(${lib} PUBLIC ${PROJECT_SOURCE_DIR})
  set_target_properties(${lib} PROPERTIES UNITY_BUILD ${BANYAN_UNITY})
  if(M_COLD AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    target_compile_options(${lib} PRIVATE -O1)
  endif()
  if(M_ALONE)
    set_source_files_properties(${M_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  if(NOT M_OWN_HEADERS)
    target_precompile_headers(${lib} REUSE_FROM banyan_headers)
  endif()
  target_link_libraries(${lib} PUBLIC ${M_DEPS} PRIVATE ${M_PRIVATE} banyan_warnings)

  if(BANYAN_TESTS)
    banyan_module_tests()
  endif()
endfunction()
