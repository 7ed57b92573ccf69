// Formats the rows as a table, as JSON and as CSV.
#include "bench/support/report.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "mala/core/error.h"

namespace mala::bench {

namespace {

template <typename... Values>
std::string format(const char* pattern, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

double limit_ms(const Row& row) { return flop_count(row.shape, row.pass) / row.fma_gflops * 1e-6; }

double gflops(const Row& row) { return flop_count(row.shape, row.pass) / row.ms * 1e-6; }

// How many times faster than the published formula in the same case; 0 where that has no time.
double speedup(const Row& row, const std::vector<Row>& rows) {
  for (const Row& other : rows) {
    if (other.impl == "published" && other.outcome == Outcome::kTimed && other.pass == row.pass &&
        name(other.shape) == name(row.shape)) {
      return other.ms / row.ms;
    }
  }
  return 0;
}

std::string figures(const Row& row, const std::vector<Row>& rows) {
  if (row.outcome == Outcome::kSkipped) return "   skipped: many seconds a run; --all times it";
  if (row.outcome == Outcome::kWrong) return format("   WRONG: off by %.1e, not timed", row.error);
  // Softmax does other work, so its flop/s would mean nothing here.
  const std::string rate = row.impl == "sdpa"
                               ? std::string(18, ' ')
                               : format("%9.1f %7.1f%%", gflops(row), 100 * limit_ms(row) / row.ms);
  const double times = speedup(row, rows);
  return format("%10.3f ", row.ms) + rate + (times > 0 ? format("%8.2fx", times) : "");
}

}  // namespace

std::string table(const std::vector<Row>& rows) {
  std::string text = format("%-14s %-16s %-10s%10s %9s %8s%9s\n", "shape B,H,N,D", "pass", "impl",
                            "ms", "GFLOP/s", "of peak", "speed");
  std::string before;
  for (const Row& row : rows) {
    const std::string group = name(row.shape) + name(row.pass);
    if (!before.empty() && group != before) text += "\n";
    before = group;
    text += format("%-14s %-16s %-10s", name(row.shape).c_str(), name(row.pass).c_str(),
                   row.impl.c_str());
    text += figures(row, rows) + "\n";
  }
  return text +
         "\nof peak: share of the multiply-add rate, measured in turns with it; speed: times "
         "faster than\n"
         "published.\n";
}

std::string json(const std::vector<Row>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    if (row.outcome != Outcome::kTimed) continue;
    list.push_back({{"name", "attention"},
                    {"pass", name(row.pass)},
                    {"shape", name(row.shape)},
                    {"dtype", "float32"},
                    {"device", "cpu"},
                    {"impl", row.impl},
                    {"ms", row.ms},
                    {"limit_ms", limit_ms(row)}});
  }
  return list.dump(2) + "\n";
}

std::string csv(const std::vector<Row>& rows, const std::vector<std::string>& head) {
  std::string text;
  for (const std::string& line : head) text += "# " + line + "\n";
  text += "name,pass,batch,heads,tokens,dim,dtype,device,impl,ms,limit_ms,gflops,error\n";
  for (const Row& row : rows) {
    if (row.outcome != Outcome::kTimed) continue;
    text += str("attention,", name(row.pass), ",", name(row.shape), ",float32,cpu,", row.impl);
    text += format(",%.5g,%.5g", row.ms, limit_ms(row));
    // Softmax is another function: neither this flop count nor an error belongs to it.
    text += row.impl == "sdpa" ? ",," : format(",%.4g,%.2g", gflops(row), row.error);
    text += "\n";
  }
  return text;
}

void write_file(const std::string& path, const std::string& text) {
  const std::string beside = path + ".part";
  std::ofstream out(beside, std::ios::binary);
  out << text;
  out.close();
  check(!out.fail(), "attention_bench", "cannot write ", beside,
        "; is there such a folder, and room in it?");
  std::filesystem::rename(beside, path);
}

}  // namespace mala::bench
