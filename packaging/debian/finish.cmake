# Run by CPack over the files of each package before they are packed: gives them the form that Debian's policy asks for.
function(compress path)
  execute_process(COMMAND gzip -9nf ${path} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

foreach(component ${CPACK_COMPONENTS_ALL})
  string(TOUPPER ${component} COMPONENT)
  set(package ${CPACK_DEBIAN_${COMPONENT}_PACKAGE_NAME})
  set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component}${CPACK_PACKAGING_INSTALL_PREFIX})
  set(share ${root}/share)

  # Documentation is in the folder of its package, beside the licence and what has changed.
  set(documents ${share}/doc/${package})
  if(NOT EXISTS ${documents} AND EXISTS ${share}/doc/banyan)
    file(RENAME ${share}/doc/banyan ${documents})
  endif()
  file(REMOVE ${documents}/LICENSE)
  file(MAKE_DIRECTORY ${documents})
  file(COPY_FILE ${CMAKE_CURRENT_LIST_DIR}/copyright ${documents}/copyright)
  file(COPY_FILE ${CMAKE_CURRENT_LIST_DIR}/changelog ${documents}/changelog.Debian)
  file(COPY_FILE ${CMAKE_CURRENT_LIST_DIR}/../../CHANGELOG.md ${documents}/changelog)
  compress(${documents}/changelog.Debian)
  compress(${documents}/changelog)

  file(GLOB pages ${share}/man/man1/*.1 ${share}/man/man8/*.8)
  foreach(page ${pages})
    compress(${page})
  endforeach()

  # site-functions are the administrator's.
  if(EXISTS ${share}/zsh/site-functions)
    file(RENAME ${share}/zsh/site-functions ${share}/zsh/vendor-completions)
  endif()

  # Whatever the umask of who packs, and the permissions of the source tree.
  execute_process(COMMAND chmod -R u=rwX,go=rX ${root} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
