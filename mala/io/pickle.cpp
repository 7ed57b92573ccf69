// The pickle machine, as far as it makes values: a stack, its marks, and a memo.
#include "mala/io/pickle.h"

#include <charconv>
#include <unordered_map>

#include "mala/io/pickle_constants.h"
#include "mala/io/pickle_input.h"
#include "mala/io/pickle_opcodes.h"
#include "mala/io/pickle_stack.h"

namespace mala::io {
namespace {

using Kind = Node::Kind;

// A checkpoint of a hundred thousand tensors has 15 million.
constexpr uint64_t kMostPickleBytes = 64'000'000;

// What a call to these would return: a dictionary, filled by the opcodes that follow.
bool makes_dict(const Node& callable) {
  return callable.kind == Kind::kGlobal &&
         ((callable.module == "collections" &&
           (callable.text == "OrderedDict" || callable.text == "defaultdict")) ||
          ((callable.module == "builtins" || callable.module == "__builtin__") &&
           callable.text == "dict"));
}

class PickleMachine : private PickleStack {
 public:
  PickleMachine(Bytes bytes, const Source& source) : PickleStack(source), input_(bytes, source) {}

  Pickle run() {
    for (;;) {
      const char code = static_cast<char>(input_.number<uint8_t>());
      if (code == op::kStop) break;
      const bool known = read_number(code, input_, *this) || read_text(code, input_, *this) ||
                         read_container(code) || read_call(code) || move(code);
      if (!known) refuse(code);
    }
    return take();
  }

 private:
  // The opcodes, by family; each says whether the opcode was its own.

  bool read_container(char code) {
    switch (code) {
      case op::kEmptyList:
        return push({.kind = Kind::kList});
      case op::kEmptyDict:
        return push({.kind = Kind::kDict});
      case op::kEmptyTuple:
        return push({.kind = Kind::kTuple});
      case op::kEmptySet:
        return push_opaque();
      case op::kList:
        return push({.kind = Kind::kList, .items = pop_to_mark()});
      case op::kTuple:
        return push({.kind = Kind::kTuple, .items = pop_to_mark()});
      case op::kFrozenSet:
        pop_to_mark();
        return push_opaque();
      case op::kDict:
        return push({.kind = Kind::kDict, .items = pop_pairs_to_mark()});
      case op::kTuple1:
        return push_tuple(1);
      case op::kTuple2:
        return push_tuple(2);
      case op::kTuple3:
        return push_tuple(3);
      case op::kAppend:
        return fill({pop()});
      case op::kAppends:
      case op::kAddItems:
        return fill(pop_to_mark());
      case op::kSetItem: {
        const NodeId value = pop(), key = pop();
        return fill_pairs({key, value});
      }
      case op::kSetItems:
        return fill_pairs(pop_pairs_to_mark());
      default:
        return false;
    }
  }

  bool read_call(char code) {
    switch (code) {
      case op::kGlobal: {
        const std::string_view module = input_.line(), name = input_.line();
        return push({.kind = Kind::kGlobal, .text = name, .module = module});
      }
      case op::kStackGlobal: {
        const NodeId name = pop(), module = pop();
        return push({.kind = Kind::kGlobal, .text = node(name).text, .module = node(module).text});
      }
      case op::kReduce:
      case op::kNewObj: {
        const NodeId arguments = pop(), callable = pop();
        return push_call(callable, arguments);
      }
      case op::kNewObjEx: {
        pop();  // named arguments
        const NodeId arguments = pop(), callable = pop();
        return push_call(callable, arguments);
      }
      case op::kBuild:
        pop();  // the state of an object; what we read has none
        top();
        return true;
      case op::kInst:
        input_.line();
        input_.line();
        [[fallthrough]];
      case op::kObj:
        pop_to_mark();
        return push_opaque();
      case op::kBinPersId:
        return push({.kind = Kind::kPersistent, .items = {pop()}});
      case op::kPersId:
        input_.line();
        return push_opaque();
      case op::kExt1:
        input_.take(1);
        return push_opaque();
      case op::kExt2:
        input_.take(2);
        return push_opaque();
      case op::kExt4:
        input_.take(4);
        return push_opaque();
      default:
        return false;
    }
  }

  bool push_call(NodeId callable, NodeId arguments) {
    const Node& function = node(callable);
    if (makes_dict(function)) return push({.kind = Kind::kDict, .items = pairs_of(arguments)});
    const std::vector<NodeId>& given = node(arguments).items;
    if (function.module == "torch" && function.text == "Size" && given.size() == 1) {
      return push_again(given[0]);
    }
    return push({.kind = Kind::kCall, .items = {callable, arguments}});
  }

  // OrderedDict([(key, value), ...]), as old versions of Python wrote it, as keys and values.
  // Counted before it is looked through: whatever its items are, a pickle may repeat it for ever.
  std::vector<NodeId> pairs_of(NodeId arguments) {
    std::vector<NodeId> items;
    if (node(arguments).items.size() != 1) return items;
    const std::vector<NodeId>& pairs = node(node(arguments).items[0]).items;
    count(pairs.size());
    for (const NodeId pair : pairs) {
      const std::vector<NodeId>& both = node(pair).items;
      if (both.size() == 2) items.insert(items.end(), both.begin(), both.end());
    }
    return items;
  }

  // The memo, the marks, and what only frames or reorders.
  bool move(char code) {
    switch (code) {
      case op::kMark:
        return mark();
      case op::kPop:
        return drop();
      case op::kPopMark:
        pop_to_mark();
        return true;
      case op::kDup:
        return push_again(top());
      case op::kBinPut:
        return remember(input_.number<uint8_t>());
      case op::kLongBinPut:
        return remember(input_.number<uint32_t>());
      case op::kMemoize:
        return remember(memo_.size());
      case op::kPut:
        return remember(written_key());
      case op::kBinGet:
        return recall(input_.number<uint8_t>());
      case op::kLongBinGet:
        return recall(input_.number<uint32_t>());
      case op::kGet:
        return recall(written_key());
      case op::kProto:
        source().check(input_.number<uint8_t>() <= 5,
                       "its pickle is of a protocol after 5;"
                       " save it with torch.save's own default");
        return true;
      case op::kFrame:
        input_.take(8);
        return true;
      default:
        return false;
    }
  }

  uint64_t written_key() {
    const std::string_view digits = input_.line();
    uint64_t key = 0;
    const char* const end = digits.data() + digits.size();
    const auto result = std::from_chars(digits.data(), end, key);
    source().check(result.ec == std::errc() && result.ptr == end,
                   "its pickle has a broken memo key; it is damaged");
    return key;
  }
  bool remember(uint64_t key) {
    count(1);
    memo_[key] = top();
    return true;
  }
  bool recall(uint64_t key) {
    const auto found = memo_.find(key);
    source().check(found != memo_.end(), "its pickle recalls what it never kept; it is damaged");
    return push_again(found->second);
  }

  [[noreturn]] void refuse(char code) const {
    source().fail(str("its pickle has the unknown opcode ",
                      static_cast<int>(static_cast<unsigned char>(code)), "; it is damaged"));
  }

  PickleInput input_;
  std::unordered_map<uint64_t, NodeId> memo_;
};

}  // namespace

Pickle read_pickle(Bytes bytes, const Source& source) {
  source.check(bytes.size() <= kMostPickleBytes, "its pickle has ", bytes.size(),
               " bytes, at most ", kMostPickleBytes, " are read; save the weights alone");
  return PickleMachine(bytes, source).run();
}

}  // namespace mala::io
