# What a wheel takes: the operator library and the version of torch it was built for, beside the
# package's sources. scikit-build-core installs the component `python` into the folder of the package.
set(MALA_PYTHON_LIBRARY "" CACHE FILEPATH "a libmala_ops.so to package; empty: build one")

file(STRINGS "${MALA_TORCH_DIR}/version.py" torch_version_line REGEX "^__version__ = ")
string(REGEX REPLACE ".*'(.*)'.*" "\\1" torch_version "${torch_version_line}")
file(WRITE ${PROJECT_BINARY_DIR}/built_for_torch.txt "${torch_version}\n")
install(FILES ${PROJECT_BINARY_DIR}/built_for_torch.txt DESTINATION . COMPONENT python)

if(MALA_PYTHON_LIBRARY)
  install(FILES ${MALA_PYTHON_LIBRARY} DESTINATION . RENAME libmala_ops.so COMPONENT python)
  add_custom_target(mala_python)
  return()
endif()
add_subdirectory(mala)
# Python loads torch first, and with it all that the library needs.
set_target_properties(mala_ops PROPERTIES INSTALL_RPATH "")
install(TARGETS mala_ops LIBRARY DESTINATION . COMPONENT python)
add_custom_target(mala_python DEPENDS mala_ops)
