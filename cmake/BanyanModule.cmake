# banyan_module(NAME [OWN_HEADERS] SOURCES ... [ALONE ...] [DEPS ...] [PRIVATE ...] [TESTS ...] [TEST_DEPS ...]
#               [FUZZERS ...] [BENCHES ...])
#
# One static library banyan_NAME, one test binary banyan_NAME_test (every gtest case is a ctest case), one program per
# benchmark and, with BANYAN_FUZZ, one libFuzzer program per fuzzer. DEPS are visible to users of the module, PRIVATE
# libraries are known to it alone. OWN_HEADERS: the module precompiles headers of its own. ALONE: of the SOURCES and
# TESTS, those that BANYAN_UNITY does not compile together with others, since names of their own meet.
#
# A fuzzer x_fuzz.cc registers one reader and its corpus, as banyan/testing/fuzz.h shows. Name it under FUZZERS only
# (not under TESTS): it is compiled into the test binary beside fuzz_replay_test.cc, so that `make test` replays every
# corpus, and with BANYAN_FUZZ into the program x_fuzz beside fuzz_main.cc. Any number of fuzzers may share one test
# binary.

add_library(banyan_warnings INTERFACE)
target_compile_options(banyan_warnings INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion)
# g++ 12 sees overlaps and overruns in "literal" + std::string that are not there (gcc bug 105651 and its like).
target_compile_options(banyan_warnings INTERFACE
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict;-Wno-array-bounds;-Wno-stringop-overflow>)
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

# Test programs: their bodies are compiled for a short build, not for speed, and share one precompiled header of gtest
# and gmock. A target that is an executable creates it, since executables and libraries are compiled differently
# (-fPIE).
add_executable(banyan_test_headers EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/empty_main.cc)
target_link_libraries(banyan_test_headers PRIVATE GTest::gmock GTest::gtest)
target_compile_options(banyan_test_headers PRIVATE -O1)
target_precompile_headers(banyan_test_headers PRIVATE <gmock/gmock.h> <gtest/gtest.h>)

# The main() of all of them.
add_library(banyan_test_main STATIC ${CMAKE_CURRENT_LIST_DIR}/../banyan/testing/test_main.cc)
target_link_libraries(banyan_test_main PUBLIC GTest::gmock GTest::gtest PRIVATE banyan_warnings)

# banyan_test(TARGET SOURCES ... LIBRARIES ... [DEFINITIONS ...]): a test program without its ctest cases.
function(banyan_test target)
  cmake_parse_arguments(T "" "" "SOURCES;LIBRARIES;DEFINITIONS" ${ARGN})
  add_executable(${target} ${T_SOURCES})
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${BANYAN_UNITY} UNITY_BUILD_BATCH_SIZE 4)
  target_compile_options(${target} PRIVATE -O1)
  target_precompile_headers(${target} REUSE_FROM banyan_test_headers)
  target_compile_definitions(${target} PRIVATE ${T_DEFINITIONS})
  target_link_libraries(${target} PRIVATE ${T_LIBRARIES} banyan_warnings banyan_test_main)
endfunction()

# banyan_test_cases(TARGET PREFIX ...): every gtest case of TARGET as a ctest case PREFIX.SUITE.CASE. The rest is passed
# on to gtest_discover_tests. Names are those of the tests only: what a parameter looks like in memory differs from
# build to build.
function(banyan_test_cases target prefix)
  gtest_discover_tests(${target} TEST_PREFIX "${prefix}." DISCOVERY_TIMEOUT 60 NO_PRETTY_VALUES ${ARGN})
endfunction()

function(banyan_module)
  cmake_parse_arguments(M "OWN_HEADERS" "NAME" "SOURCES;ALONE;DEPS;PRIVATE;TESTS;TEST_DEPS;FUZZERS;BENCHES" ${ARGN})
  set(lib banyan_${M_NAME})
  add_library(${lib} STATIC ${M_SOURCES})
  target_include_directories(${lib} PUBLIC ${PROJECT_SOURCE_DIR})
  set_target_properties(${lib} PROPERTIES UNITY_BUILD ${BANYAN_UNITY})
  if(M_ALONE)
    set_source_files_properties(${M_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  if(NOT M_OWN_HEADERS)
    target_precompile_headers(${lib} REUSE_FROM banyan_headers)
  endif()
  target_link_libraries(${lib} PUBLIC ${M_DEPS} PRIVATE ${M_PRIVATE} banyan_warnings)

  if(M_TESTS)
    set_source_files_properties(${M_FUZZERS} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    if(M_FUZZERS)
      list(APPEND M_TESTS ${M_FUZZERS} ${PROJECT_SOURCE_DIR}/banyan/testing/fuzz_replay_test.cc)
    endif()
    banyan_test(${lib}_test SOURCES ${M_TESTS} LIBRARIES ${lib} ${M_TEST_DEPS} ${M_PRIVATE}
      DEFINITIONS BANYAN_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    banyan_test_cases(${lib}_test ${M_NAME} PROPERTIES TIMEOUT 300)
  endif()

  foreach(fuzzer ${M_FUZZERS})
    get_filename_component(name ${fuzzer} NAME_WE)
    if(BANYAN_FUZZ)
      add_executable(${name} ${fuzzer} ${PROJECT_SOURCE_DIR}/banyan/testing/fuzz_main.cc)
      target_link_libraries(${name} PRIVATE ${lib} ${M_TEST_DEPS} banyan_warnings -fsanitize=fuzzer)
      target_compile_definitions(${name} PRIVATE BANYAN_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    endif()
  endforeach()

  foreach(bench ${M_BENCHES})
    get_filename_component(name ${bench} NAME_WE)
    add_executable(${name} ${bench})
    target_link_libraries(${name} PRIVATE ${lib} ${M_TEST_DEPS} banyan_warnings benchmark::benchmark)
  endforeach()
endfunction()

include(GoogleTest)
