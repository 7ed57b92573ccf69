// Axes, lines, dots and bars.
#include "mala/tasks/explain/chart.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "mala/core/error.h"

namespace mala::tasks {
namespace {

constexpr double kWidth = 340, kHeight = 220;
constexpr double kLeft = 46, kRight = 12, kTop = 30, kBottom = 40;

std::string pixels(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

// Where numbers of a chart lie on the paper.
class Paper {
 public:
  explicit Paper(const Chart& chart) : chart_(chart) {
    // Labels stand for columns, which need room on both sides.
    const double span = chart.x.back() - chart.x.front();
    room_ = chart.x_labels.empty() ? 0 : 0.12 * std::max(span, 1.0);
  }

  double x(double value) const {
    const double from = chart_.x.front() - room_, to = chart_.x.back() + room_;
    const double part = to > from ? (value - from) / (to - from) : 0.5;
    return kLeft + part * (kWidth - kLeft - kRight);
  }

  double y(double value) const {
    const auto on_axis = [&](double v) { return chart_.is_log ? std::log(v) : v; };
    const double from = on_axis(chart_.low), to = on_axis(chart_.high);
    const double part = to > from ? (on_axis(value) - from) / (to - from) : 0.5;
    // Far beyond the paper is as good as a little beyond.
    return kHeight - kBottom - std::clamp(part, -1.0, 2.0) * (kHeight - kTop - kBottom);
  }

 private:
  const Chart& chart_;
  double room_ = 0;
};

bool can_draw(const Chart& chart, double value) {
  return std::isfinite(value) && (!chart.is_log || value > 0);
}

std::string text_at(double x, double y, const char* anchor, const std::string& text,
                    const char* css_class = "tick") {
  return str("<text x=\"", pixels(x), "\" y=\"", pixels(y), "\" text-anchor=\"", anchor,
             "\" class=\"", css_class, "\">", escaped(text), "</text>");
}

// Round numbers within the axis: three to six of them, or the powers of ten.
std::vector<double> ticks_of(double low, double high) {
  const double rough = (high - low) / 4;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = power;
  for (const double factor : {2.0, 5.0, 10.0}) {
    if (step < rough) step = factor * power;
  }
  std::vector<double> ticks;
  for (double at = std::ceil(low / step) * step; at <= high + step * 1e-9; at += step) {
    ticks.push_back(std::abs(at) < step * 1e-9 ? 0 : at);
  }
  return ticks;
}

std::vector<double> log_ticks_of(double low, double high) {
  const double decades = std::log10(high / low);
  std::vector<double> ticks;
  if (decades < 1.5) {
    for (double power = std::pow(10, std::floor(std::log10(low))); power <= high; power *= 10) {
      for (const double factor : {1.0, 1.5, 2.0, 3.0, 5.0, 7.0}) {
        if (factor * power >= low && factor * power <= high) ticks.push_back(factor * power);
      }
    }
    return ticks;
  }
  const double step = std::max(1.0, std::ceil(decades / 5));
  for (double at = std::ceil(std::log10(low)); at <= std::log10(high) + 1e-9; at += step) {
    ticks.push_back(std::pow(10, at));
  }
  return ticks;
}

std::string draw_axes(const Chart& chart, const Paper& paper) {
  std::string out;
  const auto ticks =
      chart.is_log ? log_ticks_of(chart.low, chart.high) : ticks_of(chart.low, chart.high);
  for (const double tick : ticks) {
    const double y = paper.y(tick);
    out += str("<path class=\"grid\" d=\"M", pixels(kLeft), " ", pixels(y), "H",
               pixels(kWidth - kRight), "\"/>");
    out += text_at(kLeft - 6, y + 4, "end", short_number(tick));
  }
  const double below = kHeight - kBottom + 16;
  if (chart.x_labels.empty()) {
    for (const double tick : ticks_of(chart.x.front(), chart.x.back())) {
      out += text_at(paper.x(tick), below, "middle", short_number(tick));
    }
  }
  for (size_t i = 0; i < chart.x_labels.size(); ++i) {
    out += text_at(paper.x(chart.x[i]), below, "middle", chart.x_labels[i]);
  }
  return out + text_at((kLeft + kWidth - kRight) / 2, kHeight - 6, "middle", chart.x_title);
}

// Points of different series stand beside each other where x has labels.
double shift_of(const Chart& chart, size_t series) {
  if (chart.x_labels.empty()) return 0;
  return 7 * (static_cast<double>(series) - (static_cast<double>(chart.series.size()) - 1) / 2);
}

std::string draw_series(const Chart& chart, const Paper& paper, size_t index) {
  const Series& series = chart.series[index];
  const double shift = shift_of(chart, index);
  std::string line, marks;
  for (size_t i = 0; i < chart.x.size(); ++i) {
    if (!can_draw(chart, series.values[i])) continue;
    const std::string x = pixels(paper.x(chart.x[i]) + shift);
    const std::string y = pixels(paper.y(series.values[i]));
    line += str(line.empty() ? "M" : "L", x, " ", y);
    if (!series.low.empty() && can_draw(chart, series.low[i])) {
      marks += str("<path class=\"range\" d=\"M", x, " ", pixels(paper.y(series.low[i])), "V",
                   pixels(paper.y(series.high[i])), "\"/>");
    }
    if (series.has_dots) {
      marks += str("<circle cx=\"", x, "\" cy=\"", y, "\" r=\"3.6\"><title>", escaped(series.name),
                   ": ", short_number(series.values[i]), "</title></circle>");
    }
  }
  if (!series.has_line) line.clear();
  return str("<g class=\"series ", series.css_class, "\"><path d=\"", line, "\"/>", marks, "</g>");
}

// A picture within the picture cuts off what lies beyond the axes, with room for half a dot.
std::string open_paper() {
  const double x = kLeft - 4, y = kTop - 4;
  const double width = kWidth - kLeft - kRight + 8, height = kHeight - kTop - kBottom + 8;
  return str("<svg x=\"", x, "\" y=\"", y, "\" width=\"", width, "\" height=\"", height,
             "\" viewBox=\"", x, " ", y, " ", width, " ", height, "\">");
}

}  // namespace

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string short_number(double value) {
  char text[32];
  const double size = std::abs(value);
  if (size == 0 || (size >= 1e-3 && size < 1e5)) {
    std::snprintf(text, sizeof text, size >= 1000 ? "%.0f" : "%.3g", value);
    return text;
  }
  // "1e6" and not "1.0e+06": charts have little room.
  const int power = static_cast<int>(std::floor(std::log10(size)));
  std::snprintf(text, sizeof text, "%.2ge%d", value / std::pow(10, power), power);
  return text;
}

std::string draw_chart(const Chart& chart) {
  check(!chart.x.empty() && std::isfinite(chart.low) && std::isfinite(chart.high) &&
            chart.low < chart.high && (!chart.is_log || chart.low > 0),
        "draw_chart", "an axis from ", chart.low, " to ", chart.high, " with ", chart.x.size(),
        " places");
  const Paper paper(chart);
  std::string out = str("<svg class=\"chart\" viewBox=\"0 0 ", kWidth, " ", kHeight,
                        "\" role=\"img\" aria-label=\"", escaped(chart.title), "\">");
  out += text_at(8, 16, "start", chart.title, "title") + draw_axes(chart, paper);
  out += open_paper();
  for (size_t i = 0; i < chart.series.size(); ++i) {
    check(chart.series[i].values.size() == chart.x.size(), "draw_chart", "series ",
          chart.series[i].name, " has ", chart.series[i].values.size(), " values for ",
          chart.x.size(), " places");
    out += draw_series(chart, paper, i);
  }
  return out + "</svg></svg>";
}

}  // namespace mala::tasks
