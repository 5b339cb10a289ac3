# Build type, warnings and sanitizers for the whole build. No -march anywhere: the SIMD targets
# are chosen at run time, and a global flag would break that dispatch.

if(PROJECT_IS_TOP_LEVEL)
  get_property(gradwire_multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
  if(NOT CMAKE_BUILD_TYPE AND NOT gradwire_multi_config)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
  endif()
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)

if(GRADWIRE_SANITIZE)
  add_compile_options(-fsanitize=${GRADWIRE_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${GRADWIRE_SANITIZE})
  if(GRADWIRE_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=all)
  endif()
endif()

# Warnings for our own targets only, so that nanobind's sources keep theirs.
function(gradwire_warnings target)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
    return()
  endif()
  target_compile_options(
    ${target}
    PRIVATE -Wall
            -Wextra
            -Wpedantic
            -Wshadow
            -Wconversion
            -Wno-sign-conversion # byte and bit arithmetic; clang adds it to -Wconversion, GCC not
            $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>
            $<$<COMPILE_LANGUAGE:CXX>:-Woverloaded-virtual>
            $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict> # false on std::string + in GCC 12
  )
  if(GRADWIRE_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(GRADWIRE_SANITIZE)
    # GCC's flow analysis sees the sanitizers' own branches and warns about them.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  endif()
endfunction()
