// Element by element, through double.
#include "mala/io/cast.h"

#include <cstring>

#include "mala/core/dtypes.h"

namespace mala::io {
namespace {

template <typename Stored>
double load(const std::byte* from) {
  Stored value;
  std::memcpy(&value, from, sizeof(value));
  return to_float(value);
}

// Values of the short types are exact in float, and floats in double; from double to a short type
// the value is rounded twice, which moves it only where it lay within 2^-24 of the middle.
template <typename Stored>
void store(double value, std::byte* to) {
  const Stored rounded = round_to<Stored>(static_cast<Compute<Stored>>(value));
  std::memcpy(to, &rounded, sizeof(rounded));
}

using Load = double (*)(const std::byte*);
using Store = void (*)(double, std::byte*);

struct Access {
  Load load = nullptr;
  Store store = nullptr;
};

// Empty for what is no float of sixteen bits or more.
Access access(ElementType type) {
  switch (type) {
    case ElementType::kFloat64:
      return {load<double>, store<double>};
    case ElementType::kFloat32:
      return {load<float>, store<float>};
    case ElementType::kFloat16:
      return {load<Float16>, store<Float16>};
    case ElementType::kBFloat16:
      return {load<BFloat16>, store<BFloat16>};
    default:
      return {};
  }
}

bool is_short(ElementType type) {
  return type == ElementType::kFloat8E4M3 || type == ElementType::kFloat8E5M2;
}

}  // namespace

Weights cast_floats(Weights weights, ElementType to, const Source& source) {
  const Access target = access(to);
  source.check(target.store != nullptr, "cannot be written as ", names_of(to).torch,
               "; use float64, float32, float16 or bfloat16");
  for (Array& array : weights.arrays) {
    source.check(!is_short(array.type), in_quotes(array.name), " is of type ",
                 names_of(array.type).torch, ", which is not cast; convert without another type");
    const Access from = access(array.type);
    if (array.type == to || !from.load) continue;
    const size_t step = bytes_of(array.type), width = bytes_of(to);
    const size_t count = array.bytes.size() / step;
    auto bytes = std::make_shared<std::vector<std::byte>>(count * width);
    for (size_t i = 0; i < count; ++i) {
      target.store(from.load(array.bytes.data() + i * step), bytes->data() + i * width);
    }
    array.type = to;
    array.bytes = *bytes;
    weights.owners.push_back(bytes);
  }
  return weights;
}

}  // namespace mala::io
