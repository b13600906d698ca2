# How everything is compiled and linked, beside warnings (BanyanModule.cmake).
if(CMAKE_SIZEOF_VOID_P LESS 8)
  message(FATAL_ERROR "Banyan wants a processor of 64 bits: it counts bytes beyond 4 GiB and multiplies in 128 bits")
endif()

# One commit makes equal bytes in every folder: no file names where it was built. The build folder is `build`, wherever
# it is; it comes last, as it may lie in the tree. Debuggers find sources by their whole paths, where somebody debugs.
set(map -ffile-prefix-map)
if(CMAKE_BUILD_TYPE MATCHES "Debug|RelWithDebInfo")
  set(map -fmacro-prefix-map)
endif()
add_compile_options(${map}=${PROJECT_SOURCE_DIR}/= ${map}=${PROJECT_BINARY_DIR}=build)

# g++ collects garbage while it compiles, which takes a sixth of the time of a large file and saves it 100 MB.
add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=524288>")

# What makes mistakes hard to use: programs that lie anywhere, checks where the C library and the compiler know the size
# of a buffer, and tables of the linker that cannot be written. Packages of a distribution give their own; sanitizers
# replace the same functions.
include(CheckPIESupported)
check_pie_supported(LANGUAGES C CXX)
if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug" AND NOT CMAKE_CXX_FLAGS MATCHES "_FORTIFY_SOURCE|-fsanitize=")
  add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong)
  add_link_options(-Wl,-z,relro -Wl,-z,now)
endif()
