// Shows in the terminal what magnitude-aware linear attention is for: it sharpens like softmax,
// and costs as little as linear attention.
#include <charconv>
#include <cstdio>
#include <exception>
#include <string_view>

#include "bench/demo/ratio.h"
#include "bench/demo/speed.h"
#include "bench/demo/terminal.h"
#include "bench/support/bystanders.h"
#include "bench/support/contenders.h"
#include "mala/core/error.h"
#include "mala/kernels/cpu/isa.h"

namespace mala::bench {

namespace {

// Float32 weights of 64 keys carry six digits; their ratio after a subtraction, five.
constexpr double kLargestDifference = 1e-4;

void show_ratios() {
  print_heading("1. A longer query should look harder");
  std::printf(
      "A token asks with its query; the answer is a mean of all tokens, and weights say\n"
      "how much each one counts. Here one query looks at %d keys. We make it 2, 4 and\n"
      "8 times longer and watch how many times more weight key A gets than key B.\n\n"
      "  query     softmax      linear        MALA     formula\n",
      kRatioKeys);
  const std::vector<RatioRow> rows = measure_ratios();
  for (const RatioRow& row : rows) {
    std::printf("  %3.0f x %11.4f %11.4f %11.4f %11.4f\n", row.growth, row.softmax, row.linear,
                row.mala, row.mala_formula);
  }
  const RatioRow &first = rows.front(), &last = rows.back();
  std::printf("  growth %9.2f x %9.2f x %9.2f x\n\n", last.softmax / first.softmax,
              last.linear / first.linear, last.mala / first.mala);
  std::printf(
      "Softmax turns a ratio p into p^a when the query grows a times. Linear attention\n"
      "divides the length of the query away: its ratio never moves. MALA keeps the\n"
      "length, and its ratio rises, as the paper's formula in the last column says. The\n"
      "weights are read out of the operators themselves, by giving each key a value of\n"
      "its own; all three agree with their formulas to %.0e.\n",
      largest_difference(rows));
  check(largest_difference(rows) <= kLargestDifference, "magnitude_demo",
        "the measured ratios are off the formulas by ", largest_difference(rows),
        "; run ./test to find the kernel that is wrong");
}

void show_times(int64_t threads, int64_t most_tokens) {
  print_heading("2. And it should stay cheap: microseconds per token");
  std::printf(
      "Softmax compares every token with every other: twice the tokens, four times the\n"
      "work. MALA keeps one small sum instead: twice the tokens, twice the work.\n"
      "One head of 64 numbers, float32, %ld threads (%s). `published` is the paper's\n"
      "formula in PyTorch; `mala` is this library, and gives the same numbers.\n\n",
      static_cast<long>(threads), cpu::current_isa().c_str());
  show_speed(most_tokens);
}

// The only argument there is.
int64_t most_tokens_of(std::string_view argument) {
  int64_t tokens = 0;
  const char* end = argument.data() + argument.size();
  const auto [stopped, error] = std::from_chars(argument.data(), end, tokens);
  check(error == std::errc{} && stopped == end && tokens >= kFewestTokens && tokens <= kMostTokens,
        "magnitude_demo", "'", argument, "' is no number of tokens from ", kFewestTokens, " to ",
        kMostTokens, "; --help tells more");
  return tokens;
}

int run(int argc, char** argv) {
  const std::string_view argument = argc > 1 ? argv[1] : "";
  if (argument == "--help" || argument == "-h") {
    std::printf(
        "magnitude_demo [TOKENS]: the ratio test, and the time per token for %ld to TOKENS tokens\n"
        "(%ld, where softmax takes most of the time).\n",
        static_cast<long>(kFewestTokens), static_cast<long>(kMostTokens));
    return 0;
  }
  check(argc <= 2, "magnitude_demo", "got ", argc - 1,
        " arguments; it takes one at most: the most tokens, such as 4096");
  const int64_t most_tokens = argc > 1 ? most_tokens_of(argument) : kMostTokens;
  const int64_t threads = set_threads(0);
  const Bystanders bystanders;
  show_ratios();
  show_times(threads, most_tokens);
  bystanders.warn();
  std::puts("\nMore figures: build/dev/bin/attention_bench --help. The formulas: docs/math.md.");
  return 0;
}

}  // namespace

}  // namespace mala::bench

int main(int argc, char** argv) try {
  return mala::bench::run(argc, argv);
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
