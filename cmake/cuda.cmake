# Sets MALA_WITH_CUDA: whether the .cu files are compiled and linked.
set(MALA_WITH_CUDA OFF)
if(MALA_CUDA STREQUAL "OFF")
  return()
endif()

include(CheckLanguage)
check_language(CUDA)
if(CMAKE_CUDA_COMPILER)
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --version OUTPUT_VARIABLE nvcc_text)
  string(REGEX MATCH "release ([0-9.]+)" nvcc_text "${nvcc_text}")
  set(nvcc_version ${CMAKE_MATCH_1})
endif()
if(NOT CMAKE_CUDA_COMPILER)
  set(why_no_cuda "no nvcc found")
elseif(nvcc_version VERSION_LESS 13)  # the newest architectures need it
  set(why_no_cuda "nvcc is of CUDA ${nvcc_version}, 13 is needed")
endif()

if(why_no_cuda AND MALA_CUDA STREQUAL "ON")
  message(FATAL_ERROR "MALA_CUDA is ON but ${why_no_cuda}; install the CUDA toolkit 13, "
    "put its nvcc on PATH, or build with -DMALA_CUDA=OFF")
elseif(why_no_cuda)
  message(STATUS "${why_no_cuda}: building for the CPU only")
  return()
endif()

# All GPUs by default. What has kernels for Hopper is translated twice, for it and for all others,
# whose machine code comes from one intermediate form, and the rest once: it takes less than half the
# time.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES OFF)
  set(MALA_CUDA_PLAIN "-gencode=arch=compute_80,code=[sm_80,sm_90,sm_100,sm_120,compute_80]")
  set(MALA_CUDA_HOPPER "-gencode=arch=compute_80,code=[sm_80,sm_100,sm_120,compute_80]"
    "-gencode=arch=compute_90a,code=sm_90a")
  set(MALA_CUDA_HOPPER_ALONE "-gencode=arch=compute_90a,code=sm_90a")
endif()
set(MALA_CUDA_FOR_HOPPER OFF)  # what plain 90 does not have
if(MALA_CUDA_HOPPER OR CMAKE_CUDA_ARCHITECTURES MATCHES "90a")
  set(MALA_CUDA_FOR_HOPPER ON)
endif()
set(CMAKE_CUDA_STANDARD 20)
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know it, nvcc 13 does
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
find_package(CUDAToolkit REQUIRED)
set(MALA_WITH_CUDA ON)
