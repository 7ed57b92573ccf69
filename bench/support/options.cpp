// Reads the command line of attention_bench.
#include "bench/support/options.h"

#include <algorithm>
#include <functional>
#include <map>

#include "bench/support/flags.h"
#include "mala/core/error.h"

namespace mala::bench {

namespace {

constexpr const char* kWhere = "attention_bench";
const std::vector<DType> kTypes = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

std::vector<Shape> parse_shapes(const std::string& text) {
  std::vector<Shape> shapes;
  for (const std::string& part : split(text, ';')) {
    const std::vector<std::string> sizes = split(part, ',');
    check(sizes.size() == 4, kWhere, "--shapes got '", part,
          "' and needs B,H,N,D; several of them stand in quotes with ';' between");
    auto size = [&](size_t i) { return positive_number<int64_t>(kWhere, "--shapes", sizes[i]); };
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

std::vector<DType> parse_dtypes(const std::string& text) {
  std::vector<DType> dtypes;
  for (const std::string& part : split(text, ',')) {
    const auto found = std::find_if(kTypes.begin(), kTypes.end(),
                                    [&](DType dtype) { return name(dtype) == part; });
    check(found != kTypes.end(), kWhere, "--dtype got '", part,
          "' and knows float32, bfloat16 and float16");
    dtypes.push_back(*found);
  }
  check(!dtypes.empty(), kWhere, "--dtype is empty; try --dtype float32,bfloat16");
  return dtypes;
}

std::vector<const Section*> parse_sections(const std::string& text) {
  std::vector<const Section*> sections;
  for (const std::string& part : split(text, ',')) {
    const size_t before = sections.size();
    for (const Section& section : all_sections()) {
      if (part == "all" || part == section.name) sections.push_back(&section);
    }
    check(sections.size() > before, kWhere, "--section got '", part,
          "' and knows shapes, causal, packed, decode, types, length and all");
  }
  check(!sections.empty(), kWhere, "--section is empty; try --section causal");
  return sections;
}

using Setter = std::function<void(const std::string& flag, const std::string& value)>;

std::map<std::string, Setter> value_flags(Options& o) {
  using Text = const std::string&;
  TimingLimits& timing = o.measure.timing;
  return {
      {"--section", [&](Text, Text value) { o.sections = parse_sections(value); }},
      {"--shapes", [&](Text, Text value) { o.range.shapes = parse_shapes(value); }},
      {"--passes", [&](Text, Text value) { o.range.passes = parse_passes(value); }},
      {"--dtype", [&](Text, Text value) { o.range.dtypes = parse_dtypes(value); }},
      {"--impl", [&](Text, Text value) { o.range.impls = parse_impls(value); }},
      {"--repeats",
       [&](Text f, Text value) { timing.repeats = positive_number<int64_t>(kWhere, f, value); }},
      {"--seconds",
       [&](Text f, Text value) { timing.seconds = positive_number<double>(kWhere, f, value); }},
      {"--threads",
       [&](Text f, Text value) { o.threads = positive_number<int64_t>(kWhere, f, value); }},
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
    options.measure.all = true;
  } else if (flag == "--sweep") {
    options.range.shapes = one_head(1024, 65536);
    options.range.passes = {Pass::kForward};
  } else {
    return false;
  }
  return true;
}

}  // namespace

Options parse_options(int argc, char** argv) {
  Options options;
  options.sections = parse_sections("shapes");
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

  --section LIST          which questions, with ',' between (shapes):
      shapes    how fast is the published operator, on images?
      causal    how much does the causal form cost, beside the bidirectional one and softmax?
      packed    what do sequences of mixed lengths cost, beside one sequence of as many tokens?
      decode    how near is one token to the time in which its state can be read and written?
      types     are bfloat16 and float16 as fast as float32?
      length    do time per token and memory stay the same from a thousand tokens to a million?
      all       these six

  Each section has sizes and implementations of its own, in place of which may be given:
  --shapes "B,H,N,D;..."  sizes: batch, heads, tokens, head size; decode has one token, and packed
                          takes the tokens of all entries as one
  --sweep                 1024 to 65536 tokens, one head of 64, forward only
  --passes LIST           forward, forward_backward, or both with ',' between
  --dtype LIST            of float32, bfloat16, float16
  --impl LIST             of mala (the torch operator), published (eager torch), sdpa (softmax),
                          kernels (ours without torch, into memory that is there)

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
