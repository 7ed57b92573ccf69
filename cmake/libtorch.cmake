# Finds the torch wheel that tools/setup installed, or the one that MALA_TORCH_DIR names. A Python
# package is for the torch of the Python that installs it.
if(MALA_PYTHON AND NOT MALA_TORCH_DIR)
  execute_process(OUTPUT_VARIABLE wheel ERROR_QUIET COMMAND ${Python_EXECUTABLE} -c
    "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0], end='')")
  set(MALA_TORCH_DIR "${wheel}" CACHE PATH "the folder `torch` of an installed torch wheel" FORCE)
endif()
if(NOT EXISTS "${MALA_TORCH_DIR}/include/torch/library.h")
  file(GLOB wheel "${PROJECT_SOURCE_DIR}/.venv/lib/python3.*/site-packages/torch")
  set(MALA_TORCH_DIR "${wheel}" CACHE PATH "the folder `torch` of an installed torch wheel" FORCE)
endif()
if(NOT EXISTS "${MALA_TORCH_DIR}/include/torch/library.h")
  message(FATAL_ERROR "no torch wheel in '${MALA_TORCH_DIR}'; run tools/setup, set "
    "-DMALA_TORCH_DIR=.../site-packages/torch, or build without torch: -DMALA_TORCH=OFF")
endif()
include(${CMAKE_CURRENT_LIST_DIR}/torch_target.cmake)
