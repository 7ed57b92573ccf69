// The page stands alone, escapes what it is given, and draws what the numbers say.
#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "mala/tasks/explain/chart.h"
#include "mala/tasks/explain/heat.h"
#include "mala/tasks/explain/page.h"
#include "tests/support/refusals.h"

namespace mala::tasks {
namespace {

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// Two stages of 2 x 3 tokens and two heads; softmax sees one token, MALA one less than nothing.
std::vector<StageExplanation> two_stages() {
  StageExplanation stage{.grid = {2, 3}, .heads = 2, .head_dim = 8, .token = 4};
  for (QueryMap& map : stage.maps) {
    map.weights.assign(3, {1, 1, 1, 1, 1, 1});
    map.entropy = 1;
  }
  stage.maps[0].weights[0] = {0, 0, 6, 0, 0, 0};
  stage.maps[3].weights[0] = {2, -1, 2, 1, 1, 1};
  stage.maps[3].negative = 0.125;
  StageExplanation other = stage;
  other.ratio = RatioCurves{.growths = {1, 2}};
  for (auto* curves : {&other.ratio->measured, &other.ratio->formula}) {
    curves->fill({2, 2});
    curves->front() = {3, 9};
  }
  return {stage, other};
}

PageFacts facts(const std::string& weights) {
  return {.file = "a<b>&\"c\".png",
          .model = "mavit_n",
          .weights = weights,
          .picture = data::Image({12, 8})};
}

TEST(ExplainPage, StandsAlone) {
  const std::string page = draw_page(facts("w.pth"), two_stages());
  // Nothing but data inside the page itself, and the namespace of nothing.
  const std::regex address(R"((src|href)\s*=\s*"(?!data:)|url\((?!data:)|https?://|@import)");
  EXPECT_FALSE(std::regex_search(page.substr(0, 200000), address));
  EXPECT_NE(page.find("name=\"viewport\""), page.npos);
  EXPECT_NE(page.find("prefers-color-scheme: dark"), page.npos);
  for (const char* tag : {"section", "figure", "svg", "table", "span", "div", "g", "body"}) {
    const std::string name = tag;
    EXPECT_EQ(count(page, "<" + name + ">") + count(page, "<" + name + " "),
              count(page, "</" + name + ">"))
        << name;
  }
}

TEST(ExplainPage, ShowsEveryMapOfEveryHead) {
  const std::string page = draw_page(facts("w.pth"), two_stages());
  EXPECT_EQ(count(page, "<img "), 2u * 4 * 3);  // stages, rules, mean and two heads
  EXPECT_EQ(count(page, "<option "), 2u * 3);
  EXPECT_NE(page.find("12.5% of it negative"), page.npos);
  EXPECT_NE(page.find("Fewer than two keys keep positive"), page.npos);
  EXPECT_NE(page.find("softmax 3 &rarr; 9"), page.npos);
}

TEST(ExplainPage, WritesNamesOutAndSaysWhenWeightsAreRandom) {
  const std::string random = draw_page(facts(""), two_stages());
  EXPECT_EQ(random.find("<b>&\"c"), random.npos);
  EXPECT_NE(random.find("a&lt;b&gt;&amp;&quot;c&quot;.png"), random.npos);
  EXPECT_NE(random.find("Random weights"), random.npos);
  EXPECT_EQ(draw_page(facts("w.pth"), two_stages()).find("Random weights"), std::string::npos);
}

TEST(ExplainHeat, ColoursRiseFromBlackAndNegativeOnesAreBlue) {
  const auto light = [](Colour c) { return int{c.red} + c.green + c.blue; };
  EXPECT_EQ(light(heat_colour(0)), 0);
  for (int i = 0; i < 20; ++i) {
    EXPECT_LT(light(heat_colour(i / 20.0)), light(heat_colour((i + 1) / 20.0)));
    EXPECT_LT(light(heat_colour(-i / 20.0)), light(heat_colour(-(i + 1) / 20.0)));
  }
  EXPECT_GT(heat_colour(0.5).red, heat_colour(0.5).blue);
  EXPECT_GT(heat_colour(-0.5).blue, heat_colour(-0.5).red);
}

TEST(ExplainHeat, LiesWhereItsTokensLie) {
  const data::Image heat = draw_heat(std::vector<float>{0, 5, 0, -5}, {2, 2});
  const data::Image over = lay_over(data::Image({40, 20}), heat);
  const auto pixel = [&](int64_t x, int64_t y) { return over.row(y) + 3 * x; };
  EXPECT_EQ(pixel(10, 5)[0], 0);    // no weight: the black picture
  EXPECT_EQ(pixel(20, 0)[0], 255);  // the warmest, from its first pixel on
  EXPECT_GT(pixel(39, 19)[2], pixel(39, 19)[0]);
  EXPECT_TRUE(test::says(test::refusal([] {
                           draw_heat(std::vector<float>{1}, {2, 2});
                         }),
                         "1 weights for 2 x 2"));
}

TEST(ExplainChart, LeavesOutWhatCannotBeDrawn) {
  const Chart chart{.title = "t",
                    .x = {1, 2, 3},
                    .series = {{.name = "s", .css_class = "mala", .values = {1, NAN, -1}}},
                    .low = 0.5,
                    .high = 2,
                    .is_log = true};
  const std::string svg = draw_chart(chart);
  EXPECT_EQ(svg.find("nan"), svg.npos);
  EXPECT_NE(svg.find("class=\"series mala\""), svg.npos);
  Chart upside_down = chart;
  upside_down.high = 0.1;
  EXPECT_TRUE(test::says(test::refusal([&] { draw_chart(upside_down); }), "0.5 to 0.1"));
}

TEST(ExplainChart, NumbersAreShort) {
  EXPECT_EQ(short_number(0), "0");
  EXPECT_EQ(short_number(0.81234), "0.812");
  EXPECT_EQ(short_number(12345), "12345");
  EXPECT_EQ(short_number(1e6), "1e6");
  EXPECT_EQ(short_number(-2.5e-7), "-2.5e-7");
  EXPECT_EQ(short_number(1e120), "1e120");
  EXPECT_EQ(short_number(4.13e9), "4.1e9");
}

}  // namespace
}  // namespace mala::tasks
