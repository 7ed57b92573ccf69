// Measures and prints microseconds per token.
#include "bench/demo/speed.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "bench/demo/terminal.h"
#include "bench/support/contenders.h"
#include "mala/core/error.h"
#include "mala/core/timing.h"

namespace mala::bench {

namespace {

// Seconds that one run of softmax may take: beyond the first it is timed once and not in turns,
// beyond the second not at all.
constexpr double kLongRun = 1, kLongestRun = 12;

struct SpeedRow {
  int64_t tokens = 0;
  std::map<std::string, double> us;  // per token, by implementation
};

// Adds the times of these implementations, measured in turns, to the row.
void measure(const std::vector<std::string>& impls, const TimingLimits& limits, SpeedRow& row) {
  const int64_t tokens = row.tokens;
  const std::vector<Contender> contenders =
      make_contenders({.shape = {.tokens = tokens, .dim = 64}}, impls);
  std::vector<std::function<void()>> calls;
  for (const Contender& contender : contenders) {
    check(contender.right, "magnitude_demo", contender.impl, " is off by ", contender.error, " at ",
          tokens, " tokens, and a wrong result has no speed; run ./test");
    calls.push_back(contender.run);
  }
  const std::vector<double> ms = time_in_turns(calls, limits);
  for (size_t i = 0; i < ms.size(); ++i) {
    row.us[contenders[i].impl] = 1e3 * ms[i] / static_cast<double>(tokens);
  }
}

// `softmax_seconds` is what one run of softmax is expected to take.
SpeedRow measure_row(int64_t tokens, double softmax_seconds) {
  const TimingLimits limits{.repeats = 40, .seconds = 0.3};
  SpeedRow row{tokens, {}};
  std::vector<std::string> impls = {"published", "mala"};
  if (softmax_seconds <= kLongRun) impls.push_back("sdpa");
  measure(impls, limits, row);
  const bool once = softmax_seconds > kLongRun && softmax_seconds <= kLongestRun;
  if (once) measure({"sdpa"}, {.repeats = 1}, row);
  return row;
}

void print_row(const SpeedRow& row) {
  const bool with_softmax = row.us.count("sdpa") > 0;
  char softmax[16] = "-", against_softmax[16] = "-";
  if (with_softmax) {
    std::snprintf(softmax, sizeof softmax, "%.2f", row.us.at("sdpa"));
    std::snprintf(against_softmax, sizeof against_softmax, "%.0fx",
                  row.us.at("sdpa") / row.us.at("mala"));
  }
  std::printf("  %8ld %11s %11.3f %9.3f %16s %10.1fx\n", static_cast<long>(row.tokens), softmax,
              row.us.at("published"), row.us.at("mala"), against_softmax,
              row.us.at("published") / row.us.at("mala"));
  std::fflush(stdout);
}

void print_bars(const SpeedRow& row) {
  double longest = 0;
  for (const auto& [impl, us] : row.us) longest = std::max(longest, us);
  std::printf("\n  at %ld tokens, microseconds per token\n", static_cast<long>(row.tokens));
  for (const char* impl : {"sdpa", "published", "mala"}) {
    const auto found = row.us.find(impl);
    if (found == row.us.end()) continue;
    const std::string label = found->first == "sdpa" ? "softmax" : found->first;
    std::printf("  %-10s %-48s %9.3f\n", label.c_str(), bar(found->second, longest).c_str(),
                found->second);
  }
}

// Four times the last run: twice the tokens.
double softmax_seconds_next(const SpeedRow& row) {
  return 4e-6 * row.us.at("sdpa") * static_cast<double>(row.tokens);
}

}  // namespace

void show_speed(int64_t most_tokens) {
  std::puts(
      "               microseconds per token                  mala is faster than\n"
      "    tokens     softmax   published      mala          softmax   published");
  SpeedRow row, last_with_softmax;
  double expected = 0;
  for (int64_t tokens = kFewestTokens; tokens <= most_tokens; tokens *= 2) {
    expected = row.us.count("sdpa") > 0 ? softmax_seconds_next(row) : 4 * expected;
    row = measure_row(tokens, expected);
    if (row.us.count("sdpa") > 0) last_with_softmax = row;
    print_row(row);
  }
  const bool with_softmax = expected <= kLongestRun;
  if (!with_softmax) std::printf("  -: one run would take about %.0f seconds\n", expected);
  print_bars(last_with_softmax);
  if (!with_softmax) print_bars(row);
}

}  // namespace mala::bench
