// From torch's rebuild functions, which are never called, to sizes, strides and bytes.
#include "mala/io/pth_tensor.h"

#include <cstring>

namespace mala::io {
namespace {

using Kind = Node::Kind;

// The last element's index, counted from the first; empty where it is beyond 2^62 or a stride is
// negative. Sizes are at least one.
std::optional<uint64_t> reach(const Shape& sizes, const Shape& strides) {
  constexpr uint64_t kMost = uint64_t{1} << 62;
  uint64_t last = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (strides[i] < 0) return std::nullopt;
    const uint64_t steps = static_cast<uint64_t>(sizes[i]) - 1;
    const uint64_t stride = static_cast<uint64_t>(strides[i]);
    if (stride > 0 && steps > (kMost - last) / stride) return std::nullopt;
    last += steps * stride;
  }
  return last;
}

bool is_row_major(const Shape& sizes, const Shape& strides) {
  int64_t expected = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] != 1 && strides[i] != expected) return false;
    expected *= sizes[i];
  }
  return true;
}

// Elements of `width` bytes from wherever the strides say into rows. Where a size is one its stride
// means nothing and may be any number.
void copy_rows(const std::byte* from, const Shape& sizes, const Shape& strides, size_t width,
               std::span<std::byte> to) {
  Shape index(sizes.size(), 0);
  int64_t element = 0;
  for (size_t at = 0; at < to.size(); at += width) {
    std::memcpy(to.data() + at, from + element * static_cast<int64_t>(width), width);
    for (size_t i = sizes.size(); i-- > 0;) {
      if (sizes[i] == 1) continue;
      element += strides[i];
      if (++index[i] < sizes[i]) break;
      element -= sizes[i] * strides[i];
      index[i] = 0;
    }
  }
}

}  // namespace

struct PthTensors::Strided {
  Bytes storage;
  std::optional<ElementType> type;  // empty where the tensor itself says it
  uint64_t offset = 0;              // of the first element, in elements
  Shape sizes, strides;
};

PthTensors::Call PthTensors::find_call(NodeId id) const {
  constexpr int kMostWrappers = 4;
  for (int depth = 0; depth < kMostWrappers; ++depth) {
    const Node& node = pickle_[id];
    if (node.kind != Kind::kCall || pickle_[node.items[1]].kind != Kind::kTuple) return {};
    const Node& function = pickle_[node.items[0]];
    const std::vector<NodeId>& arguments = pickle_[node.items[1]].items;
    if (function.kind != Kind::kGlobal || !function.module.starts_with("torch")) return {};
    if (function.text == "_rebuild_from_type_v2" && arguments.size() >= 3) {
      // A subclass: the function and the arguments that make the tensor are arguments themselves.
      if (pickle_[arguments[0]].kind != Kind::kGlobal) return {};
      if (pickle_[arguments[2]].kind != Kind::kTuple) return {};
      return {pickle_[arguments[0]].text, &pickle_[arguments[2]].items};
    }
    if (!function.text.starts_with("_rebuild_parameter") || arguments.empty()) {
      if (!function.text.starts_with("_rebuild_")) return {};
      return {function.text, &arguments};
    }
    id = arguments[0];
  }
  return {};
}

bool PthTensors::is_tensor(NodeId id) const { return !find_call(id).function.empty(); }

Shape PthTensors::integers(NodeId id, const std::string& name) const {
  const std::vector<NodeId>& items = pickle_[id].items;
  archive_.source().check(items.size() <= kMostDims, in_quotes(name), " has ", items.size(),
                          " dimensions, at most ", kMostDims, " are read; the file is damaged");
  Shape values;
  for (const NodeId item : items) {
    archive_.source().check(pickle_[item].kind == Kind::kInteger, in_quotes(name),
                            " has a size that is no number; the file is damaged");
    values.push_back(pickle_[item].integer);
  }
  return values;
}

