# Every fuzz/NAME_fuzz.cc defines LLVMFuzzerTestOneInput and is built
#   with GRADWIRE_TESTS as NAME_fuzz_replay: no engine, replays files (any compiler, in ctest);
#   with GRADWIRE_FUZZ  as NAME_fuzz: libFuzzer (clang only).
# Seeds: tests/golden, tests/malformed, fuzz/corpus/NAME.

file(GLOB gradwire_fuzz_sources CONFIGURE_DEPENDS fuzz/*_fuzz.cc)

if(GRADWIRE_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "GRADWIRE_FUZZ needs clang: use the preset `fuzz`")
  endif()
  target_compile_options(gradwire_library PRIVATE -fsanitize=fuzzer-no-link)
endif()

foreach(source IN LISTS gradwire_fuzz_sources)
  get_filename_component(target ${source} NAME_WE)
  string(REGEX REPLACE "_fuzz$" "" name ${target})
  if(GRADWIRE_FUZZ)
    add_executable(${target} ${source})
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer)
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    list(APPEND gradwire_fuzz_targets ${target})
  endif()
  if(GRADWIRE_TESTS)
    add_executable(${target}_replay ${source} fuzz/standalone_main.cc)
    list(APPEND gradwire_fuzz_targets ${target}_replay)
    add_test(
      NAME ${target}_replay
      COMMAND
        ${target}_replay ${CMAKE_CURRENT_SOURCE_DIR}/tests/golden
        ${CMAKE_CURRENT_SOURCE_DIR}/tests/malformed ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus/${name})
    set_tests_properties(${target}_replay PROPERTIES TIMEOUT 600 LABELS fuzz)
  endif()
endforeach()

foreach(target IN LISTS gradwire_fuzz_targets)
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  target_include_directories(${target} PRIVATE fuzz)
  target_link_libraries(${target} PRIVATE gradwire::gradwire gradwire_internal)
  gradwire_warnings(${target})
endforeach()
