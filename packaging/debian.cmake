# Packages of Debian, one for each component: `make deb`, which is cpack -G DEB. debian/finish.cmake gives them the form
# that Debian's policy asks for.
set(names_of_components runtime=banyan service=banyan-service library=libbanyan0 development=libbanyan-dev
  python=python3-banyan
  torch=python3-banyan-torch)
set(CPACK_PACKAGE_NAME banyan)
set(CPACK_PACKAGE_VENDOR Banyan)
set(BANYAN_MAINTAINER "Banyan maintainers <maintainers@banyan.invalid>" CACHE STRING "Who answers for the packages")
set(CPACK_PACKAGE_CONTACT "${BANYAN_MAINTAINER}")
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(version ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})
file(STRINGS debian/changelog latest LIMIT_COUNT 1)
if(NOT latest MATCHES "^banyan \\(${version}\\) ")
  message(FATAL_ERROR "packaging/debian/changelog does not begin with the version of the project, ${version}")
endif()
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_SOURCE_DIR}/debian/finish.cmake)

# A component is in no package unless it is named above; one without anything to install has no package.
get_cmake_property(CPACK_COMPONENTS_ALL COMPONENTS)
list(REMOVE_ITEM CPACK_COMPONENTS_ALL Unspecified)  # steps of the installation itself
foreach(component ${CPACK_COMPONENTS_ALL})
  if(NOT names_of_components MATCHES "(^|;)${component}=([^;]+)")
    message(FATAL_ERROR "packaging/debian.cmake: the component '${component}' has no package")
  endif()
  string(TOUPPER ${component} COMPONENT)
  set(CPACK_DEBIAN_${COMPONENT}_PACKAGE_NAME ${CMAKE_MATCH_2})
endforeach()

set(CPACK_DEBIAN_RUNTIME_DESCRIPTION "plan, run and predict collective communication
Banyan takes the graph of a cluster and computes schedules of collectives
(allgather, reduce-scatter, allreduce, broadcast, reduce) that no other
schedule on it beats, with a proof. It simulates plans, training steps and
traces, exports plans to GPU runtimes, and runs programs over them.

This package has the program banyan.")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION science)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS iproute2)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS "banyan-service, libucx0, openssh-client")

# A package of its own: hosts whose programs it serves need nothing else, and who plans on a laptop wants no daemon.
set(CPACK_DEBIAN_SERVICE_DESCRIPTION "collective communication as a service of the host
banyand carries out the collectives of the programs of its host, together
with the daemons of other hosts. Tenants share links by weights, classes and
caps.

This package has the daemon, its units for systemd, which are not enabled, and
what starts it with Slurm and Kubernetes.")
set(CPACK_DEBIAN_SERVICE_PACKAGE_SECTION net)
set(CPACK_DEBIAN_SERVICE_PACKAGE_RECOMMENDS systemd)
set(CPACK_DEBIAN_SERVICE_PACKAGE_SUGGESTS "banyan, etcd-server")
set(CPACK_DEBIAN_SERVICE_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_SOURCE_DIR}/debian/service/postinst
  ${CMAKE_CURRENT_SOURCE_DIR}/debian/service/prerm ${CMAKE_CURRENT_SOURCE_DIR}/debian/service/postrm)

set(CPACK_DEBIAN_LIBRARY_DESCRIPTION "collective communication of host memory - shared library
Banyan moves host memory between processes, through shared memory on one
host, by TCP or UCX between hosts, along schedules that are planned for the
network.

This package has the shared library libbanyan.so.0.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SUGGESTS libucx0)
# Which package programs over the library depend on, and that the system's list of libraries is made anew.
file(CONFIGURE OUTPUT debian/shlibs CONTENT "libbanyan 0 libbanyan0 (>= ${PROJECT_VERSION})\n")
file(CONFIGURE OUTPUT debian/triggers CONTENT "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_BINARY_DIR}/debian/shlibs
  ${CMAKE_CURRENT_BINARY_DIR}/debian/triggers)

set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "collective communication of host memory - development files
Banyan moves host memory between processes, through shared memory on one
host, by TCP or UCX between hosts, along schedules that are planned for the
network.

This package has what programs over libbanyan are built with: headers for C
and C++20, a CMake package, a pkg-config file, and examples.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libbanyan0 (= ${version})")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS "banyan, pkgconf, cmake")

# What is compiled for an interpreter serves that one only.
execute_process(COMMAND ${BANYAN_PYTHON} -c
  "import sys; v = sys.version_info; print(f'python3 (>= {v[0]}.{v[1]}), python3 (<< {v[0]}.{v[1] + 1})')"
  OUTPUT_VARIABLE this_python OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
set(CPACK_DEBIAN_PYTHON_DESCRIPTION "plan, verify and predict collective communication - Python package
Banyan takes the graph of a cluster and computes schedules of collectives
that no other schedule on it beats, with a proof.

This package has the Python package banyan, which plans, verifies, predicts
and shows.")
set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "${this_python}")

set(CPACK_DEBIAN_TORCH_DESCRIPTION "backend of torch.distributed over Banyan
Banyan moves host memory between processes, through shared memory on one
host, by TCP or UCX between hosts, along schedules that are planned for the
network.

This package has the Python package banyan_torch, with which PyTorch trains
over Banyan on CPUs.")
set(CPACK_DEBIAN_TORCH_PACKAGE_SECTION python)
set(CPACK_DEBIAN_TORCH_PACKAGE_DEPENDS "${this_python}, python3-torch")
set(CPACK_DEBIAN_TORCH_PACKAGE_RECOMMENDS "banyan (>= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_TORCH_PACKAGE_SUGGESTS libucx0)

foreach(component PYTHON TORCH)
  set(package ${CPACK_DEBIAN_${component}_PACKAGE_NAME})
  foreach(script postinst prerm)
    configure_file(debian/python-${script}.in debian/${component}/${script} @ONLY FILE_PERMISSIONS
      OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  endforeach()
  set(CPACK_DEBIAN_${component}_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_BINARY_DIR}/debian/${component}/postinst
    ${CMAKE_CURRENT_BINARY_DIR}/debian/${component}/prerm)
endforeach()
include(CPack)
