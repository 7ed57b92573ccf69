// The pickle machine, as far as it makes values: a stack, its marks, and a memo.
#include "mala/io/pickle.h"

#include <charconv>
#include <unordered_map>

#include "mala/io/pickle_input.h"
#include "mala/io/pickle_stack.h"

namespace mala::io {
namespace {

using Kind = Node::Kind;

constexpr uint64_t kMostPickleBytes = 64
                                      << 20;  // of a checkpoint of a hundred thousand tensors: 15

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
      const char op = static_cast<char>(input_.number<uint8_t>());
      if (op == '.') break;
      const bool known =
          read_number(op) || read_text(op) || read_container(op) || read_call(op) || move(op);
      if (!known) refuse(op);
    }
    return take();
  }

 private:
  // The opcodes, by family; each says whether the opcode was its own.

  bool read_number(char op) {
    switch (op) {
      case 'N':
        return push_opaque();
      case '\x88':
        return push_integer(1);
      case '\x89':
        return push_integer(0);
      case 'J':
        return push_integer(static_cast<int32_t>(input_.number<uint32_t>()));
      case 'K':
        return push_integer(input_.number<uint8_t>());
      case 'M':
        return push_integer(input_.number<uint16_t>());
      case '\x8a':
        return push_long(input_.number<uint8_t>());
      case '\x8b':
        return push_long(input_.number<uint32_t>());
      case 'I':
      case 'L':
        return push_written(input_.line());
      case 'F':
        input_.line();
        return push_opaque();
      case 'G':
        input_.take(8);
        return push_opaque();
      default:
        return false;
    }
  }

  // So many bytes, lowest first, the highest with the sign.
  bool push_long(uint32_t count) {
    const Bytes bytes = input_.take(count);
    if (count > 8) return push_opaque();
    uint64_t value = count > 0 && (bytes[count - 1] & std::byte{0x80}) != std::byte{0} ? ~0ull : 0;
    for (size_t i = count; i-- > 0;) value = value << 8 | static_cast<uint64_t>(bytes[i]);
    return push_integer(static_cast<int64_t>(value));
  }

  bool push_written(std::string_view digits) {
    if (digits.ends_with('L')) digits.remove_suffix(1);
    int64_t value = 0;
    const char* const end = digits.data() + digits.size();
    const auto result = std::from_chars(digits.data(), end, value);
    return result.ec == std::errc() && result.ptr == end ? push_integer(value) : push_opaque();
  }

  bool read_text(char op) {
    switch (op) {
      case 'X':
      case 'T':
        return push_text(input_.text(input_.number<uint32_t>()));
      case '\x8c':
      case 'U':
        return push_text(input_.text(input_.number<uint8_t>()));
      case '\x8d':
        return push_text(input_.text(input_.number<uint64_t>()));
      case 'V':
        return push_text(input_.line());
      case 'S':
        return push_quoted(input_.line());
      case 'B':
        input_.take(input_.number<uint32_t>());
        return push_opaque();
      case 'C':
        input_.take(input_.number<uint8_t>());
        return push_opaque();
      case '\x8e':
      case '\x96':
        input_.take(input_.number<uint64_t>());
        return push_opaque();
      default:
        return false;
    }
  }

  bool push_quoted(std::string_view text) {
    return push_text(text.size() >= 2 ? text.substr(1, text.size() - 2) : text);
  }

  bool read_container(char op) {
    switch (op) {
      case ']':
        return push({.kind = Kind::kList});
      case '}':
        return push({.kind = Kind::kDict});
      case ')':
        return push({.kind = Kind::kTuple});
      case '\x8f':
        return push_opaque();
      case 'l':
        return push({.kind = Kind::kList, .items = pop_to_mark()});
      case 't':
        return push({.kind = Kind::kTuple, .items = pop_to_mark()});
      case '\x91':
        pop_to_mark();
        return push_opaque();
      case 'd':
        return push({.kind = Kind::kDict, .items = pop_pairs_to_mark()});
      case '\x85':
        return push_tuple(1);
      case '\x86':
        return push_tuple(2);
      case '\x87':
        return push_tuple(3);
      case 'a':
        return fill({pop()});
      case 'e':
      case '\x90':
        return fill(pop_to_mark());
      case 's': {
        const NodeId value = pop(), key = pop();
        return fill_pairs({key, value});
      }
      case 'u':
        return fill_pairs(pop_pairs_to_mark());
      default:
        return false;
    }
  }

  bool read_call(char op) {
    switch (op) {
      case 'c': {
        const std::string_view module = input_.line(), name = input_.line();
        return push({.kind = Kind::kGlobal, .text = name, .module = module});
      }
      case '\x93': {
        const NodeId name = pop(), module = pop();
        return push({.kind = Kind::kGlobal, .text = node(name).text, .module = node(module).text});
      }
      case 'R':
      case '\x81': {
        const NodeId arguments = pop(), callable = pop();
        return push_call(callable, arguments);
      }
      case '\x92': {
        pop();  // named arguments
        const NodeId arguments = pop(), callable = pop();
        return push_call(callable, arguments);
      }
      case 'b':
        pop();  // the state of an object; what we read has none
        top();
        return true;
      case 'i':
        input_.line();
        input_.line();
        [[fallthrough]];
      case 'o':
        pop_to_mark();
        return push_opaque();
      case 'Q':
        return push({.kind = Kind::kPersistent, .items = {pop()}});
      case 'P':
        input_.line();
        return push_opaque();
      case '\x82':
        input_.take(1);
        return push_opaque();
      case '\x83':
        input_.take(2);
        return push_opaque();
      case '\x84':
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
  std::vector<NodeId> pairs_of(NodeId arguments) const {
    std::vector<NodeId> items;
    if (node(arguments).items.size() != 1) return items;
    for (const NodeId pair : node(node(arguments).items[0]).items) {
      const std::vector<NodeId>& both = node(pair).items;
      if (both.size() == 2) items.insert(items.end(), both.begin(), both.end());
    }
    return items;
  }

  // The memo, the marks, and what only frames or reorders.
  bool move(char op) {
    switch (op) {
      case '(':
        return mark();
      case '0':
        return drop();
      case '1':
        pop_to_mark();
        return true;
      case '2':
        return push_again(top());
      case 'q':
        return remember(input_.number<uint8_t>());
      case 'r':
        return remember(input_.number<uint32_t>());
      case '\x94':
        return remember(memo_.size());
      case 'p':
        return remember(written_key());
      case 'h':
        return recall(input_.number<uint8_t>());
      case 'j':
        return recall(input_.number<uint32_t>());
      case 'g':
        return recall(written_key());
      case '\x80':
        source().check(input_.number<uint8_t>() <= 5,
                       "its pickle is of a protocol after 5;"
                       " save it with torch.save's own default");
        return true;
      case '\x95':
        input_.take(8);
        return true;
      default:
        return false;
    }
  }

  uint64_t written_key() {
    const std::string_view digits = input_.line();
    uint64_t key = 0;
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), key);
    source().check(result.ec == std::errc(), "its pickle has a broken memo key; it is damaged");
    return key;
  }
  bool remember(uint64_t key) {
    memo_[key] = top();
    return true;
  }
  bool recall(uint64_t key) {
    const auto found = memo_.find(key);
    source().check(found != memo_.end(), "its pickle recalls what it never kept; it is damaged");
    return push_again(found->second);
  }

  [[noreturn]] void refuse(char op) const {
    source().fail(str("its pickle has the unknown opcode ",
                      static_cast<int>(static_cast<unsigned char>(op)), "; it is damaged"));
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
