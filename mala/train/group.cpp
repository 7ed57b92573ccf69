// c10d: a store to meet at, a process group, and torch's own reducer of gradients.
#include "mala/train/group.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <new>
#include <string_view>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "mala/core/error.h"
#include "mala/train/backends.h"

namespace mala::train {

using torch::Tensor;

struct Group::Links {
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  std::unique_ptr<c10d::Reducer> reducer;
};

namespace {

// torchrun has a store of its own, for all attempts; without it the first process has one.
Store meeting_place(const Launch& launch) {
  const char* shared = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  const bool is_shared = shared && std::string_view(shared) == "True";
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(launch.port);
  options.isServer = !is_shared && launch.rank == 0;
  options.numWorkers = static_cast<size_t>(launch.world);
  options.timeout = kPatience;
  const auto store = c10::make_intrusive<c10d::TCPStore>(launch.address, options);
  const char* attempt = std::getenv("TORCHELASTIC_RESTART_COUNT");
  return c10::make_intrusive<c10d::PrefixStore>(str("/worker/attempt_", attempt ? attempt : "0"),
                                                store);
}

c10::intrusive_ptr<c10d::ProcessGroup> connect(const Launch& launch, torch::Device device) {
  const int rank = static_cast<int>(launch.rank), world = static_cast<int>(launch.world);
  const Store store = meeting_place(launch);
  const bool is_cuda = device.is_cuda();
  const auto type =
      is_cuda ? c10d::ProcessGroup::BackendType::NCCL : c10d::ProcessGroup::BackendType::GLOO;
  const Backend backend = is_cuda ? make_nccl(store, rank, world) : make_gloo(store, rank, world);
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, world);
  group->setDefaultBackend(type);
  group->setBackend(device.type(), type, backend);
  return group;
}

[[noreturn]] void lost(const Launch& launch, std::string_view why) {
  throw Error(str("[train] process ", launch.rank, " of ", launch.world, " lost the others: ",
                  why.substr(0, why.find('\n')), "; one of them has ended: look at what it said,",
                  " and start all of them again with --resume"));
}

// Whatever the transport throws means that the others cannot be reached.
template <typename Run>
void with_others(const Launch& launch, Run&& run) {
  try {
    run();
  } catch (const c10::DistError& error) {
    lost(launch, error.what_without_backtrace());
  } catch (const c10::Error&) {
    throw;  // of the model, not of the transport
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {  // gloo's own
    lost(launch, error.what());
  }
}

}  // namespace

Group::Group(const Launch& launch, torch::Device device) : launch_(launch), device_(device) {
  if (launch.address.empty()) return;
  with_others(launch_, [&] {
    links_ = std::make_unique<Links>();
    links_->group = connect(launch, device);
  });
}

// NCCL wants to be told of an end that is none of its failures.
Group::~Group() {
  if (!links_ || !device_.is_cuda() || std::uncaught_exceptions() > 0) return;
  try {
    links_->group->shutdown();
  } catch (const std::exception&) {  // the run is over, and all of it saved
  }
}

void Group::sum(Tensor& tensor) const {
  if (!links_) return;
  with_others(launch_, [&] {
    std::vector<Tensor> tensors{tensor};
    links_->group->allreduce(tensors)->wait();
  });
}

void Group::broadcast(const std::vector<Tensor>& tensors) const {
  if (!links_) return;
  with_others(launch_, [&] {
    for (const Tensor& tensor : tensors) {
      // The transport wants rows; a model's layout may be another.
      std::vector<Tensor> rows{tensor.detach().contiguous()};
      links_->group->broadcast(rows)->wait();
      Tensor to = tensor.detach();
      to.copy_(rows[0]);
    }
  });
}

void Group::wait_for_all() const {
  Tensor nothing = torch::zeros({1}, device_);
  sum(nothing);
}

void Group::reduce_gradients_of(const std::vector<Tensor>& parameters) {
  if (!links_) return;
  with_others(launch_, [&] {
    const std::vector<bool> dense(parameters.size(), false);
    const std::vector<size_t> limits{c10d::kDefaultFirstBucketBytes, c10d::kDefaultBucketBytesCap};
    auto [buckets, sizes] = c10d::compute_bucket_assignment_by_size(parameters, limits, dense);
    // The last layer's gradients come first.
    std::reverse(buckets.begin(), buckets.end());
    links_->reducer = std::make_unique<c10d::Reducer>(
        parameters, buckets, links_->group, dense, c10d::kDefaultBucketBytesCap,
        /*find_unused_parameters=*/false, /*gradient_as_bucket_view=*/false,
        std::unordered_map<size_t, std::string>{}, c10d::kDefaultFirstBucketBytes,
        /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false,
        std::vector<int64_t>{});
  });
}

void Group::backward(const Tensor& loss, bool is_last) const {
  if (!links_) return loss.backward();
  with_others(launch_, [&] {
    if (is_last && links_->reducer) {
      links_->reducer->rebuild_buckets();
      links_->reducer->prepare_for_backward({loss});
    }
    loss.backward();
  });
}

}  // namespace mala::train
