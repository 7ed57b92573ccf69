# libmala.so and libmala.a, each all of core and kernels in one file, and what `cmake --install`
# gives: both, their headers, a CMake package and a pkg-config file, without torch.
set(mala_objects $<TARGET_OBJECTS:mala_core> $<TARGET_OBJECTS:mala_kernels>)
set(exports ${PROJECT_SOURCE_DIR}/cmake/exports.map)

add_library(mala_shared SHARED ${mala_objects})
add_library(mala_static STATIC ${mala_objects})
foreach(kind shared static)
  add_library(mala::${kind} ALIAS mala_${kind})
  # Whatever the objects were made from, they link as C++: a project that uses the package need
  # not know CUDA.
  set_target_properties(mala_${kind} PROPERTIES OUTPUT_NAME mala LINKER_LANGUAGE CXX)
  target_include_directories(mala_${kind} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
  target_compile_features(mala_${kind} INTERFACE $<BUILD_INTERFACE:cxx_std_20>)
endforeach()

# Below version 1 a minor version may change the binary interface, as the package version says too.
set_target_properties(mala_shared PROPERTIES VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} LINK_DEPENDS ${exports})
target_link_options(mala_shared PRIVATE -Wl,--version-script=${exports} -Wl,--no-undefined)
target_link_libraries(mala_shared PRIVATE mala_threads PkgConfig::hwy)

# What a program that takes libmala.a links beside it, once for the CMake package and for mala.pc.
# Plain flags, not packages to find: a C project that takes libmala.so needs none of them.
set(mala_private_libs ${hwy_LIBRARIES})
list(TRANSFORM mala_private_libs PREPEND -l)
foreach(folder ${hwy_LIBRARY_DIRS})
  if(NOT folder IN_LIST CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES)
    list(PREPEND mala_private_libs -L${folder})
  endif()
endforeach()
if(MALA_STD_THREADS)
  list(APPEND mala_private_libs -pthread)
else()
  list(APPEND mala_private_libs -fopenmp)
endif()
if(MALA_WITH_CUDA)
  target_link_libraries(mala_shared PRIVATE CUDA::cudart_static)
  list(APPEND mala_private_libs -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -ldl -lrt -lpthread)
endif()
target_link_libraries(mala_static INTERFACE $<BUILD_INTERFACE:mala_threads>
  $<BUILD_INTERFACE:PkgConfig::hwy> "$<INSTALL_INTERFACE:${mala_private_libs}>")

# A project that takes us by add_subdirectory installs its own things, not ours.
if(NOT PROJECT_IS_TOP_LEVEL)
  return()
endif()

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(FILES mala/core/dtypes.h mala/core/error.h mala/core/views.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mala/core)
install(FILES mala/kernels/attention.h mala/kernels/attention_c.h mala/kernels/causal.h
    mala/kernels/causal_c.h mala/kernels/split.h mala/kernels/split_c.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mala/kernels)

# In the package, as in this tree, mala::kernels is what links everything in.
set_target_properties(mala_static PROPERTIES EXPORT_NAME kernels)
set_target_properties(mala_shared PROPERTIES EXPORT_NAME shared)
install(TARGETS mala_static mala_shared EXPORT mala-targets
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/mala)
install(EXPORT mala-targets NAMESPACE mala:: DESTINATION ${package_dir})
configure_package_config_file(cmake/mala-config.cmake.in mala-config.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(mala-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/mala-config.cmake
  ${PROJECT_BINARY_DIR}/mala-config-version.cmake DESTINATION ${package_dir})

# The way from mala.pc back to the prefix, so that the prefix can move.
file(RELATIVE_PATH pc_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" pc_to_prefix ${pc_to_prefix})
list(JOIN mala_private_libs " " pc_private_libs)
configure_file(cmake/mala.pc.in mala.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/mala.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(TARGET mala_models)
  include(${CMAKE_CURRENT_LIST_DIR}/install_models.cmake)
endif()
