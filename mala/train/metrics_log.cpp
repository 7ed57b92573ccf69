// One line and one event for everything that is measured.
#include "mala/train/metrics_log.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "mala/core/mapped_file.h"
#include "mala/core/output_file.h"

namespace mala::train {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

bool is_up_to(const std::string& line, int64_t step) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  return json.is_object() && json.contains("step") && json["step"].is_number_integer() &&
         json["step"].get<int64_t>() <= step;
}

std::string lines_up_to(std::string_view text, int64_t step) {
  std::string kept;
  for (size_t start = 0; start < text.size();) {
    const size_t end = text.find('\n', start);
    if (end == text.npos) break;  // cut off while it was written
    const std::string line(text.substr(start, end - start));
    if (is_up_to(line, step)) kept += line + "\n";
    start = end + 1;
  }
  return kept;
}

// The path, once the file holds nothing from after `step`.
Source cut_back(const std::string& folder, int64_t step) {
  const std::string name = "metrics.jsonl";
  remove_parts(folder, name);
  Source source{"train", folder + "/" + name};
  AppendFile{source}.append({});  // so that there is one to read
  const MappedFile file(source);
  const std::string_view text = text_of(file.bytes());
  const std::string kept = lines_up_to(text, step);
  if (kept.size() != text.size()) {
    OutputFile shorter(source);
    shorter.write(bytes_of_text(kept));
    shorter.commit();
  }
  return source;
}

}  // namespace

MetricsLog::MetricsLog(const std::string& folder, int64_t step)
    : lines_(cut_back(folder, step)), events_(folder + "/" + io::event_file_name(now()), now()) {}

void MetricsLog::write(const std::string& kind, int64_t step, const io::Scalars& numbers) {
  const double time = now();
  nlohmann::ordered_json line{{"step", step}, {"kind", kind}, {"time", time}};
  io::Scalars curves;
  for (const auto& [name, number] : numbers) {
    line[name] = number;
    curves.emplace_back(kind + "/" + name, number);
  }
  lines_.append(bytes_of_text(line.dump() + "\n"));
  events_.write(step, time, curves);
}

}  // namespace mala::train
