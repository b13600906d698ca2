# Run by `cmake --install`, first of all: adds to BANYAN_FOLDERS_FILE which of BANYAN_FOLDERS (relative to the prefix)
# and of the folders around them are not there yet. packaging/uninstall.cmake removes those when they are empty again.
if("$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}" MATCHES "/_CPack_Packages/")  # files on their way into a package
  return()
endif()
foreach(folder ${BANYAN_FOLDERS})
  cmake_path(ABSOLUTE_PATH folder BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}" NORMALIZE)
  while(NOT EXISTS "$ENV{DESTDIR}${folder}" AND NOT folder STREQUAL "/")
    file(APPEND "${BANYAN_FOLDERS_FILE}" "${folder}\n")
    cmake_path(GET folder PARENT_PATH folder)
  endwhile()
endforeach()
