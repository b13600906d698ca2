# What BANYAN_TESTS adds: test programs, fuzzers and benchmarks.
include(GoogleTest)
add_custom_target(benches)

# Test programs: their bodies are compiled for a short build, not for speed, and share one precompiled header,
# banyan/testing/test.h. Tests that go through millions of cases, or stand for a server that has to answer in time, are
# compiled for speed (SEARCHES). A target that is an executable creates the header, since executables and libraries are
# compiled differently (-fPIE). Sanitizers make code slow that is not compiled for speed.
foreach(kind "" _searches)
  set(BANYAN_TEST_OPTIONS${kind} -U_FORTIFY_SOURCE -O1)
  if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT kind)
    set(BANYAN_TEST_OPTIONS -U_FORTIFY_SOURCE -O0)
  endif()
  add_executable(banyan_test_headers${kind} EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/empty_main.cc)
  target_include_directories(banyan_test_headers${kind} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(banyan_test_headers${kind} PRIVATE GTest::gmock GTest::gtest)
  target_compile_options(banyan_test_headers${kind} PRIVATE ${BANYAN_TEST_OPTIONS${kind}})
  target_precompile_headers(banyan_test_headers${kind} PRIVATE ${PROJECT_SOURCE_DIR}/banyan/testing/test.h)
endforeach()

# The main() of all of them.
add_library(banyan_test_main STATIC ${CMAKE_CURRENT_LIST_DIR}/../banyan/testing/test_main.cc)
target_link_libraries(banyan_test_main PUBLIC GTest::gmock GTest::gtest PRIVATE banyan_warnings)

# banyan_test(TARGET [SEARCHES] SOURCES ... LIBRARIES ... [DEFINITIONS ...]): a test program without its ctest cases.
function(banyan_test target)
  cmake_parse_arguments(T "SEARCHES" "" "SOURCES;LIBRARIES;DEFINITIONS" ${ARGN})
  set(kind)
  if(T_SEARCHES)
    set(kind _searches)
  endif()
  add_executable(${target} ${T_SOURCES})
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${BANYAN_UNITY} UNITY_BUILD_BATCH_SIZE 4)
  target_compile_options(${target} PRIVATE ${BANYAN_TEST_OPTIONS${kind}})
  target_precompile_headers(${target} REUSE_FROM banyan_test_headers${kind})
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
    set(searches)
    if(M_SEARCHES)
      set(searches SEARCHES)
    endif()
    banyan_test(${lib}_test ${searches} SOURCES ${M_TESTS} LIBRARIES ${lib} ${M_TEST_DEPS} ${M_PRIVATE}
      DEFINITIONS BANYAN_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    if(M_PROCESSES)
      foreach(number RANGE 1 ${M_PROCESSES})
        math(EXPR shard "${number} - 1")
        add_test(NAME ${M_NAME}.all${number}of${M_PROCESSES} COMMAND ${lib}_test --gtest_brief=1)
        set_tests_properties(${M_NAME}.all${number}of${M_PROCESSES} PROPERTIES TIMEOUT 300
          ENVIRONMENT "GTEST_TOTAL_SHARDS=${M_PROCESSES};GTEST_SHARD_INDEX=${shard}")
      endforeach()
    else()
      banyan_test_cases(${lib}_test ${M_NAME} PROPERTIES TIMEOUT 300)
    endif()
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
