// Shows in the terminal what magnitude-aware linear attention is for: it sharpens like softmax,
// and costs as little as linear attention.
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

void show_times(int64_t threads) {
  print_heading("2. And it should stay cheap: microseconds per token");
  std::printf(
      "Softmax compares every token with every other: twice the tokens, four times the\n"
      "work. MALA keeps one small sum instead: twice the tokens, twice the work.\n"
      "One head of 64 numbers, float32, %ld threads (%s). `published` is the paper's\n"
      "formula in PyTorch; `mala` is this library, and gives the same numbers.\n\n",
      static_cast<long>(threads), cpu::current_isa().c_str());
  show_speed();
}

int run(int argc, char** argv) {
  if (argc > 1) {
    const std::string_view argument = argv[1];
    check(argument == "--help" || argument == "-h", "magnitude_demo", "unknown argument '",
          argument, "'; it takes none");
    std::puts("magnitude_demo: the ratio test and the time per token. It takes no arguments.");
    return 0;
  }
  const int64_t threads = set_threads(0);
  const Bystanders bystanders;
  show_ratios();
  show_times(threads);
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
