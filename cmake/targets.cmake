# The kinds of target and of test. Paths are those of the folder that calls.

# mala_library(kernels SOURCES a.cpp DEPS mala::core PRIVATE_DEPS PkgConfig::hwy)
function(mala_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPS;PRIVATE_DEPS")
  add_library(mala_${name} STATIC ${arg_SOURCES})
  add_library(mala::${name} ALIAS mala_${name})
  target_link_libraries(mala_${name} PUBLIC ${arg_DEPS}
    PRIVATE ${arg_PRIVATE_DEPS} $<BUILD_INTERFACE:mala::warnings>)
  target_include_directories(mala_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
  target_compile_features(mala_${name} PUBLIC cxx_std_20)
endfunction()

# mala_test(kernels/attention DEPS mala::kernels) builds tests/kernels/attention_test.cpp
function(mala_test path)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPS")
  string(REPLACE "/" "_" target "${path}_test")
  add_executable(${target} ${path}_test.cpp ${arg_SOURCES})
  # As the library that precompiles GoogleTest is compiled.
  target_compile_options(${target} PRIVATE -fPIC)
  target_precompile_headers(${target} REUSE_FROM mala_test_support)
  mala_finish_test(${target} "${path}." ${arg_DEPS})
endfunction()

# mala_torch_tests(models NAMES card deit DEPS mala::models) builds one program of card_test.cpp and
# deit_test.cpp.
function(mala_torch_tests room)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "NAMES;SOURCES;DEPS")
  list(TRANSFORM arg_NAMES APPEND _test.cpp)
  add_executable(${room}_tests ${arg_NAMES} ${arg_SOURCES})
  mala_use_torch_headers(${room}_tests)
  mala_finish_test(${room}_tests "${room}." ${arg_DEPS})
endfunction()

function(mala_finish_test target prefix)
  target_link_libraries(${target} PRIVATE ${ARGN} mala::warnings GTest::gtest_main)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  gtest_discover_tests(${target} TEST_PREFIX "${prefix}" NO_PRETTY_VALUES DISCOVERY_TIMEOUT 60)
endfunction()

# mala_python_tests(io ENVIRONMENT NAME=VALUE) runs pytest in the calling folder, on .venv's Python.
function(mala_python_tests name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "ENVIRONMENT")
  set(python ${PROJECT_SOURCE_DIR}/.venv/bin/python)
  if(NOT EXISTS ${python})
    message(STATUS "no ${python}: the Python tests of ${name} are left out; run tools/setup")
    return()
  endif()
  add_test(NAME ${name}/python
    COMMAND ${python} -B -m pytest -q -p no:cacheprovider ${CMAKE_CURRENT_SOURCE_DIR})
  # Begun first, so that no core is without work at the end.
  set_tests_properties(${name}/python PROPERTIES ENVIRONMENT "${arg_ENVIRONMENT}" TIMEOUT 600
    COST 100)
endfunction()

# mala_bench(attention DEPS mala::ops) builds bench/attention_bench.cpp
function(mala_bench name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPS")
  add_executable(${name}_bench ${name}_bench.cpp ${arg_SOURCES})
  target_link_libraries(${name}_bench PRIVATE ${arg_DEPS} mala::warnings)
  target_include_directories(${name}_bench PRIVATE ${PROJECT_SOURCE_DIR})
endfunction()

# mala_compile_together(mala_ops) compiles several files of a target as one, so that torch's headers,
# which cost more than what stands below them, are read once for all. Names in their unnamed
# namespaces must differ.
function(mala_compile_together target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
endfunction()

# mala_use_torch_headers(mala_models) takes <torch/torch.h> precompiled, as mala_nn made it: for
# libraries, so programs must be compiled like one. Reading even that takes seconds.
function(mala_use_torch_headers target)
  target_compile_options(${target} PRIVATE -fPIC)
  target_precompile_headers(${target} REUSE_FROM mala_nn)
  mala_compile_together(${target})
endfunction()
