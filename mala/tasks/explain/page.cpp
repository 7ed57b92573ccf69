// The page: the picture, the maps, and then the charts of page_charts.h.
#include "mala/tasks/explain/page.h"

#include <algorithm>
#include <cstdio>

#include "mala/core/base64.h"
#include "mala/core/error.h"
#include "mala/data/image/encode_png.h"
#include "mala/tasks/explain/chart.h"
#include "mala/tasks/explain/heat.h"
#include "mala/tasks/explain/page_charts.h"
#include "mala/tasks/explain/page_style.h"

namespace mala::tasks {
namespace {

std::string data_uri(const data::Image& image) {
  return "data:image/png;base64," + to_base64(data::encode_png(image));
}

std::string percent(double part) { return short_number(100 * part) + "%"; }

std::string ring_at(double x, double y) {
  return str("<i style=\"left:", percent(x), ";top:", percent(y), "\"></i>");
}

// `dim` where a map lies over the picture.
std::string view_of(const PageFacts& facts, const std::string& inside, const char* more = "") {
  return str("<span class=\"view ", more, "\" style=\"aspect-ratio:", facts.picture.size.width, "/",
             facts.picture.size.height, "\"><span class=\"picture\"></span>", inside, "</span>");
}

std::string colour_bar() {
  std::string stops;
  for (int i = -4; i <= 4; ++i) {
    const Colour colour = heat_colour(i / 4.0);
    stops += str(", rgb(", int{colour.red}, " ", int{colour.green}, " ", int{colour.blue}, ")");
  }
  return str("<span class=\"soft\">most negative <span class=\"bar\" style=\"background:",
             "linear-gradient(90deg", stops, ")\"></span> largest</span>");
}

std::string opening(const PageFacts& facts) {
  const std::string warning =
      facts.weights.empty()
          ? "<p class=\"warning\"><b>Random weights.</b> No file of weights was given, so the "
            "model "
            "is as it is before training. The maps show what the formulas do, not what a trained "
            "model has learned: give one with <code>--weights</code>.</p>"
          : "";
  return str(
      "<div class=\"opening\">", view_of(facts, ring_at(facts.point.x, facts.point.y)), "<div>",
      "<h1>What attention sees from one point</h1><p><b>", escaped(facts.file), "</b> through ",
      escaped(facts.model), ", ",
      facts.weights.empty() ? "with random weights" : "weights " + escaped(facts.weights), ".</p>",
      warning,
      "<p>Softmax attention costs N&sup2;. Linear attention costs N, but divides the length of the "
      "query away, and so cannot look more sharply where it matters. MALA puts the length back and "
      "stays linear. Below, four rules get <b>the same queries and keys</b>, those of the last "
      "block "
      "of each stage, for the ringed token.</p>",
      "<p>Each map is drawn in parts of its own largest weight: a map that is bright all over "
      "looks "
      "everywhere alike.<br>",
      colour_bar(), "</p></div></div>");
}

std::string map_images(const StageExplanation& stage, const QueryMap& map) {
  std::string out;
  for (size_t head = 0; head < map.weights.size(); ++head) {
    if (head == 1 && stage.heads == 1) break;  // the mean of one head is that head
    const data::Image heat = draw_heat(map.weights[head], {stage.grid.width, stage.grid.height});
    out += str("<img alt=\"\" data-head=\"", head, "\"", head > 0 ? " hidden" : "", " src=\"",
               data_uri(heat), "\">");
  }
  return out;
}

std::string map_figure(const PageFacts& facts, const StageExplanation& stage, size_t rule) {
  const QueryMap& map = stage.maps[rule];
  const auto& mean = map.weights.front();
  const double x = (static_cast<double>(stage.token % stage.grid.width) + 0.5) /
                   static_cast<double>(stage.grid.width);
  const double y = (static_cast<double>(stage.token / stage.grid.width) + 0.5) /
                   static_cast<double>(stage.grid.height);
  const bool is_own = kExplained[rule] == stage.mixer;
  std::string caption =
      str(rule_key(rule), is_own ? " <span class=\"tag\">the model's own</span>" : "",
          "<br>largest ", short_number(*std::max_element(mean.begin(), mean.end())),
          " &times; even, entropy ", short_number(map.entropy));
  caption += str("<br>sum ", short_number(map.sum));
  if (map.negative > 0.0005) caption += str(", ", percent(map.negative), " of it negative");
  return str("<figure>", view_of(facts, map_images(stage, map) + ring_at(x, y), "dim"),
             "<figcaption>", caption, "</figcaption></figure>");
}

std::string head_choice(const StageExplanation& stage) {
  if (stage.heads == 1) return "";
  std::string out = "<label>Show <select><option value=\"0\">the mean of the heads</option>";
  for (int64_t head = 1; head <= stage.heads; ++head) {
    out += str("<option value=\"", head, "\">head ", head, "</option>");
  }
  return out + "</select></label>";
}

std::string stage_card(const PageFacts& facts, const StageExplanation& stage, size_t number) {
  std::string out =
      str("<section class=\"card\"><div class=\"top\"><h3>Stage ", number, "</h3><small>",
          stage.grid.height, " &times; ", stage.grid.width, " tokens, ", stage.heads,
          stage.heads == 1 ? " head" : " heads", " of ", stage.head_dim, "</small>",
          head_choice(stage), "</div><div class=\"row\">");
  for (size_t rule = 0; rule < kRules; ++rule) out += map_figure(facts, stage, rule);
  return out + "</div></section>";
}

std::string notes(const PageFacts& facts) {
  return str(
      "<h2>How this was reckoned</h2><ul>"
      "<li>The picture is scaled and cut to its middle as the model wants it. The model runs once, "
      "with its own mixers; queries and keys are taken from the last block of each stage.</li>"
      "<li>Softmax takes q and k after RoPE. The linear rules take the features ELU + 1, then "
      "RoPE, "
      "in the norm that the released weights were trained with: the magnitude s is taken before "
      "RoPE, so the weights of a query need not sum to one.</li>"
      "<li>InLine and MALA subtract, so some weights may be negative. Maps show them in blue. For "
      "entropy and divergence they count as nothing and the rest is divided by its sum; ranks take "
      "the weights as they are.</li>"
      "<li>Entropy is in parts of that of an even map. Divergence is Kullback and Leibler's, from "
      "softmax's map to the rule's, in nats; no share counts as less than a thousandth of the "
      "mean. "
      "Ranks are compared by Spearman's correlation.</li>"
      "<li>Charts and tables of a stage are means over all heads and up to ",
      facts.sample, " queries, spread evenly over the picture.</li></ul>");
}

}  // namespace

std::string draw_page(const PageFacts& facts, const std::vector<StageExplanation>& stages) {
  check(!stages.empty(), "draw_page", "there are no stages to show");
  std::string out =
      str("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
          "content=\"width=device-width, initial-scale=1\"><title>What attention sees in ",
          escaped(facts.file), "</title><style>:root{--picture:url(", data_uri(facts.picture), ")}",
          kPageStyle, "</style></head><body>", opening(facts));
  out += "<h2>The same query under four rules</h2>";
  for (size_t i = 0; i < stages.size(); ++i) out += stage_card(facts, stages[i], i + 1);
  out += ratio_section(stages) + sharpness_section(stages) + closeness_section(stages);
  return out + notes(facts) + str("<script>", kPageScript, "</script></body></html>\n");
}

}  // namespace mala::tasks
