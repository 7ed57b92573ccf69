# Language, output folders, warnings and the thread library: what every target shares.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(ccache_program ccache)
if(ccache_program AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${ccache_program})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${ccache_program})
endif()

add_library(mala_warnings INTERFACE)
add_library(mala::warnings ALIAS mala_warnings)
target_compile_options(mala_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-Wall -Wextra -Wshadow>
  $<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<BOOL:${PROJECT_IS_TOP_LEVEL}>>:-Werror>)

add_library(mala_threads INTERFACE)
if(MALA_STD_THREADS)
  find_package(Threads REQUIRED)
  target_link_libraries(mala_threads INTERFACE Threads::Threads)
  target_compile_definitions(mala_threads INTERFACE MALA_STD_THREADS)
else()
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  target_link_libraries(mala_threads INTERFACE OpenMP::OpenMP_CXX)
endif()
