// Columns stand under each other, in letters and not in bytes.
#include "mala/core/text_table.h"

#include <gtest/gtest.h>

namespace mala {
namespace {

TEST(TextTable, LabelsStandLeftAndFiguresRight) {
  EXPECT_EQ(align({{.labels = {"a", "bcd"}, .figures = {"1", "10"}},
                   {.labels = {"abc", ""}, .figures = {"100", "2"}, .note = "  x"},
                   {}}),
            "a    bcd      1  10\n"
            "abc         100   2  x\n"
            "\n");
}

TEST(TextTable, CountsLetters) {
  EXPECT_EQ(
      align({{.labels = {"größe"}, .figures = {"²"}}, {.labels = {"laenge"}, .figures = {"10"}}}),
      "größe      ²\n"
      "laenge    10\n");
}

}  // namespace
}  // namespace mala
