# What `cmake --install` gives of the rooms above the kernels: the program, the operator's library, the
# models and all they stand on, their headers, and the package's component `models`.

# Wherever the prefix goes, the program finds the operator beside it; torch stays where it was.
set_target_properties(mala_ops PROPERTIES INSTALL_RPATH "")
file(RELATIVE_PATH bin_to_lib /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
set_target_properties(mala PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_lib}")
install(TARGETS mala RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS mala_ops LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
# Whoever comes first needs those behind it.
set(mala_model_archives)
foreach(room models nn io data core)
  install(FILES $<TARGET_FILE:mala_${room}> DESTINATION ${CMAKE_INSTALL_LIBDIR})
  list(APPEND mala_model_archives libmala_${room}.a)
endforeach()

foreach(header core/bytes core/source io/compare io/element_type io/pth io/read_weights
    io/safetensors io/weights data/image/decode data/image/find data/image/image
    data/image/prepare data/image/region data/image/resize data/label_file ops/attention)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES mala/${header}.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mala/${folder})
endforeach()
install(DIRECTORY mala/nn mala/models DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mala
  FILES_MATCHING PATTERN "*.h")

# As flags, for the same reason as mala_private_libs.
set(mala_codec_libs ${codecs_LIBRARIES})
list(TRANSFORM mala_codec_libs PREPEND -l)
configure_package_config_file(cmake/mala-models.cmake.in mala-models.cmake
  INSTALL_DESTINATION ${package_dir} PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
install(FILES ${PROJECT_BINARY_DIR}/mala-models.cmake cmake/torch_target.cmake
  DESTINATION ${package_dir})
