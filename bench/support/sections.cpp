// The questions that the sections ask.
#include "bench/support/sections.h"

namespace mala::bench {

namespace {

// One sequence of a small language model, which most sections look at.
Range text_range(std::vector<std::string> impls) {
  return {.shapes = {{1, 16, 4096, 64}},
          .passes = {Pass::kForward, Pass::kForwardBackward},
          .dtypes = {DType::kFloat32},
          .impls = std::move(impls)};
}

std::vector<Column> columns_up_to(Column last) {
  return {columns::milliseconds(), columns::rate(), columns::share_of_limit("of peak"),
          std::move(last)};
}

Rival published_rival(const Row& row) { return {row.what, "published"}; }

Section shapes_section() {
  Section section{.name = "shapes",
                  .about =
                      "of peak: share of the multiply-add rate, measured in turns with it; "
                      "speed: times faster than\npublished.",
                  .forms = {Form::kImage},
                  .range = text_range({"mala", "published", "sdpa"}),
                  .rival = published_rival,
                  .columns = columns_up_to(columns::times_faster())};
  section.range.shapes = {{1, 1, 3136, 64},  {1, 2, 784, 64},   {1, 1, 3136, 96},
                          {1, 1, 65536, 64}, {1, 16, 4096, 64}, {8, 1, 3136, 64}};
  return section;
}

Rival bidirectional_rival(const Row& row) {
  Rival rival{row.what, row.impl};
  if (rival.what.form == Form::kCausal) rival.what.form = Form::kText;
  return rival;
}

Section causal_section() {
  return {
      .name = "causal",
      .about = "as long: time over that of the same operator, bidirectional. sdpa is causal too.",
      .forms = {Form::kText, Form::kCausal},
      .range = text_range({"mala", "kernels", "sdpa"}),
      .rival = bidirectional_rival,
      .columns = columns_up_to(columns::times_as_long())};
}

// All tokens in one entry, as sequences that are packed must be.
Shape in_one_entry(Shape shape) { return {1, shape.heads, shape.batch * shape.tokens, shape.dim}; }

Rival one_sequence_rival(const Row& row) {
  Rival rival{row.what, row.impl};
  rival.what.form = is_causal(row.what.form) ? Form::kCausal : Form::kText;
  return rival;
}

Section packed_section() {
  return {.name = "packed",
          .about =
              "as long: time of the tokens packed as sequences of mixed lengths, over that of "
              "the same tokens\nas one sequence.",
          .forms = {Form::kText, Form::kPacked, Form::kCausal, Form::kPackedCausal},
          .range = text_range({"kernels"}),
          .fit = in_one_entry,
          .rival = one_sequence_rival,
          .columns = columns_up_to(columns::times_as_long())};
}

Shape with_one_token(Shape shape) { return {shape.batch, shape.heads, 1, shape.dim}; }

Section decode_section() {
  return {.name = "decode",
          .about =
              "A token for each of B sequences. GB/s: the state, read and written; of sweep: "
              "share of the speed\nat which a loop that does nothing else does that, in turns "
              "with it.",
          .forms = {Form::kDecode},
          .range = {.shapes = {{1, 16, 1, 64}, {64, 16, 1, 64}},
                    .passes = {Pass::kForward},
                    .dtypes = {DType::kFloat32, DType::kBFloat16},
                    .impls = {"kernels", "mala"}},
          .fit = with_one_token,
          .columns = {columns::microseconds(), columns::memory(), columns::state_rate(),
                      columns::share_of_limit("of sweep")}};
}

Rival float32_rival(const Row& row) {
  Rival rival{row.what, row.impl};
  rival.what.dtype = DType::kFloat32;
  return rival;
}

Section types_section() {
  Section section{.name = "types",
                  .about = "as long: time over that in float32.",
                  .forms = {Form::kImage, Form::kCausal},
                  .range = text_range({"kernels"}),
                  .rival = float32_rival,
                  .columns = columns_up_to(columns::times_as_long())};
  section.range.dtypes = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
  return section;
}

Section length_section() {
  Section section{.name = "length",
                  .about =
                      "memory: scratch and state, all that is needed beside the tensors; as "
                      "long: time over that of\nthe bidirectional form.",
                  .forms = {Form::kText, Form::kCausal},
                  .range = text_range({"kernels"}),
                  .rival = bidirectional_rival,
                  .columns = {columns::milliseconds(), columns::nanoseconds_per_token(),
                              columns::memory(), columns::times_as_long()}};
  section.range.shapes = one_head(1024, 1 << 20);
  section.range.passes = {Pass::kForward};
  return section;
}

}  // namespace

std::vector<Shape> one_head(int64_t fewest, int64_t most) {
  std::vector<Shape> shapes;
  for (int64_t tokens = fewest; tokens <= most; tokens *= 2) shapes.push_back({1, 1, tokens, 64});
  return shapes;
}

const std::vector<Section>& all_sections() {
  static const std::vector<Section> sections = {shapes_section(), causal_section(),
                                                packed_section(), decode_section(),
                                                types_section(),  length_section()};
  return sections;
}

}  // namespace mala::bench
