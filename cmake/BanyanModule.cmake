# banyan_module(NAME SOURCES ... [DEPS ...] [PRIVATE ...] [TESTS ...] [TEST_DEPS ...] [FUZZERS ...] [BENCHES ...])
#
# One static library banyan_NAME, one test binary banyan_NAME_test (every gtest case is a ctest case), one program per
# benchmark and, with BANYAN_FUZZ, one libFuzzer program per fuzzer. DEPS are visible to users of the module, PRIVATE
# libraries are known to it alone. A fuzzer file x_fuzz.cc is always compiled into the test binary as well, so that its
# corpus is replayed by `make test`.

add_library(banyan_warnings INTERFACE)
target_compile_options(banyan_warnings INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion)
if(BANYAN_WERROR)
  target_compile_options(banyan_warnings INTERFACE -Werror)
endif()

function(banyan_module)
  cmake_parse_arguments(M "" "NAME" "SOURCES;DEPS;PRIVATE;TESTS;TEST_DEPS;FUZZERS;BENCHES" ${ARGN})
  set(lib banyan_${M_NAME})
  add_library(${lib} STATIC ${M_SOURCES})
  target_include_directories(${lib} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(${lib} PUBLIC ${M_DEPS} PRIVATE ${M_PRIVATE} banyan_warnings)

  if(M_TESTS)
    add_executable(${lib}_test ${M_TESTS})
    target_link_libraries(${lib}_test PRIVATE ${lib} ${M_TEST_DEPS} ${M_PRIVATE} banyan_warnings GTest::gmock GTest::gtest_main)
    target_compile_definitions(${lib}_test PRIVATE BANYAN_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    gtest_discover_tests(${lib}_test TEST_PREFIX "${M_NAME}." DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300)
  endif()

  foreach(fuzzer ${M_FUZZERS})
    get_filename_component(name ${fuzzer} NAME_WE)
    if(BANYAN_FUZZ)
      add_executable(${name} ${fuzzer})
      target_link_libraries(${name} PRIVATE ${lib} ${M_TEST_DEPS} banyan_warnings -fsanitize=fuzzer)
    endif()
  endforeach()

  foreach(bench ${M_BENCHES})
    get_filename_component(name ${bench} NAME_WE)
    add_executable(${name} ${bench})
    target_link_libraries(${name} PRIVATE ${lib} ${M_TEST_DEPS} banyan_warnings benchmark::benchmark)
  endforeach()
endfunction()

include(GoogleTest)
