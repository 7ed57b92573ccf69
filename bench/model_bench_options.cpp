// Reads the command line of model_bench.
#include "bench/model_bench_options.h"

#include <functional>
#include <map>

#include "bench/support/flags.h"

namespace mala::bench {

namespace {

constexpr const char* kWhere = "model_bench";

std::vector<int64_t> parse_sizes(const std::string& flag, const std::string& text, char between) {
  std::vector<int64_t> sizes;
  for (const std::string& part : split(text, between)) {
    sizes.push_back(positive_number<int64_t>(kWhere, flag, part));
  }
  check(!sizes.empty(), kWhere, flag, " is empty; give it a number above 0");
  return sizes;
}

void set_size(ModelOptions& options, const std::string& text) {
  const std::vector<int64_t> sizes = parse_sizes("--size", text, 'x');
  check(sizes.size() <= 2, kWhere, "--size got '", text, "' and needs 224 or 512x2048");
  options.height = sizes.front();
  options.width = sizes.back();
}

std::vector<DType> parse_dtypes(const std::string& text) {
  std::vector<DType> dtypes;
  for (const std::string& part : split(text, ',')) {
    check(part == "float32" || part == "bfloat16", kWhere, "--dtype got '", part,
          "' and knows float32 and bfloat16: torch has nothing fast for float16 on a CPU");
    dtypes.push_back(part == "float32" ? DType::kFloat32 : DType::kBFloat16);
  }
  check(!dtypes.empty(), kWhere, "--dtype is empty; try --dtype float32");
  return dtypes;
}

using Setter = std::function<void(const std::string& value)>;

std::map<std::string, Setter> value_flags(ModelOptions& o) {
  using Text = const std::string&;
  const auto count = [](const char* flag, Text value) {
    return positive_number<int64_t>(kWhere, flag, value);
  };
  return {
      {"--models", [&](Text value) { o.models = split(value, ','); }},
      {"--batch", [&](Text value) { o.batches = parse_sizes("--batch", value, ','); }},
      {"--size", [&](Text value) { set_size(o, value); }},
      {"--dtype", [&](Text value) { o.dtypes = parse_dtypes(value); }},
      {"--mixers", [&](Text value) { o.mixers = value; }},
      {"--repeats", [&, count](Text value) { o.timing.repeats = count("--repeats", value); }},
      {"--seconds",
       [&](Text value) { o.timing.seconds = positive_number<double>(kWhere, "--seconds", value); }},
      {"--threads", [&, count](Text value) { o.threads = count("--threads", value); }},
      {"--device", [&](Text value) { o.device = value; }},
      {"--json", [&](Text value) { o.json = value; }},
  };
}

}  // namespace

ModelOptions parse_model_options(int argc, char** argv) {
  ModelOptions options;
  const auto setters = value_flags(options);
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--help" || flag == "-h") {
      options.help = true;
      continue;
    }
    const auto setter = setters.find(flag);
    check(setter != setters.end(), kWhere, "unknown argument '", flag, "'; try --help");
    check(i + 1 < argc, kWhere, flag, " needs a value; try --help");
    setter->second(argv[++i]);
  }
  check(options.device == "cpu" || options.device == "cuda", kWhere, "--device got '",
        options.device, "' and knows cpu and cuda");
  return options;
}

std::string_view model_help_text() {
  return R"(model_bench: times MAViT beside its published block structure in eager torch.

Both have the same weights. Logits are compared first; a wrong one gets no time and the program
ends with status 1. Then the two take turns, and the median time counts.

  --models LIST     of mavit_n, mavit_t, mavit_s, mavit_b, mavit_l, with ',' between (mavit_t)
  --batch LIST      pictures at once (1)
  --size N | HxW    pixels of a picture (224)
  --dtype LIST      of float32, bfloat16 (float32)
  --mixers TEXT     one of mala, softmax, linear, inline for all stages, or four with ',' between
                    (as released); the published structure has mala and softmax alone
  --repeats NUMBER  at most so many runs of each (100)
  --seconds NUMBER  no further run of each after so long, from the third run on (5)
  --threads NUMBER  worker threads (torch's own choice)
  --device NAME     cpu or cuda (cpu). On a GPU ours is one graph, replayed; the published structure
                    runs eagerly, its pictures and weights channels last
  --json FILE       the rows as a JSON list
  --help            this text

The limit is the time of the model's multiply-adds at the rate that this machine reaches in float32.
)";
}

}  // namespace mala::bench
