# Where what is built is installed. Every part of Banyan installs itself, into one of the components runtime (the
# program), service (banyand), library (libbanyan.so.0), development, python (the package banyan), torch (banyan_torch)
# and documentation. It adds what it builds for that to the target banyan_products. Each component is a package of
# Debian, too (debian/rules).
include(GNUInstallDirs)
add_custom_target(banyan_products)

set(BANYAN_PYTHON /usr/bin/python3 CACHE FILEPATH "The interpreter that Python packages are built for")
set(BANYAN_PYTHON_DIR "" CACHE STRING
  "Where Python packages are installed, relative to the prefix; empty: where BANYAN_PYTHON finds them")
if(NOT BANYAN_PYTHON_DIR)
  # Empty where there is no Python, which only the parts that are in Python need.
  execute_process(COMMAND ${BANYAN_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/python_dir.py ${CMAKE_INSTALL_PREFIX}
    OUTPUT_VARIABLE BANYAN_PYTHON_DIR OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()

# banyan_install_placed(TEMPLATE DESTINATION COMPONENT): installs a file that names its place. @PREFIX@ in it is the
# prefix of the installation, which `cmake --install --prefix` may choose.
function(banyan_install_placed template destination component)
  cmake_path(GET template STEM LAST_ONLY name)
  set(placed ${CMAKE_CURRENT_BINARY_DIR}/placed/${name})
  install(CODE "set(PREFIX \"\${CMAKE_INSTALL_PREFIX}\")
    configure_file(\"${template}\" \"${placed}\" @ONLY)
    set(folder \"${destination}\")
    cmake_path(ABSOLUTE_PATH folder BASE_DIRECTORY \"\${CMAKE_INSTALL_PREFIX}\")
    file(INSTALL DESTINATION \"\${folder}\" TYPE FILE FILES \"${placed}\")"
    COMPONENT ${component})
endfunction()

# The folders that an installation makes, for its removal (packaging/uninstall.cmake). What comes first is done first.
if(BANYAN_INSTALL)
  set(folders ${CMAKE_INSTALL_BINDIR} ${CMAKE_INSTALL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_LIBDIR}/cmake/Banyan
    ${CMAKE_INSTALL_INCLUDEDIR}/banyan ${CMAKE_INSTALL_MANDIR}/man1 ${CMAKE_INSTALL_MANDIR}/man8
    ${CMAKE_INSTALL_DOCDIR} lib/systemd/system lib/sysusers.d
    ${CMAKE_INSTALL_DATADIR}/bash-completion/completions ${CMAKE_INSTALL_DATADIR}/zsh/site-functions
    ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d ${BANYAN_PYTHON_DIR}/banyan
    ${BANYAN_PYTHON_DIR}/banyan_torch ${BANYAN_PYTHON_DIR}/banyan-${BANYAN_VERSION_TEXT}.dist-info
    ${BANYAN_PYTHON_DIR}/banyan_torch-${BANYAN_VERSION_TEXT}.dist-info)
  install(CODE "set(BANYAN_FOLDERS \"${folders}\")
    set(BANYAN_FOLDERS_FILE \"${PROJECT_BINARY_DIR}/install_folders.txt\")
    include(\"${PROJECT_SOURCE_DIR}/packaging/note_folders.cmake\")" ALL_COMPONENTS)
endif()
