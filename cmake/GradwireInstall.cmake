# `cmake --install` puts the library, the public headers, the package files and the command line
# tool in place; a wheel takes the components `python` and `cli` only (pyproject.toml).

include(CMakePackageConfigHelpers)

if(TARGET gradwire_cli)
  if(SKBUILD)
    set(gradwire_bin_dir ${SKBUILD_SCRIPTS_DIR})
  else()
    set(gradwire_bin_dir ${CMAKE_INSTALL_BINDIR})
  endif()
  install(TARGETS gradwire_cli RUNTIME DESTINATION ${gradwire_bin_dir} COMPONENT cli)
endif()

set(gradwire_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/gradwire)
install(
  TARGETS gradwire_library
  EXPORT gradwireTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT library)
install(FILES ${gradwire_headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/gradwire
        COMPONENT library)
install(EXPORT gradwireTargets NAMESPACE gradwire:: DESTINATION ${gradwire_package_dir}
        COMPONENT library)

# The component `mpi` has targets of its own, so that a program without MPI can use the rest.
if(TARGET gradwire_mpi)
  install(
    TARGETS gradwire_mpi
    EXPORT gradwireMpiTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT library)
  install(FILES include/gradwire/mpi.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/gradwire
          COMPONENT library)
  install(EXPORT gradwireMpiTargets NAMESPACE gradwire:: DESTINATION ${gradwire_package_dir}
          COMPONENT library)
endif()

configure_package_config_file(
  cmake/gradwireConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/gradwireConfig.cmake
  INSTALL_DESTINATION ${gradwire_package_dir})
# Before 1.0 a minor version may break the interface.
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/gradwireConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/gradwireConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/gradwireConfigVersion.cmake
        DESTINATION ${gradwire_package_dir} COMPONENT library)
