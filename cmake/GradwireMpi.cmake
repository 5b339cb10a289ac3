# The component `mpi` (target gradwire::mpi, header gradwire/mpi.h) and its tests. GRADWIRE_MPI=AUTO
# builds it where MPI for C++ is found; ON demands MPI; OFF leaves it out.

if(NOT GRADWIRE_MPI)
  return()
endif()
if(GRADWIRE_MPI STREQUAL "AUTO")
  find_package(MPI QUIET COMPONENTS CXX)
else()
  find_package(MPI REQUIRED COMPONENTS CXX)
endif()
if(NOT MPI_CXX_FOUND)
  message(STATUS "MPI was not found; gradwire::mpi is left out")
  return()
endif()

file(GLOB gradwire_mpi_sources CONFIGURE_DEPENDS src/mpi/*.cc)
add_library(gradwire_mpi ${gradwire_mpi_sources})
add_library(gradwire::mpi ALIAS gradwire_mpi)
set_target_properties(
  gradwire_mpi
  PROPERTIES EXPORT_NAME mpi
             POSITION_INDEPENDENT_CODE ON
             VERSION ${PROJECT_VERSION}
             SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
# MPI's C++ bindings, long removed from the standard, are not used.
target_compile_definitions(gradwire_mpi PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
target_link_libraries(
  gradwire_mpi
  PRIVATE $<BUILD_INTERFACE:gradwire_internal>
  PUBLIC gradwire::gradwire MPI::MPI_CXX)
gradwire_warnings(gradwire_mpi)
add_dependencies(gradwire_product gradwire_mpi) # what is installed with it must be there

# --- tests: one executable, run with 1 to 4 ranks ----------------------------------------------

if(NOT GRADWIRE_TESTS OR NOT MPIEXEC_EXECUTABLE)
  return()
endif()
find_package(GTest REQUIRED)
file(GLOB gradwire_mpi_test_sources CONFIGURE_DEPENDS tests/mpi/*.cc)
add_executable(mpi_test ${gradwire_mpi_test_sources})
set_target_properties(mpi_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
target_include_directories(mpi_test PRIVATE tests/cpp)
target_compile_definitions(mpi_test PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
target_link_libraries(mpi_test PRIVATE gradwire::mpi gradwire_internal GTest::gmock GTest::gtest)
gradwire_warnings(mpi_test)
target_compile_options(mpi_test PRIVATE $<$<CONFIG:Release>:-O1>)
# Open MPI: tests may run as root, on fewer cores than ranks, without a network. It leaks by
# design, which LeakSanitizer would report.
set(gradwire_mpi_environment
    OMPI_ALLOW_RUN_AS_ROOT=1
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    OMPI_MCA_rmaps_base_oversubscribe=1
    OMPI_MCA_btl_tcp_if_include=lo
    OMPI_MCA_btl_vader_single_copy_mechanism=none # needs a right that containers may lack
    OMPI_MCA_btl_base_warn_component_unused=0
    ASAN_OPTIONS=detect_leaks=0)
foreach(ranks 1 2 3 4)
  add_test(NAME mpi_test_${ranks}
           COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} ${MPIEXEC_PREFLAGS}
                   $<TARGET_FILE:mpi_test> ${MPIEXEC_POSTFLAGS} --gtest_brief=1)
  set_tests_properties(
    mpi_test_${ranks} PROPERTIES TIMEOUT 300 RUN_SERIAL ON
                                 ENVIRONMENT "${gradwire_mpi_environment}")
endforeach()
