// The stack of the pickle machine: values being made, and the marks that group them.
#pragma once

#include <utility>
#include <vector>

#include "mala/io/pickle.h"

namespace mala::io {

// Functions that push or fill return true, as the machine's opcodes do. All check what they take.
class PickleStack {
 public:
  explicit PickleStack(const Source& source) : source_(source) {}

  const Source& source() const { return source_; }
  const Node& node(NodeId id) const { return pickle_[id]; }

  bool push(Node node);
  bool push_opaque() { return push({}); }
  bool push_integer(int64_t value) {
    return push({.kind = Node::Kind::kInteger, .integer = value});
  }
  bool push_text(std::string_view text) { return push({.kind = Node::Kind::kText, .text = text}); }
  bool push_tuple(size_t count);
  bool push_again(NodeId id);

  NodeId top() const;
  NodeId pop();
  bool mark();
  bool drop();  // the value on top, or the mark
  std::vector<NodeId> pop_to_mark();
  std::vector<NodeId> pop_pairs_to_mark();

  // Into the list or dictionary on top. Objects we do not know take their items to nowhere.
  bool fill(std::vector<NodeId> items) { return fill(std::move(items), Node::Kind::kList); }
  bool fill_pairs(std::vector<NodeId> items) { return fill(std::move(items), Node::Kind::kDict); }

  // Of whatever takes memory. Throws when a pickle has too much of it.
  void count(size_t values);

  // The finished tree: the value on top is its root.
  Pickle take();

 private:
  bool fill(std::vector<NodeId> items, Node::Kind kind);

  const Source& source_;
  Pickle pickle_;
  std::vector<NodeId> stack_;
  std::vector<size_t> marks_;  // heights of the stack
  size_t values_ = 0;
};

}  // namespace mala::io
