# The CUDA compiler, where there is one: OPBOOK_CUDA_FOUND tells the files that follow.
include(CheckLanguage)

set(OPBOOK_CUDA_FOUND FALSE)
if(OPBOOK_CUDA)
  # nvcc is often installed without being on PATH. A compiler that was missing is looked for again.
  if(NOT CMAKE_CUDA_COMPILER)
    unset(CMAKE_CUDA_COMPILER CACHE)
    find_program(OPBOOK_NVCC nvcc HINTS ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
    mark_as_advanced(OPBOOK_NVCC)
    if(OPBOOK_NVCC AND NOT DEFINED ENV{CUDACXX})
      set(ENV{CUDACXX} "${OPBOOK_NVCC}")
    endif()
  endif()

  # `native` where a GPU is visible, otherwise one architecture old and one new.
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    execute_process(COMMAND nvidia-smi -L OUTPUT_VARIABLE gpus ERROR_QUIET)
    if(gpus MATCHES "^GPU 0")
      set(CMAKE_CUDA_ARCHITECTURES native)
    else()
      set(CMAKE_CUDA_ARCHITECTURES 75 90)
    endif()
  endif()

  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.4)
      message(STATUS "CUDA ${CMAKE_CUDA_COMPILER_VERSION} is too old: 12.4 or newer")
    else()
      set(OPBOOK_CUDA_FOUND TRUE)
      find_package(CUDAToolkit REQUIRED)
    endif()
  endif()
  if(NOT OPBOOK_CUDA_FOUND AND NOT OPBOOK_CUDA STREQUAL "AUTO")
    opbook_stop("OPBOOK_CUDA=${OPBOOK_CUDA}, but there is no working CUDA compiler 12.4 or newer: "
      "install the CUDA Toolkit, put its nvcc on PATH or name it in CUDACXX")
  endif()
endif()

# The CUDA side of opbook_settings and opbook_warnings. Some versions of CMake do not know C++20 for
# nvcc and silently leave the flag out; there it is added by hand (nvcc refuses to be told twice).
function(opbook_cuda_flags)
  if(NOT OPBOOK_CUDA_FOUND)
    return()
  endif()
  # nvcc takes a conversion that is declared for one case only, by its requires clause, for useless
  # in the other (554).
  set(flags -Xcompiler=-ffp-contract=off -diag-suppress=554)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    list(APPEND flags -std=c++20)
  endif()
  # Kernels keep to the instructions of sm_75 where newer ones have a stand-in, so that those are
  # tested on any GPU.
  if(OPBOOK_CUDA_FALLBACK)
    list(APPEND flags -DOPBOOK_CUDA_FALLBACK)
  endif()
  set(warnings -Xcompiler=-Wall,-Wextra)
  if(OPBOOK_WERROR)
    list(APPEND warnings -Werror=all-warnings)
  endif()
  target_compile_options(opbook_settings INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:${flags}>")
  target_compile_options(opbook_warnings INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:${warnings}>")
endfunction()
