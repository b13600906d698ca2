# Where what is built is installed. Every part of Banyan installs itself, into one of the components runtime (the
# program), service (banyand), library (libbanyan.so.0), development, python (the package banyan) and torch
# (banyan_torch). It adds what it
# builds for that to the target banyan_products. Each component is a package of Debian, too (packaging/debian.cmake).
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

# The folders that an installation makes, for its removal (packaging/uninstall.cmake). What comes first is done first.
if(BANYAN_INSTALL)
  set(folders ${CMAKE_INSTALL_BINDIR} ${CMAKE_INSTALL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_LIBDIR}/cmake/Banyan
    ${CMAKE_INSTALL_INCLUDEDIR}/banyan ${CMAKE_INSTALL_MANDIR}/man1 ${CMAKE_INSTALL_MANDIR}/man8
    ${CMAKE_INSTALL_DOCDIR} lib/systemd/system lib/sysusers.d
    ${CMAKE_INSTALL_DATADIR}/bash-completion/completions ${CMAKE_INSTALL_DATADIR}/zsh/site-functions
    ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d ${BANYAN_PYTHON_DIR}/banyan
    ${BANYAN_PYTHON_DIR}/banyan_torch ${BANYAN_PYTHON_DIR}/banyan-${BANYAN_VERSION_TEXT}.dist-info
    ${BANYAN_PYTHON_DIR}/banyan_torch-${BANYAN_VERSION_TEXT}.dist-info)
  install(CODE "set(BANYAN_FOLDERS ${folders})
    set(BANYAN_FOLDERS_FILE ${PROJECT_BINARY_DIR}/install_folders.txt)
    include(${CMAKE_CURRENT_LIST_DIR}/note_folders.cmake)" ALL_COMPONENTS)
endif()
