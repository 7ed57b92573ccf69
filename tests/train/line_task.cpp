// The small task of the trainer's tests.
#include "tests/train/line_task.h"

#include <limits>

namespace mala::test {

using torch::Tensor;

PointsModelImpl::PointsModelImpl(double probability)
    : first(2, 16), second(16, 2), norm(torch::nn::LayerNormOptions({16})), dropout(probability) {
  register_module("first", first);
  register_module("norm", norm);
  register_module("second", second);
  scale = register_parameter("scale", torch::ones({1, 16}));
}

Tensor PointsModelImpl::forward(const Tensor& points) {
  const Tensor hidden = torch::tanh(norm->forward(first->forward(points))) * scale;
  return second->forward(torch::dropout(hidden, dropout, is_training()));
}

LineTask::LineTask(const LineOptions& options) : net(nullptr), options_(options) {
  torch::manual_seed(5);
  net = PointsModel(options.dropout);
}

namespace {

Tensor side_of(const Tensor& points) {
  return (points.select(1, 1) > torch::sin(3 * points.select(1, 0))).to(torch::kInt64);
}

}  // namespace

// Every point follows from its place in the epoch, so shards of an epoch make up the whole.
Tensor LineTask::points_at(int64_t epoch, int64_t batch, int64_t count) const {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(epoch));
  const int64_t all = options_.batch * options_.batches * options_.shard.world;
  const Tensor points = torch::rand({all, 2}, generator) * 2 - 1;
  const Tensor mine = points.slice(0, options_.shard.rank, all, options_.shard.world);
  return mine.slice(0, batch * options_.batch, batch * options_.batch + count);
}

Tensor LineTask::loss(torch::Device device) {
  Tensor points = points_at(place_.epoch, place_.batch, options_.batch).to(device);
  const Tensor sides = side_of(points);
  if (place_.epoch == 0 && place_.batch == options_.broken_batch) {
    points = points / 0.0;
  }
  ++place_.batch;
  return torch::cross_entropy_loss(net->forward(points), sides);
}

Tensor LineTask::made_up_loss(int64_t examples, torch::Device device) {
  const Tensor points = torch::rand({examples, 2}, device);
  return torch::cross_entropy_loss(net->forward(points), side_of(points));
}

std::vector<tasks::Total> LineTask::evaluate(torch::Device device) {
  const Tensor points = points_at(1000, 0, options_.batch * options_.batches).to(device);
  const Tensor right = net->forward(points).argmax(1) == side_of(points);
  return {{"accuracy", right.sum().item<double>(), static_cast<double>(points.size(0))}};
}

void LineTask::export_model(const std::string& path,
                            const std::map<std::string, std::string>& facts) {
  models::NamedTensors tensors;
  for (const auto& item : net->named_parameters()) tensors.emplace_back(item.key(), item.value());
  models::write_tensors(tensors, facts, {"test", path});
}

std::vector<float> LineTask::weights() const {
  std::vector<float> all;
  for (const Tensor& parameter : net->parameters()) {
    const Tensor row = parameter.detach().cpu().flatten().contiguous();
    all.insert(all.end(), row.const_data_ptr<float>(), row.const_data_ptr<float>() + row.numel());
  }
  return all;
}

}  // namespace mala::test
