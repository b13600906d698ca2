# The page in a browser, and whether dist/dashboard.html is what its sources make.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_Interpreter_FOUND)
  add_test(NAME service_page.page COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/browser_test.py)
  set_tests_properties(service_page.page PROPERTIES TIMEOUT 300 PROCESSORS 2 SKIP_RETURN_CODE 77)
  add_test(NAME service_page.page_is_built COMMAND ${Python3_EXECUTABLE}
    ${PROJECT_SOURCE_DIR}/banyan/predict/report/page/build_test.py ${CMAKE_CURRENT_SOURCE_DIR})
  set_tests_properties(service_page.page_is_built PROPERTIES LABELS slow TIMEOUT 300 SKIP_RETURN_CODE 77)
endif()
