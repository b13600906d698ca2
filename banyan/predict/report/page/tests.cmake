# The page in a browser, and whether page/dist/report.html is what its sources make.
add_executable(banyan_report_samples ${CMAKE_CURRENT_SOURCE_DIR}/page/write_samples.cc test_predictions.cc)
target_link_libraries(banyan_report_samples PRIVATE banyan_predict_report banyan_warnings)
find_package(Python3 COMPONENTS Interpreter)
if(Python3_Interpreter_FOUND)
  add_test(NAME predict_report.page COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/page/browser_test.py
    $<TARGET_FILE:banyan_report_samples>)
  set_tests_properties(predict_report.page PROPERTIES TIMEOUT 600 PROCESSORS 2 SKIP_RETURN_CODE 77)
  add_test(NAME predict_report.page_is_built
           COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/page/build_test.py)
  set_tests_properties(predict_report.page_is_built PROPERTIES LABELS slow TIMEOUT 300 SKIP_RETURN_CODE 77)
endif()