// ("storage", class, key, device, count), kept outside the pickle.
void PthTensors::read_storage(NodeId id, Strided& tensor) {
  const Source& source = archive_.source();
  const Node& node = pickle_[id];
  const bool has_id = node.kind == Kind::kPersistent && pickle_[node.items[0]].items.size() >= 5;
  source.check(has_id, "has a tensor without a storage; it is damaged");
  const std::vector<NodeId>& parts = pickle_[node.items[0]].items;
  const Node &kind = pickle_[parts[1]], &key = pickle_[parts[2]];
  source.check(kind.kind == Kind::kGlobal && key.kind == Kind::kText,
               "has a storage without a type or key; it is damaged");
  tensor.type = type_of_torch_storage(kind.text);
  source.check(tensor.type.has_value() || kind.text == "UntypedStorage", "has a storage of type ",
               in_quotes(kind.text), ", which is not read; convert it to float32 or bfloat16");
  tensor.storage = archive_.storage(key.text);
}

PthTensors::Strided PthTensors::read_call(const Call& call, const std::string& name) {
  const Source& source = archive_.source();
  const std::vector<NodeId>& arguments = *call.arguments;
  const bool says_type = call.function == "_rebuild_tensor_v3";
  const bool known =
      says_type || call.function == "_rebuild_tensor_v2" || call.function == "_rebuild_tensor";
  source.check(known, in_quotes(name), " is kept by torch's ", in_quotes(call.function),
               ", which is not read; save it as a plain dense tensor");
  source.check(arguments.size() >= (says_type ? 7u : 4u), in_quotes(name),
               " has too few facts for a tensor; the file is damaged");
  Strided tensor;
  read_storage(arguments[0], tensor);
  if (says_type) tensor.type = type_of_torch(pickle_[arguments[6]].text);
  source.check(tensor.type.has_value(), in_quotes(name), " has a type that is not read",
               says_type ? ", " + in_quotes(pickle_[arguments[6]].text) : "",
               "; convert it to float32 or bfloat16");
  const Node& offset = pickle_[arguments[1]];
  source.check(offset.kind == Kind::kInteger && offset.integer >= 0, in_quotes(name),
               " has no offset into its storage; the file is damaged");
  tensor.offset = static_cast<uint64_t>(offset.integer);
  tensor.sizes = integers(arguments[2], name);
  tensor.strides = integers(arguments[3], name);
  source.check(tensor.sizes.size() == tensor.strides.size(), in_quotes(name), " has ",
               tensor.sizes.size(), " sizes but ", tensor.strides.size(), " strides");
  return tensor;
}

Bytes PthTensors::copy(const Strided& tensor, uint64_t bytes, const std::string& name) {
  archive_.source().check(bytes <= copies_left_, in_quotes(name),
                          " repeats its storage, and would"
                          " take ",
                          bytes, " bytes; save it with .contiguous()");
  copies_left_ -= bytes;
  const size_t width = bytes_of(*tensor.type);
  const auto rows = std::make_shared<std::vector<std::byte>>(bytes);
  copy_rows(tensor.storage.data() + tensor.offset * width, tensor.sizes, tensor.strides, width,
            *rows);
  owners_.push_back(rows);
  return *rows;
}

Array PthTensors::read(NodeId id, std::string name) {
  const Source& source = archive_.source();
  const Strided tensor = read_call(find_call(id), name);
  Array array{std::move(name), *tensor.type, tensor.sizes, {}};
  const auto bytes = bytes_of(array.shape, array.type);
  source.check(bytes.has_value(), in_quotes(array.name), " has the shape ", shape_text(array.shape),
               ", too large for any memory");
  if (*bytes == 0) return array;
  const auto last = reach(tensor.sizes, tensor.strides);
  const uint64_t elements = tensor.storage.size() / bytes_of(array.type);
  source.check(
      last.has_value() && fits(tensor.offset, *last, elements) && tensor.offset + *last < elements,
      in_quotes(array.name), " reaches beyond its storage of ", elements,
      " elements; the file is cut short or damaged");
  array.bytes = is_row_major(tensor.sizes, tensor.strides)
                    ? tensor.storage.subspan(tensor.offset * bytes_of(array.type), *bytes)
                    : copy(tensor, *bytes, array.name);
  return array;
}

}  // namespace mala::io
