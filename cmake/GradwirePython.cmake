# The extension gradwire._core. It is built into <build>/python/gradwire; with
# GRADWIRE_PYTHON_INPLACE it is also copied beside the Python sources, where the editable
# installation of scripts/setup.sh and mypy find it.

file(GLOB gradwire_binding_sources CONFIGURE_DEPENDS python/bindings/*.cc)
if(NOT gradwire_binding_sources)
  message(STATUS "python/bindings has no sources yet; no Python extension")
  return()
endif()

find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module
             OPTIONAL_COMPONENTS Development.SABIModule)
execute_process(
  COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir
  OUTPUT_VARIABLE gradwire_nanobind_dir
  OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE gradwire_nanobind_result)
if(NOT gradwire_nanobind_result EQUAL 0)
  message(FATAL_ERROR "${Python_EXECUTABLE} has no nanobind: run scripts/setup.sh, "
                      "or pip install nanobind, or pass -DGRADWIRE_PYTHON=OFF")
endif()
find_package(nanobind CONFIG REQUIRED PATHS ${gradwire_nanobind_dir} NO_DEFAULT_PATH)

nanobind_add_module(_core STABLE_ABI NB_STATIC ${gradwire_binding_sources})
set(gradwire_python_dir ${CMAKE_CURRENT_BINARY_DIR}/python/gradwire)
set_target_properties(_core PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${gradwire_python_dir})
target_include_directories(_core PRIVATE python/bindings)
target_include_directories(_core SYSTEM PRIVATE ${NB_DIR}/include) # spares us its warnings
target_compile_definitions(_core PRIVATE GRADWIRE_VERSION="${PROJECT_VERSION}")
target_link_libraries(_core PRIVATE gradwire::gradwire fmt::fmt-header-only)
gradwire_warnings(_core)

# Imported from its own folder, where no module of ours can hide one of the standard library.
nanobind_add_stub(
  _core_stub
  MODULE _core
  OUTPUT ${gradwire_python_dir}/_core.pyi
  PYTHON_PATH ${gradwire_python_dir}
  DEPENDS _core)
add_custom_target(gradwire_python ALL DEPENDS _core_stub)
add_dependencies(gradwire_product gradwire_python)

if(GRADWIRE_PYTHON_INPLACE)
  set(gradwire_inplace_dir ${CMAKE_CURRENT_SOURCE_DIR}/python/gradwire)
  add_custom_command(
    TARGET gradwire_python
    POST_BUILD
    COMMAND ${CMAKE_COMMAND} -E copy_if_different $<TARGET_FILE:_core>
            ${gradwire_python_dir}/_core.pyi ${gradwire_inplace_dir}
    COMMENT "Copying the extension and its stub into python/gradwire"
    VERBATIM)
endif()

# Only wheels install the extension; a plain `cmake --install` is for C++.
if(SKBUILD)
  install(TARGETS _core LIBRARY DESTINATION gradwire COMPONENT python)
  install(FILES ${gradwire_python_dir}/_core.pyi DESTINATION gradwire COMPONENT python)
endif()
