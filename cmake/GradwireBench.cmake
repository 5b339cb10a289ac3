# Every bench/*.cc becomes a Google Benchmark executable <build>/bench/NAME (`_bench` is added to
# the target's name where the file does not end in it).

file(GLOB gradwire_bench_sources CONFIGURE_DEPENDS bench/*.cc)
if(NOT gradwire_bench_sources)
  message(STATUS "bench/ has no C++ benchmarks yet")
  return()
endif()

find_package(benchmark REQUIRED)
foreach(source IN LISTS gradwire_bench_sources)
  get_filename_component(name ${source} NAME_WE)
  if(NOT name MATCHES "_bench$")
    string(APPEND name _bench)
  endif()
  add_executable(${name} ${source})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench)
  target_link_libraries(${name} PRIVATE gradwire::gradwire gradwire_internal benchmark::benchmark
                                        benchmark::benchmark_main)
  gradwire_warnings(${name})
endforeach()
