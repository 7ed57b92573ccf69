// Pushing, popping and filling, with every mistake of a damaged pickle refused.
#include "mala/io/pickle_stack.h"

namespace mala::io {
namespace {

// Nodes and references between them. A checkpoint has tens of thousands; a hostile pickle could
// otherwise repeat a long list until the memory is full.
constexpr size_t kMostValues = 4'000'000;

}  // namespace

void PickleStack::count(size_t values) {
  values_ += values;
  source_.check(values_ <= kMostValues, "its pickle has more than ", kMostValues,
                " values; save the weights alone");
}

bool PickleStack::push(Node node) {
  count(1 + node.items.size());
  pickle_.nodes.push_back(std::move(node));
  stack_.push_back(static_cast<NodeId>(pickle_.nodes.size() - 1));
  return true;
}

bool PickleStack::push_tuple(size_t count) {
  std::vector<NodeId> items(count);
  for (size_t i = count; i-- > 0;) items[i] = pop();
  return push({.kind = Node::Kind::kTuple, .items = std::move(items)});
}

bool PickleStack::push_again(NodeId id) {
  count(1);
  stack_.push_back(id);
  return true;
}

NodeId PickleStack::top() const {
  const size_t floor = marks_.empty() ? 0 : marks_.back();
  source_.check(stack_.size() > floor, "its pickle takes from an empty stack; it is damaged");
  return stack_.back();
}

NodeId PickleStack::pop() {
  const NodeId id = top();
  stack_.pop_back();
  return id;
}

bool PickleStack::mark() {
  count(1);
  marks_.push_back(stack_.size());
  return true;
}

bool PickleStack::drop() {
  if (!marks_.empty() && marks_.back() == stack_.size()) {
    marks_.pop_back();
  } else {
    pop();
  }
  return true;
}

std::vector<NodeId> PickleStack::pop_to_mark() {
  source_.check(!marks_.empty(), "its pickle has no mark where one is needed; it is damaged");
  const auto begin = stack_.begin() + static_cast<ptrdiff_t>(marks_.back());
  std::vector<NodeId> items(begin, stack_.end());
  stack_.erase(begin, stack_.end());
  marks_.pop_back();
  return items;
}

std::vector<NodeId> PickleStack::pop_pairs_to_mark() {
  std::vector<NodeId> items = pop_to_mark();
  source_.check(items.size() % 2 == 0, "its pickle has a key without a value; it is damaged");
  return items;
}

bool PickleStack::fill(std::vector<NodeId> items, Node::Kind kind) {
  count(items.size());
  Node& container = pickle_.nodes[top()];
  if (container.kind == kind) {
    container.items.insert(container.items.end(), items.begin(), items.end());
  }
  return true;
}

Pickle PickleStack::take() {
  pickle_.root = pop();
  return std::move(pickle_);
}

}  // namespace mala::io
