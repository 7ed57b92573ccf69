// Makes the contenders of a case from one set of inputs, and compares their results.
#include "bench/support/contenders.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "bench/support/compare.h"
#include "bench/support/decode.h"
#include "bench/support/definition.h"
#include "bench/support/raw_kernels.h"
#include "bench/support/torch_attention.h"
#include "mala/core/error.h"
#include "mala/core/parallel.h"

namespace mala::bench {

namespace {

// The published formula needs no loop over tokens, so in double it is the quicker definition of
// what it defines.
Results expected_results(const Case& what, const Inputs& inputs) {
  const Inputs wide = in_double(inputs);
  return what.form == Form::kImage ? run_pass(published(what, at::kDouble), wide)
                                   : definition(what, wide);
}

RawCall whole_pass(const std::string& impl, const Case& what, const Inputs& inputs) {
  if (impl == "kernels") return raw_kernel_call(what, inputs);
  const Attention attention = find_attention(impl, what, inputs);
  return {[=] { return run_pass(attention, inputs); }, 0};
}

Contender compared(Contender contender, const Case& what, double error) {
  contender.error = error;
  contender.right = error <= allowed_error(contender.impl, what.dtype);
  return contender;
}

std::vector<Contender> make_passes(const Case& what, const std::vector<std::string>& impls) {
  const Inputs inputs = random_inputs(what);
  const Results expected = expected_results(what, inputs);
  std::vector<Contender> contenders;
  for (const std::string& impl : impls) {
    const RawCall call = whole_pass(impl, what, inputs);
    const double error = impl == "sdpa" ? 0 : largest_error(call.run(), expected);
    const Contender contender{
        .impl = impl, .run = [run = call.run] { run(); }, .bytes = call.bytes};
    contenders.push_back(compared(contender, what, error));
  }
  return contenders;
}

std::vector<Contender> make_decoders(const Case& what, const std::vector<std::string>& impls) {
  Case text = what;
  text.shape.tokens = kDecodedTokens;
  const Inputs inputs = random_inputs(text);
  const Results expected = definition(text, in_double(inputs));
  const int64_t bytes = decode_state_size(what.shape) * int64_t{sizeof(double)};
  const int64_t steps = decode_steps_of_run(what.shape);
  std::vector<Contender> contenders;
  for (const std::string& impl : impls) {
    const DecodeStep step = decode_step(impl, what, inputs);
    Results outs;
    for (int64_t token = 0; token < kDecodedTokens; ++token) outs.push_back(step(token).clone());
    auto run = [=] {
      for (int64_t i = 0; i < steps; ++i) step(i % kDecodedTokens);
    };
    const Contender contender{.impl = impl, .run = run, .passes = steps, .bytes = bytes};
    contenders.push_back(compared(contender, what, largest_error({at::cat(outs, 2)}, expected)));
  }
  return contenders;
}

}  // namespace

bool has_form(const std::string& impl, const Case& what) {
  if (what.form == Form::kDecode && what.pass != Pass::kForward) return false;
  if (impl == "published") return what.form == Form::kImage;
  if (impl == "sdpa") return what.form == Form::kImage || what.form == Form::kCausal;
  return true;
}

std::vector<Contender> make_contenders(const Case& what, const std::vector<std::string>& impls) {
  return what.form == Form::kDecode ? make_decoders(what, impls) : make_passes(what, impls);
}

int64_t set_threads(int64_t threads) {
  if (threads > 0) at::set_num_threads(static_cast<int>(threads));
  check(at::get_num_threads() == max_workers(), "attention_bench", "torch has ",
        at::get_num_threads(), " threads but our kernels ", max_workers(),
        "; they need one OpenMP library, that of the torch wheel");
  return max_workers();
}

}  // namespace mala::bench
