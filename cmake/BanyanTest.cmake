# What BANYAN_TESTS adds: test programs, fuzzers and benchmarks.
include(GoogleTest)
add_custom_target(benches)

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

# banyan_test_cases(TARGET PREFIX [TEST_FILTER FILTER] [PROPERTIES NAME VALUE ...] [ENVIRONMENT NAME=VALUE ...]): every
# gtest case of TARGET, or every one that the filter lets through, as a ctest case PREFIX.SUITE.CASE. Names are those of
# the tests only: what a parameter looks like in memory differs from build to build.
function(banyan_test_cases target prefix)
  cmake_parse_arguments(T "" "TEST_FILTER" "PROPERTIES;ENVIRONMENT" ${ARGN})
  get_property(calls GLOBAL PROPERTY banyan_test_cases_calls)
  math(EXPR calls "${calls} + 1")
  set_property(GLOBAL PROPERTY banyan_test_cases_calls ${calls})
  set(cases ${target}_cases_${calls})
  gtest_discover_tests(${target} TEST_PREFIX "${prefix}." TEST_LIST ${cases} TEST_FILTER "${T_TEST_FILTER}"
    DISCOVERY_TIMEOUT 60 NO_PRETTY_VALUES PROPERTIES ${T_PROPERTIES})
  if(T_ENVIRONMENT)
    # Not among the properties: of a list, gtest_discover_tests passes on the first element only.
    set(file ${CMAKE_CURRENT_BINARY_DIR}/${cases}.cmake)
    file(CONFIGURE OUTPUT ${file} @ONLY CONTENT [[
foreach(case IN LISTS @cases@)
  set_tests_properties("${case}" PROPERTIES ENVIRONMENT "@T_ENVIRONMENT@")
endforeach()
]])
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${file})
  endif()
endfunction()

# The tests, fuzzers and benchmarks of a module: called by banyan_module, whose arguments it reads.
macro(banyan_module_tests)
  if(M_TESTS)
    set_source_files_properties(${M_FUZZERS} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    if(M_FUZZERS)
      list(APPEND M_TESTS ${M_FUZZERS} ${PROJECT_SOURCE_DIR}/banyan/testing/fuzz_replay_test.cc)
    endif()
    banyan_test(${lib}_test SOURCES ${M_TESTS} LIBRARIES ${lib} ${M_TEST_DEPS} ${M_PRIVATE}
      DEFINITIONS BANYAN_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    banyan_test_cases(${lib}_test ${M_NAME} PROPERTIES TIMEOUT 300)
  endif()

  if(BANYAN_FUZZ)
    foreach(fuzzer ${M_FUZZERS})
      get_filename_component(name ${fuzzer} NAME_WE)
      add_executable(${name} ${fuzzer} ${PROJECT_SOURCE_DIR}/banyan/testing/fuzz_main.cc)
      target_link_libraries(${name} PRIVATE ${lib} ${M_TEST_DEPS} banyan_warnings -fsanitize=fuzzer)
      target_compile_definitions(${name} PRIVATE BANYAN_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    endforeach()
  endif()

  foreach(bench ${M_BENCHES})
    get_filename_component(name ${bench} NAME_WE)
    add_executable(${name} EXCLUDE_FROM_ALL ${bench})
    target_link_libraries(${name} PRIVATE ${lib} ${M_TEST_DEPS} banyan_warnings benchmark::benchmark)
    add_dependencies(benches ${name})
  endforeach()
endmacro()
