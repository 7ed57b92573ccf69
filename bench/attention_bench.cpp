// Times magnitude-aware linear attention beside its published formula and softmax.
#include <algorithm>
#include <cstdio>
#include <exception>

#include "bench/support/bystanders.h"
#include "bench/support/contenders.h"
#include "bench/support/options.h"
#include "bench/support/report.h"
#include "bench/support/roof.h"
#include "bench/support/sections.h"

namespace mala::bench {

namespace {

Roof measure_roof() { return {measure_fma_gflops(), measure_copy_gbytes()}; }

Roof higher(const Roof& a, const Roof& b) {
  return {std::max(a.fma_gflops, b.fma_gflops), std::max(a.copy_gbytes, b.copy_gbytes)};
}

// What is wrong with the options shows here, before anything takes long.
std::vector<std::vector<Group>> plan(const Options& options) {
  std::vector<std::vector<Group>> plans;
  for (const Section* section : options.sections) {
    plans.push_back(plan_section(*section, options.range));
  }
  for (const std::string& path : {options.json, options.csv}) {
    if (!path.empty()) check_can_write(path);
  }
  return plans;
}

int run(const Options& options) {
  if (options.help) {
    std::fputs(help_text().data(), stdout);
    return 0;
  }
  const std::vector<std::vector<Group>> plans = plan(options);
  set_threads(options.threads);
  const Bystanders bystanders;
  // Before and after, for a machine whose clock changes meanwhile.
  std::fputs("measuring the roofs ...\n", stderr);
  Roof roof = measure_roof();
  std::vector<Row> rows;
  std::string tables;
  for (size_t i = 0; i < plans.size(); ++i) {
    const Section& section = *options.sections[i];
    const std::vector<Row> more = run_section(section, plans[i], options.measure);
    rows.insert(rows.end(), more.begin(), more.end());
    tables.append(1, '\n').append(table(section, more));
  }
  roof = higher(roof, measure_roof());

  const std::vector<std::string> head = describe({roof, options.commit, bystanders.cores()});
  for (const std::string& line : head) std::printf("%s\n", line.c_str());
  std::fputs(tables.c_str(), stdout);
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
