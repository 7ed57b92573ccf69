// What the definition gives for a problem, remembered.
#pragma once

#include <map>
#include <string>

#include "tests/support/attention_problem.h"
#include "tests/support/causal_problem.h"

namespace mala::test {

// The definition is slow, and layouts, alignment and instruction sets do not change it.
inline void forget_layouts(AttentionCase& c) {
  c.misalign = 0;
  for (Layout& layout : c.layouts)
    if (layout != Layout::kShared) layout = Layout::kDense;
}

inline void forget_layouts(CausalCase& c) { forget_layouts(c.tokens); }

template <typename T, typename Problem>
const auto& expected_of(const Problem& problem) {
  static std::map<std::string, decltype(run_reference(problem))> known;
  auto key = problem.about;
  forget_layouts(key);
  const auto [at, is_new] =
      known.try_emplace(str("type ", static_cast<int>(dtype_of<T>()), " ", describe(key)));
  if (is_new) at->second = run_reference(problem);
  return at->second;
}

}  // namespace mala::test
