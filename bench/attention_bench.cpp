// Times magnitude-aware linear attention beside its published formula and softmax.
#include <algorithm>
#include <cstdio>
#include <exception>

#include "bench/support/bystanders.h"
#include "bench/support/contenders.h"
#include "bench/support/options.h"
#include "bench/support/report.h"
#include "bench/support/roof.h"
#include "bench/support/timing.h"

namespace mala::bench {

namespace {

// Softmax above this many scores takes seconds a run on a few cores.
constexpr double kMostScores = 1.5e9;

bool takes_long(const std::string& impl, const Shape& shape) {
  const double heads = static_cast<double>(shape.batch * shape.heads);
  const double tokens = static_cast<double>(shape.tokens);
  return impl == "sdpa" && heads * tokens * tokens > kMostScores;
}

Roof measure_roof() { return {measure_fma_gflops(), measure_copy_gbytes()}; }

Roof higher(const Roof& a, const Roof& b) {
  return {std::max(a.fma_gflops, b.fma_gflops), std::max(a.copy_gbytes, b.copy_gbytes)};
}

std::vector<Row> plan_rows(const Shape& shape, Pass pass, const Options& options) {
  std::vector<Row> rows;
  for (const std::string& impl : options.impls) {
    const bool skip = takes_long(impl, shape) && !options.all;
    rows.push_back({shape, pass, impl, skip ? Outcome::kSkipped : Outcome::kTimed});
  }
  return rows;
}

// Compares, then times those that are right.
std::vector<Row> run_case(const Shape& shape, Pass pass, const Options& options) {
  std::vector<Row> rows = plan_rows(shape, pass, options);
  std::vector<Row*> wanted, timed;
  std::vector<std::string> impls;
  for (Row& row : rows) {
    if (row.outcome == Outcome::kSkipped) continue;
    wanted.push_back(&row);
    impls.push_back(row.impl);
  }
  const std::vector<Contender> contenders = make_contenders(shape, pass, impls);
  std::vector<std::function<void()>> calls;
  for (size_t i = 0; i < contenders.size(); ++i) {
    wanted[i]->error = contenders[i].error;
    wanted[i]->outcome = contenders[i].error <= kLargestError ? Outcome::kTimed : Outcome::kWrong;
    if (wanted[i]->outcome == Outcome::kWrong) continue;
    calls.push_back(contenders[i].run);
    timed.push_back(wanted[i]);
  }
  double burst_flop = 0;
  calls.push_back([&] { burst_flop = multiply_add_burst(); });
  const std::vector<double> ms = time_in_turns(calls, {options.repeats, options.seconds});
  for (size_t i = 0; i < timed.size(); ++i) timed[i]->ms = ms[i];
  for (Row& row : rows) row.fma_gflops = burst_flop / ms.back() * 1e-6;
  return rows;
}

std::vector<Row> run_all(const Options& options) {
  std::vector<Row> rows;
  for (const Shape& shape : options.shapes) {
    for (const Pass pass : options.passes) {
      std::fprintf(stderr, "%s %s ...\n", name(shape).c_str(), name(pass).c_str());
      const std::vector<Row> more = run_case(shape, pass, options);
      rows.insert(rows.end(), more.begin(), more.end());
    }
  }
  return rows;
}

int run(const Options& options) {
  if (options.help) {
    std::fputs(help_text().data(), stdout);
    return 0;
  }
  set_threads(options.threads);
  const Bystanders bystanders;
  // Before and after, for a machine whose clock changes meanwhile.
  std::fputs("measuring the roofs ...\n", stderr);
  Roof roof = measure_roof();
  const std::vector<Row> rows = run_all(options);
  roof = higher(roof, measure_roof());

  const std::vector<std::string> head = describe({roof, options.commit, bystanders.cores()});
  for (const std::string& line : head) std::printf("%s\n", line.c_str());
  std::printf("\n%s", table(rows).c_str());
  bystanders.warn();
  if (!options.json.empty()) write_file(options.json, json(rows));
  if (!options.csv.empty()) write_file(options.csv, csv(rows, head));
  return std::any_of(rows.begin(), rows.end(),
                     [](const Row& row) { return row.outcome == Outcome::kWrong; });
}

}  // namespace

}  // namespace mala::bench

int main(int argc, char** argv) try {
  return mala::bench::run(mala::bench::parse_options(argc, argv));
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 2;
}
