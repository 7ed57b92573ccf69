// Between the dispatcher, which knows flat lists of arguments, and functions that take a call of
// calls.h as one value.
#pragma once

#include <torch/library.h>

#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "mala/ops/arguments.h"

namespace mala::ops {

// How the dispatcher passes an argument.
template <typename Field>
constexpr bool kIsTensor =
    std::is_same_v<Field, Tensor> || std::is_same_v<Field, std::optional<Tensor>>;
template <typename Field>
using Parameter = std::conditional_t<kIsTensor<Field>, const Field&, Field>;

template <typename Call, typename Fields = decltype(Call::fields(std::declval<Call&>()))>
struct Flat;

template <typename Call, typename... Fields>
struct Flat<Call, std::tuple<Fields&...>> {
  template <typename Result>
  using Signature = Result(Parameter<Fields>...);

  // A plain function for the dispatcher, from a kernel that takes a Call.
  template <auto kernel>
  static auto run(Parameter<Fields>... values) {
    Call call{};
    Call::fields(call) = std::tie(values...);
    return kernel(call);
  }
};

// Registers a kernel, Result(const Call&), for the operator of its call.
template <auto kernel>
void implement(torch::Library& m) {
  []<typename Result, typename Call>(torch::Library& library, Result (*)(const Call&)) {
    library.impl(Call::kName, TORCH_FN((Flat<Call>::template run<kernel>)));
  }(m, kernel);
}

}  // namespace mala::ops
