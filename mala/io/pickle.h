// Python pickles as a plain tree. Nothing in them is executed: what a pickle would call stays a
// name with arguments.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "mala/core/bytes.h"
#include "mala/core/source.h"

namespace mala::io {

using NodeId = uint32_t;

struct Node {
  enum class Kind : uint8_t {
    kOpaque,      // None, floats, huge integers, bytes, sets: of no use here
    kInteger,     // and booleans
    kText,        // text
    kTuple,       // items
    kList,        // items
    kDict,        // items: key, value, key, value, ...
    kGlobal,      // a class or function: module and text
    kCall,        // items: what would be called, and its arguments
    kPersistent,  // items: the id of something kept outside, such as a storage
  };
  Kind kind = Kind::kOpaque;
  int64_t integer = 0;
  std::string_view text{}, module{};  // point into the pickle
  std::vector<NodeId> items{};
};

// Nodes refer to each other by index, so lists that contain themselves are no danger.
struct Pickle {
  std::vector<Node> nodes;
  NodeId root = 0;

  const Node& operator[](NodeId id) const { return nodes[id]; }
  const Node& top() const { return nodes[root]; }
};

// Throws mala::Error when the pickle is damaged, or larger than any checkpoint's.
Pickle read_pickle(Bytes bytes, const Source& source);

}  // namespace mala::io
