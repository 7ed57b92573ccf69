// One draw for each image of the batch.
#include "mala/nn/drop_path.h"

#include "mala/core/error.h"

namespace mala::nn {

torch::Tensor drop_path(const torch::Tensor& branch, double probability, bool is_training) {
  check(probability >= 0 && probability < 1, "drop_path", "probability ", probability,
        "; needs 0 or more and less than 1, so that some branch is kept");
  if (!is_training || probability == 0) return branch;
  const double kept = 1 - probability;
  std::vector<int64_t> sizes(static_cast<size_t>(branch.dim()), 1);
  sizes[0] = branch.size(0);
  // A narrow type would round 1 / kept, and with it the mean of what is added.
  const auto type = at::promoteTypes(branch.scalar_type(), torch::kFloat32);
  return branch * torch::empty(sizes, branch.options().dtype(type)).bernoulli_(kept).div_(kept);
}

double drop_path_of(int64_t block, int64_t count, double last) {
  return count > 1 ? last * static_cast<double>(block) / static_cast<double>(count - 1) : 0;
}

}  // namespace mala::nn
