// Reads the command line of attention_bench.
#include "bench/support/options.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>

#include "mala/core/error.h"

namespace mala::bench {

namespace {

constexpr const char* kWhere = "attention_bench";
constexpr const char* kDefaultShapes =
    "1,1,3136,64;1,2,784,64;1,1,3136,96;1,1,65536,64;1,16,4096,64;8,1,3136,64";
constexpr const char* kSweepShapes =
    "1,1,1024,64;1,1,2048,64;1,1,4096,64;1,1,8192,64;1,1,16384,64;1,1,32768,64;1,1,65536,64";

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

template <typename T>
T positive_number(const std::string& flag, const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  check(error == std::errc{} && stop == end && value > 0, kWhere, flag, " got '", text,
        "' and needs a number above 0");
  return value;
}

std::vector<Shape> parse_shapes(const std::string& text) {
  std::vector<Shape> shapes;
  for (const std::string& part : split(text, ';')) {
    const std::vector<std::string> sizes = split(part, ',');
    check(sizes.size() == 4, kWhere, "--shapes got '", part,
          "' and needs B,H,N,D; several of them stand in quotes with ';' between");
    auto size = [&](size_t i) { return positive_number<int64_t>("--shapes", sizes[i]); };
    shapes.push_back({size(0), size(1), size(2), size(3)});
    const int64_t dim = shapes.back().dim;
    check(dim % 8 == 0 && dim <= 256, kWhere, "--shapes got head size ", dim,
          " and needs a multiple of 8 up to 256");
  }
  check(!shapes.empty(), kWhere, "--shapes is empty; try --shapes 1,1,3136,64");
  return shapes;
}

std::vector<Pass> parse_passes(const std::string& text) {
  std::vector<Pass> passes;
  for (const std::string& part : split(text, ',')) {
    check(part == name(Pass::kForward) || part == name(Pass::kForwardBackward), kWhere,
          "--passes got '", part, "' and needs forward, forward_backward or both with ',' between");
    passes.push_back(part == "forward" ? Pass::kForward : Pass::kForwardBackward);
  }
  check(!passes.empty(), kWhere, "--passes is empty; try --passes forward");
  return passes;
}

std::vector<std::string> parse_impls(const std::string& text) {
  const std::vector<std::string> known = {"mala", "published", "sdpa", "kernels"};
  std::vector<std::string> impls = split(text, ',');
  for (const std::string& impl : impls) {
    check(std::find(known.begin(), known.end(), impl) != known.end(), kWhere, "--impl got '", impl,
          "' and knows mala, published, sdpa and kernels");
  }
  check(!impls.empty(), kWhere, "--impl is empty; try --impl mala,published");
  return impls;
}

using Setter = std::function<void(const std::string& flag, const std::string& value)>;

std::map<std::string, Setter> value_flags(Options& o) {
  using Text = const std::string&;
  return {
      {"--shapes", [&](Text, Text value) { o.shapes = parse_shapes(value); }},
      {"--passes", [&](Text, Text value) { o.passes = parse_passes(value); }},
      {"--impl", [&](Text, Text value) { o.impls = parse_impls(value); }},
      {"--repeats", [&](Text f, Text value) { o.repeats = positive_number<int64_t>(f, value); }},
      {"--seconds", [&](Text f, Text value) { o.seconds = positive_number<double>(f, value); }},
      {"--threads", [&](Text f, Text value) { o.threads = positive_number<int64_t>(f, value); }},
      {"--json", [&](Text, Text value) { o.json = value; }},
      {"--csv", [&](Text, Text value) { o.csv = value; }},
      {"--commit", [&](Text, Text value) { o.commit = value; }},
  };
}

// True when the flag is one without a value.
bool set_switch(Options& options, const std::string& flag) {
  if (flag == "--help" || flag == "-h") {
    options.help = true;
  } else if (flag == "--all") {
    options.all = true;
  } else if (flag == "--sweep") {
    options.shapes = parse_shapes(kSweepShapes);
    options.passes = {Pass::kForward};
  } else {
    return false;
  }
  return true;
}

}  // namespace

Options parse_options(int argc, char** argv) {
  Options options;
  options.shapes = parse_shapes(kDefaultShapes);
  options.passes = {Pass::kForward, Pass::kForwardBackward};
  options.impls = {"mala", "published", "sdpa"};
  const auto setters = value_flags(options);
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (set_switch(options, flag)) continue;
    const auto setter = setters.find(flag);
    check(setter != setters.end(), kWhere, "unknown argument '", flag, "'; try --help");
    check(i + 1 < argc, kWhere, flag, " needs a value; try --help");
    setter->second(flag, argv[++i]);
  }
  return options;
}

std::string_view help_text() {
  return R"(attention_bench: times this attention beside its published formula and softmax.

Results are compared with a float64 evaluation first; a wrong one gets no time and the program
ends with status 1. Then the implementations take turns, and the median time counts.

  --shapes "B,H,N,D;..."  sizes: batch, heads, tokens, head size
  --sweep                 1024 to 65536 tokens, one head of 64, forward only
  --passes LIST           forward, forward_backward, or both with ',' between (both)
  --impl LIST             of mala (the torch operator), published (eager torch), sdpa (softmax),
                          kernels (ours without torch, into memory that is there); the first three
  --all                   also softmax where it takes many seconds a run
  --repeats NUMBER        at most so many runs of each implementation of a case (200)
  --seconds NUMBER        no further run of each after so long, from the third run on (2)
  --threads NUMBER        worker threads (torch's own choice)
  --json FILE             the rows as a JSON list
  --csv FILE              the table as CSV, with machine, compiler and commit at its head
  --commit TEXT           the commit that --csv names
  --help                  this text
)";
}

}  // namespace mala::bench
