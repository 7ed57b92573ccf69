// How processes reach each other, one file a transport: gloo.cpp, and nccl.cpp where CUDA is.
#pragma once

#include <chrono>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace mala::train {

// How long a process waits for another that may be loading, evaluating or saving.
inline constexpr std::chrono::minutes kPatience{10};

using Backend = c10::intrusive_ptr<c10d::Backend>;
using Store = c10::intrusive_ptr<c10d::Store>;

Backend make_gloo(const Store& store, int rank, int world);
// Throws mala::Error in a build without CUDA.
Backend make_nccl(const Store& store, int rank, int world);

}  // namespace mala::train
