# find_package(Banyan 0.2) gives the target Banyan::banyan: libbanyan.so and the headers of C and C++ over it. Every
# later 0.x fits (docs/stability.md).
include(${CMAKE_CURRENT_LIST_DIR}/BanyanTargets.cmake)

# banyan/communicator.h wants C++20. CMake refuses features of a language that a project has not.
get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
if(CXX IN_LIST languages)
  set_property(TARGET Banyan::banyan APPEND PROPERTY INTERFACE_COMPILE_FEATURES cxx_std_20)
endif()
unset(languages)
