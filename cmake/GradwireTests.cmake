# Every tests/cpp/*_test.cc (and one level below) becomes a GoogleTest executable of its name in
# <build>/tests and one ctest entry. Tests may include the headers of src/. GRADWIRE_TESTS_SKIP, a
# regular expression of paths, leaves some out.

file(GLOB gradwire_test_sources CONFIGURE_DEPENDS tests/cpp/*_test.cc tests/cpp/*/*_test.cc)
if(GRADWIRE_TESTS_SKIP)
  list(FILTER gradwire_test_sources EXCLUDE REGEX "${GRADWIRE_TESTS_SKIP}")
endif()
if(NOT gradwire_test_sources)
  message(STATUS "tests/cpp has no tests yet")
  return()
endif()

find_package(GTest REQUIRED)
foreach(source IN LISTS gradwire_test_sources)
  get_filename_component(name ${source} NAME_WE)
  if(TARGET ${name})
    message(FATAL_ERROR "two tests are called ${name}: ${source}")
  endif()
  add_executable(${name} ${source})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_include_directories(${name} PRIVATE tests/cpp)
  target_compile_definitions(${name}
                             PRIVATE GRADWIRE_TESTS_DIR="${CMAKE_CURRENT_SOURCE_DIR}/tests"
                                     GRADWIRE_VERSION="${PROJECT_VERSION}")
  target_link_libraries(${name} PRIVATE gradwire::gradwire gradwire_internal GTest::gmock
                                        GTest::gtest_main)
  gradwire_warnings(${name})
  # What is tested is the library; its tests need not be fast.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  # GCC 12 sees overflows in vectors that grow from a known size; GCC 13 does not.
  target_compile_options(
    ${name} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds>
                    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-stringop-overflow>
                    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-stringop-overread>)
  # GoogleTest is parsed once, for the first of them.
  if(gradwire_first_test)
    target_precompile_headers(${name} REUSE_FROM ${gradwire_first_test})
  else()
    target_precompile_headers(${name} PRIVATE <gtest/gtest.h>)
    set(gradwire_first_test ${name})
  endif()
  add_test(NAME ${name} COMMAND ${name} --gtest_brief=1
           WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT 600)
endforeach()
