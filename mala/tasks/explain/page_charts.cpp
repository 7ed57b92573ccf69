// Charts and tables of the page.
#include "mala/tasks/explain/page_charts.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "mala/core/error.h"
#include "mala/tasks/explain/chart.h"

namespace mala::tasks {
namespace {

using Stages = std::vector<StageExplanation>;
using Measure = std::function<double(const RuleMeasures&)>;

constexpr std::array<const char*, kRules> kNames{"softmax", "linear", "InLine", "MALA"};

std::string css_class(size_t rule) { return std::string(nn::word_for(kExplained[rule])); }

std::string legend() {
  std::string out = "<div class=\"keys\">";
  for (size_t rule = 0; rule < kRules; ++rule) out += rule_key(rule);
  return out + "</div>";
}

// What each stage has of one measure, with a place for every stage on the x axis.
Chart stage_chart(const Stages& stages, const std::string& title, const Measure& measure,
                  size_t first_rule = 0) {
  Chart chart{.title = title, .x_title = "stage"};
  for (size_t i = 0; i < stages.size(); ++i) {
    chart.x.push_back(static_cast<double>(i + 1));
    chart.x_labels.push_back(std::to_string(i + 1));
  }
  for (size_t rule = first_rule; rule < kRules; ++rule) {
    Series series{.name = kNames[rule], .css_class = css_class(rule), .has_dots = true};
    for (const StageExplanation& stage : stages) {
      series.values.push_back(measure(stage.measures[rule]));
    }
    chart.series.push_back(series);
  }
  return chart;
}

// An axis from 0, or from below where values are, to a little above the largest.
void fit_axis(Chart& chart, double least_high) {
  chart.low = 0;
  chart.high = least_high;
  for (const Series& series : chart.series) {
    for (const auto* values : {&series.values, &series.low, &series.high}) {
      for (const double value : *values) {
        if (!std::isfinite(value)) continue;
        chart.low = std::min(chart.low, 1.05 * value);
        chart.high = std::max(chart.high, 1.05 * value);
      }
    }
  }
}

Chart magnitude_chart(const Stages& stages) {
  Chart chart = stage_chart(stages, "How large the queries are", [](const auto&) { return 0; });
  const auto series = [&](const char* name, size_t rule, Spread StageExplanation::*spread) {
    Series out{.name = name, .css_class = css_class(rule), .has_dots = true};
    for (const StageExplanation& stage : stages) {
      out.values.push_back((stage.*spread).mean);
      out.low.push_back((stage.*spread).low);
      out.high.push_back((stage.*spread).high);
    }
    return out;
  };
  chart.series = {series("|q|, which softmax sees", 0, &StageExplanation::length),
                  series("s, which MALA sees", kRules - 1, &StageExplanation::magnitude)};
  fit_axis(chart, 0.1);
  return chart;
}

// Softmax's ratio may leave the paper; the others say how high that is.
void fit_ratio_axis(Chart& chart, const RatioCurves& curves) {
  double low = std::numeric_limits<double>::infinity(), high = 0;
  for (size_t rule = 0; rule < kRules; ++rule) {
    for (size_t i = 0; i < curves.growths.size(); ++i) {
      if (kExplained[rule] == nn::Mixer::kSoftmax && curves.growths[i] > 2) break;
      low = std::min(low, curves.measured[rule][i]);
      high = std::max(high, curves.measured[rule][i]);
    }
  }
  chart.low = std::min(low, 1.0) / 1.05;
  chart.high = std::max(1.25 * high, 1.5 * chart.low);
}

Chart ratio_chart(const RatioCurves& curves, size_t number) {
  Chart chart{.title = str("Stage ", number, ", head ", curves.head + 1),
              .x_title = "query, times as long (a)",
              .x = curves.growths,
              .is_log = true};
  for (size_t rule = 0; rule < kRules; ++rule) {
    chart.series.push_back(
        {.name = kNames[rule], .css_class = css_class(rule), .values = curves.measured[rule]});
  }
  for (size_t rule = 0; rule < kRules; ++rule) {  // over all lines
    Series says{.name = str(kNames[rule], ", formula"),
                .css_class = css_class(rule) + " says",
                .values = curves.formula[rule],
                .has_dots = true,
                .has_line = false};
    for (size_t i = 0; i < says.values.size(); ++i) {
      if (i % 4 != 0) says.values[i] = std::numeric_limits<double>::quiet_NaN();
    }
    chart.series.push_back(says);
  }
  fit_ratio_axis(chart, curves);
  return chart;
}

std::string ratio_figure(const StageExplanation& stage, size_t number) {
  if (!stage.ratio) {
    return str("<figure><h3>Stage ", number,
               "</h3><p class=\"soft\">Fewer than two keys keep positive ",
               "weights under all four rules while the query grows, so there is no ratio to follow."
               "</p></figure>");
  }
  const RatioCurves& curves = *stage.ratio;
  std::string caption;
  for (size_t rule = 0; rule < kRules; ++rule) {
    const std::vector<double>& ratio = curves.measured[rule];
    caption += str("<span>", kNames[rule], " ", short_number(ratio.front()), " &rarr; ",
                   short_number(ratio.back()), "</span> ");
  }
  return str("<figure>", draw_chart(ratio_chart(curves, number)),
             "<figcaption class=\"soft ratios\">", caption, "</figcaption></figure>");
}

std::string table_of(const Stages& stages,
                     const std::vector<std::pair<std::string, Measure>>& columns) {
  std::string out = "<div class=\"scroll\"><table><tr><th>stage</th><th>rule</th>";
  for (const auto& [title, measure] : columns) out += str("<th>", title, "</th>");
  out += "</tr>";
  for (size_t i = 0; i < stages.size(); ++i) {
    for (size_t rule = 0; rule < kRules; ++rule) {
      out += str("<tr", rule == 0 ? " class=\"first\"" : "", "><td>",
                 rule == 0 ? str(i + 1) : std::string(), "</td><td>", rule_key(rule), "</td>");
      for (const auto& [title, measure] : columns) {
        out += str("<td>", short_number(measure(stages[i].measures[rule])), "</td>");
      }
      out += "</tr>";
    }
  }
  return out + "</table></div>";
}

}  // namespace

std::string rule_key(size_t rule) {
  return str("<b class=\"key ", css_class(rule), "\">", kNames[rule], "</b>");
}

std::string ratio_section(const Stages& stages) {
  std::string out =
      "<h2>Make the query longer</h2><p>Two keys, and the ratio p of their weights. When the query "
      "becomes a times as long, softmax takes p to p<sup>a</sup>. Linear attention leaves it: the "
      "length cancels. MALA takes it to a larger p<sub>m</sub>, as the paper proves. Lines are "
      "read "
      "from the weights, dots are the formulas.</p>" +
      legend() + "<section class=\"card pair\">";
  for (size_t i = 0; i < stages.size(); ++i) out += ratio_figure(stages[i], i + 1);
  return out + "</section>";
}

std::string sharpness_section(const Stages& stages) {
  Chart entropy = stage_chart(stages, "Entropy of the maps (1: even)",
                              [](const RuleMeasures& m) { return m.entropy; });
  fit_axis(entropy, 1);
  return "<h2>Who looks sharply, and who smooths over</h2><p>Linear attention smooths over: its "
         "maps stay near an entropy of 1 however large the query is. Bars hold eight queries of "
         "ten."
         "</p>" +
         legend() + "<section class=\"card pair\"><figure>" + draw_chart(entropy) +
         "</figure><figure>" + draw_chart(magnitude_chart(stages)) +
         "<figcaption class=\"soft\"><b class=\"softmax\">|q|</b> is what softmax sees, <b "
         "class=\"mala\">s</b> is the query's magnitude as MALA's keys see it.</figcaption>"
         "</figure></section>" +
         table_of(stages,
                  {{"entropy", [](const RuleMeasures& m) { return m.entropy; }},
                   {"sharper when the query is larger", [](const auto& m) { return m.sharpening; }},
                   {"sum of weights", [](const RuleMeasures& m) { return m.sum; }},
                   {"negative part", [](const RuleMeasures& m) { return m.negative; }}}) +
         "<p class=\"soft\">The third number is the rank correlation of a query's size with the "
         "sharpness of its map: 1 when every larger query looks more sharply, 0 when size does not "
         "matter.</p>";
}

std::string closeness_section(const Stages& stages) {
  const Measure rank = [](const RuleMeasures& m) { return m.rank_correlation; };
  const Measure distance = [](const RuleMeasures& m) { return m.divergence; };
  Chart ranks = stage_chart(stages, "Order of tokens (1: as softmax)", rank, 1);
  Chart distances = stage_chart(stages, "Divergence from softmax (0: none)", distance, 1);
  fit_axis(ranks, 1);
  fit_axis(distances, 0.01);
  return "<h2>How close to softmax</h2>" + legend() + "<section class=\"card pair\"><figure>" +
         draw_chart(ranks) + "</figure><figure>" + draw_chart(distances) + "</figure></section>" +
         table_of(stages, {{"rank correlation", rank}, {"KL divergence, nats", distance}});
}

}  // namespace mala::tasks
