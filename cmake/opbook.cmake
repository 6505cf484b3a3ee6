# What every build of this repository needs, whether of the whole or of one chapter alone: settings,
# dependencies, the CUDA compiler where there is one, and add_chapter(). Include it after project().
include_guard(GLOBAL)

get_filename_component(OPBOOK_ROOT "${CMAKE_CURRENT_LIST_DIR}" DIRECTORY)

option(OPBOOK_WERROR "Treat warnings in this repository's own code as errors" ON)
option(OPBOOK_NATIVE "Compile for the processor of this machine (-march=native)" ON)
option(OPBOOK_SANITIZE "Compile with AddressSanitizer and UndefinedBehaviorSanitizer" OFF)
set(OPBOOK_TESTS "" CACHE STRING "Tests to build: a regular expression on source files; empty: all")
set(OPBOOK_CUDA AUTO CACHE STRING "CUDA code: AUTO (where a CUDA compiler is), ON or OFF")
set_property(CACHE OPBOOK_CUDA PROPERTY STRINGS AUTO ON OFF)
option(OPBOOK_CUDA_FALLBACK "Compile CUDA code as for sm_75, whatever the architecture" OFF)

set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release or RelWithDebInfo" FORCE)
endif()

include(CTest)
include("${CMAKE_CURRENT_LIST_DIR}/stop.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/dependencies.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/cuda.cmake")

# Flags that every target of ours shares, and whatever links to one.
#
# -ffp-contract=off: a*b + c rounds twice wherever the source does not say fma, so that results do
# not depend on the compiler's taste. Fast-math appears nowhere: it removes the NaN checks too. One
# -march for all files, since an inline function must mean the same in each of them.
add_library(opbook_settings INTERFACE)
target_compile_features(opbook_settings INTERFACE cxx_std_20)
target_include_directories(opbook_settings INTERFACE "${OPBOOK_ROOT}")
target_compile_definitions(opbook_settings INTERFACE OPBOOK_SOURCE_DIR="${OPBOOK_ROOT}")
set(flags -ffp-contract=off)
if(OPBOOK_NATIVE)
  list(APPEND flags -march=native)
endif()
if(OPBOOK_SANITIZE)
  set(sanitizers -fsanitize=address,undefined -fno-sanitize-recover=all)
  list(APPEND flags ${sanitizers} -fno-omit-frame-pointer)
  target_link_options(opbook_settings INTERFACE ${sanitizers})
endif()
target_compile_options(opbook_settings INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${flags}>")

# Warnings are errors in our own code alone: not in what we include, nor in programs that link it.
add_library(opbook_warnings INTERFACE)
set(warnings -Wall -Wextra)
if(OPBOOK_WERROR)
  list(APPEND warnings -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # False alarms about "text" + std::string, of which GCC 12 inlines too much (GCC bug 105651), and
  # about its own AVX-512 header.
  list(APPEND warnings -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread
    -Wno-maybe-uninitialized)
endif()
target_compile_options(opbook_warnings INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${warnings}>")

opbook_cuda_flags()

include("${CMAKE_CURRENT_LIST_DIR}/add_chapter.cmake")
