# The target mala::libtorch from MALA_TORCH_DIR, the folder `torch` of an installed torch wheel, whose
# own TorchConfig.cmake insists on a CUDA toolkit. Used by the build and by the installed package.
# MALA_WITH_CUDA says whether the libraries for GPUs are linked too.
add_library(libtorch INTERFACE)
add_library(mala::libtorch ALIAS libtorch)
# After everything else: the wheel bundles another fmt.
target_compile_options(libtorch INTERFACE
  "SHELL:-idirafter \"${MALA_TORCH_DIR}/include\""
  "SHELL:-idirafter \"${MALA_TORCH_DIR}/include/torch/csrc/api/include\"")
# libtorch.so exports parts of an older libstdc++ (std::filesystem), on which programs compiled here
# crash: the system's comes first.
target_link_libraries(libtorch INTERFACE stdc++ torch torch_cpu c10)
# The rpath comes as an option, not as a link directory, because CMake would warn that the wheel's
# libgomp.so.1 hides the system's. It must: one libgomp a process means one pool of threads.
# libtorch_cpu.so needs libraries of other wheels, which it finds by its own rpath.
target_link_options(libtorch INTERFACE -L${MALA_TORCH_DIR}/lib -Wl,-rpath,${MALA_TORCH_DIR}/lib
  -Wl,--allow-shlib-undefined)
if(MALA_WITH_CUDA)
  # Nothing refers to these by name, yet they register the CUDA backend.
  target_link_libraries(libtorch INTERFACE
    -Wl,--push-state,--no-as-needed torch_cuda c10_cuda -Wl,--pop-state)
endif()
