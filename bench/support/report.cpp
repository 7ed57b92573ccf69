// Formats the rows as a table, as JSON and as CSV.
#include "bench/support/report.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "mala/core/error.h"
#include "mala/core/text_table.h"

namespace mala::bench {

namespace {

// What says which row it is; operation and type only where there are others than usual.
std::vector<Column> labels_of(const std::vector<Row>& rows) {
  auto any = [&](auto&& unusual) { return std::any_of(rows.begin(), rows.end(), unusual); };
  std::vector<Column> labels = {
      {"shape B,H,N,D", [](const Row& row) { return name(row.what.shape); }},
      {"pass", [](const Row& row) { return name(row.what.pass); }}};
  if (any([&](const Row& row) { return row.what.form != rows.front().what.form; })) {
    labels.push_back({"operation", [](const Row& row) { return name(row.what.form); }});
  }
  if (any([](const Row& row) { return row.what.dtype != DType::kFloat32; })) {
    labels.push_back({"type", [](const Row& row) { return name(row.what.dtype); }});
  }
  labels.push_back({"impl", [](const Row& row) { return row.impl; }});
  return labels;
}

Line line_of(const Row& row, const std::vector<Column>& labels, const Section& section) {
  Line line;
  for (const Column& label : labels) line.labels.push_back(label.text(row));
  if (row.outcome == Outcome::kSkipped) line.note = "  skipped: many seconds a run; --all times it";
  if (row.outcome == Outcome::kWrong) {
    line.note = "  WRONG: off by " + format("%.1e", row.error) + ", not timed";
  }
  if (row.outcome != Outcome::kTimed) return line;
  for (const Column& column : section.columns) line.figures.push_back(column.text(row));
  return line;
}

std::string beside(const std::string& path) { return path + ".part"; }

void write_beside(const std::string& path, const std::string& text) {
  std::ofstream out(beside(path), std::ios::binary);
  out << text;
  out.close();
  check(!out.fail(), "attention_bench", "cannot write ", beside(path),
        "; is there such a folder, and room in it?");
}

}  // namespace

std::string table(const Section& section, const std::vector<Row>& rows) {
  const std::vector<Column> labels = labels_of(rows);
  Line titles;
  for (const Column& label : labels) titles.labels.push_back(label.title);
  for (const Column& column : section.columns) titles.figures.push_back(column.title);
  std::vector<Line> lines = {titles};
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool same_group = i == 0 || (rows[i].what.shape == rows[i - 1].what.shape &&
                                       rows[i].what.pass == rows[i - 1].what.pass);
    if (!same_group) lines.push_back({});
    lines.push_back(line_of(rows[i], labels, section));
  }
  return align(lines) + "\n" + section.about + "\n";
}

std::string json(const std::vector<Row>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    if (row.outcome != Outcome::kTimed) continue;
    list.push_back({{"name", name(row.what.form)},
                    {"pass", name(row.what.pass)},
                    {"shape", name(row.what.shape)},
                    {"dtype", name(row.what.dtype)},
                    {"device", "cpu"},
                    {"impl", row.impl},
                    {"ms", row.ms},
                    {"limit_ms", row.limit_ms}});
  }
  return list.dump(2) + "\n";
}

std::string csv(const std::vector<Row>& rows, const std::vector<std::string>& head) {
  std::string text;
  for (const std::string& line : head) text += "# " + line + "\n";
  text +=
      "section,name,pass,batch,heads,tokens,dim,dtype,device,impl,ms,limit_ms,gflops,error,ratio,"
      "memory_bytes\n";
  for (const Row& row : rows) {
    if (row.outcome != Outcome::kTimed) continue;
    const Case& what = row.what;
    text += str(row.section, ",", name(what.form), ",", name(what.pass), ",", name(what.shape), ",",
                name(what.dtype), ",cpu,", row.impl);
    text += format(",%.5g", row.ms) + format(",%.5g", row.limit_ms);
    // Softmax is another function: neither this flop count nor an error belongs to it.
    text += has_gflops(row) ? format(",%.4g", gflops(row)) + format(",%.2g", row.error) : ",,";
    text += row.ratio > 0 ? format(",%.4g", row.ratio) : ",";
    text += row.bytes > 0 ? str(",", row.bytes) : ",";
    text += "\n";
  }
  return text;
}

void check_can_write(const std::string& path) {
  write_beside(path, "");
  std::filesystem::remove(beside(path));
}

void write_file(const std::string& path, const std::string& text) {
  write_beside(path, text);
  std::filesystem::rename(beside(path), path);
}

}  // namespace mala::bench
