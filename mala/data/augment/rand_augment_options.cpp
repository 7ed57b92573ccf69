// The option string of RandAugment: letters and a number, joined by dashes.
#include <charconv>
#include <cmath>

#include "mala/core/source.h"
#include "mala/data/augment/rand_augment.h"

namespace mala::data {
namespace {

constexpr const char* kWhere = "rand_augment";
constexpr const char* kParts =
    "m (magnitude), mstd (its deviation), mmax (the largest), n (operations), p (probability) and"
    " inc (0 or 1), as in m9-mstd0.5-inc1";

struct Part {
  std::string_view key;
  double value;
};

Part parse_part(std::string_view text, const std::string& all) {
  const size_t digits = std::min(text.find_first_of("0123456789."), text.size());
  double value = 0.0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + digits, end, value);
  check(digits > 0 && error == std::errc{} && stop == end && std::isfinite(value), kWhere,
        in_quotes(text), " in ", in_quotes(all), " is no name with a number; there are ", kParts);
  return {text.substr(0, digits), value};
}

int64_t whole_number(const Part& part, double most) {
  check(part.value == std::floor(part.value) && part.value <= most, kWhere, part.key, part.value,
        ": needs a whole number up to ", most);
  return static_cast<int64_t>(part.value);
}

double up_to(const Part& part, double most) {
  check(part.value <= most, kWhere, part.key, part.value, ": needs a number up to ", most);
  return part.value;
}

constexpr double kMostMagnitude = 30.0;  // 10 is what the strengths are laid out for
constexpr double kMostOperations = 100.0;

void set(RandAugment& options, const Part& part, const std::string& all) {
  if (part.key == "m") {
    options.magnitude = up_to(part, kMostMagnitude);
  } else if (part.key == "mstd") {
    options.magnitude_deviation = part.value;
  } else if (part.key == "mmax") {
    options.largest_magnitude = up_to(part, kMostMagnitude);
  } else if (part.key == "n") {
    options.operations = whole_number(part, kMostOperations);
  } else if (part.key == "p") {
    options.probability = up_to(part, 1.0);
  } else if (part.key == "inc") {
    options.increasing = whole_number(part, 1.0) != 0;
  } else {
    check(false, kWhere, "there is no ", in_quotes(part.key), ", which came in ", in_quotes(all),
          "; there are ", kParts);
  }
}

}  // namespace

RandAugment parse_rand_augment(const std::string& text) {
  RandAugment options;
  std::string_view rest = text;
  if (rest.starts_with("rand-")) rest.remove_prefix(5);
  check(!rest.empty(), kWhere, in_quotes(text), " says nothing; there are ", kParts);
  while (true) {
    const size_t dash = rest.find('-');
    set(options, parse_part(rest.substr(0, dash), text), text);
    if (dash == std::string_view::npos) return options;
    rest.remove_prefix(dash + 1);
  }
}

}  // namespace mala::data
