// Finds the state dict in what training scripts save around it.
#include "mala/io/pth.h"

#include <initializer_list>
#include <set>

#include "mala/core/mapped_file.h"
#include "mala/io/pth_tensor.h"

namespace mala::io {
namespace {

using Kind = Node::Kind;

// A dictionary's value for a key, where that is a dictionary itself; the last one counts.
std::optional<NodeId> inner_dict(const Pickle& pickle, NodeId dict, std::string_view wanted) {
  std::optional<NodeId> found;
  const std::vector<NodeId>& items = pickle[dict].items;
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    const Node &key = pickle[items[i]], &value = pickle[items[i + 1]];
    if (key.kind == Kind::kText && key.text == wanted && value.kind == Kind::kDict) {
      found = items[i + 1];
    }
  }
  return found;
}

std::optional<NodeId> first_dict(const Pickle& pickle, NodeId dict,
                                 std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    if (const auto found = inner_dict(pickle, dict, key)) return found;
  }
  return std::nullopt;
}

bool has_tensors(const Pickle& pickle, const PthTensors& tensors, NodeId dict) {
  const std::vector<NodeId>& items = pickle[dict].items;
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    if (tensors.is_tensor(items[i + 1])) return true;
  }
  return false;
}

// "'epoch', 'args', ...": what a file has in place of weights.
std::string keys_of(const Pickle& pickle, NodeId dict) {
  constexpr size_t kNamed = 6;
  std::string keys;
  const std::vector<NodeId>& items = pickle[dict].items;
  for (size_t i = 0; i + 1 < items.size() && i < 2 * kNamed; i += 2) {
    keys += str(i > 0 ? ", " : "", in_quotes(pickle[items[i]].text));
  }
  return items.size() > 2 * kNamed ? keys + ", ..." : keys.empty() ? "nothing" : keys;
}

void check_is_dict(const Pickle& pickle, const Source& source) {
  const Node& top = pickle.top();
  const bool is_object = top.kind == Kind::kCall && pickle[top.items[0]].kind == Kind::kGlobal;
  source.check(!is_object, "holds an object of ",
               is_object ? in_quotes(pickle[top.items[0]].text) : "",
               " and not its weights; in"
               " Python, where its class is known: torch.save(model.state_dict(), name)");
  source.check(top.kind == Kind::kDict,
               "holds no dictionary of weights; in Python:"
               " torch.save(model.state_dict(), name)");
}

NodeId find_state_dict(const Pickle& pickle, const PthTensors& tensors, Copy copy,
                       const Source& source) {
  check_is_dict(pickle, source);
  NodeId dict = pickle.root;
  if (copy == Copy::kAveraged) {
    const auto averaged = first_dict(pickle, dict, {"model_ema", "state_dict_ema"});
    source.check(averaged.has_value(), "has no averaged weights; it has ", keys_of(pickle, dict));
    dict = *averaged;
  }
  constexpr int kMostWrappers = 3;
  for (int depth = 0; depth < kMostWrappers; ++depth) {
    const auto inner = first_dict(pickle, dict, {"state_dict", "model", "model_state_dict"});
    if (inner.has_value()) {
      dict = *inner;
    } else if (has_tensors(pickle, tensors, dict)) {
      return dict;
    } else if (const auto averaged = first_dict(pickle, dict, {"model_ema", "state_dict_ema"})) {
      dict = *averaged;
    }
  }
  source.check(has_tensors(pickle, tensors, dict), "has no weights: it has ",
               keys_of(pickle, pickle.root),
               ", and none of state_dict, model or model_ema with tensors");
  return dict;
}

// Python keeps the last value of a key that is set twice, so the way is from back to front. Keys
// that are no text name no weights, and a hostile file may have millions of them.
void read_dict(const Pickle& pickle, NodeId dict, PthTensors& tensors, Weights& weights) {
  std::set<std::string_view> seen;
  bool has_other_keys = false;
  const std::vector<NodeId>& items = pickle[dict].items;
  for (size_t i = items.size(); i >= 2; i -= 2) {
    const Node& key = pickle[items[i - 2]];
    const NodeId value = items[i - 1];
    if (key.kind != Kind::kText) {
      has_other_keys = true;
      continue;
    }
    check_name(key.text, tensors.source());
    if (!seen.insert(key.text).second) continue;
    if (tensors.is_tensor(value)) {
      weights.arrays.push_back(tensors.read(value, std::string(key.text)));
    } else {
      weights.skipped.emplace_back(key.text);
    }
  }
  if (has_other_keys) weights.skipped.emplace_back("(keys that are no text)");
}

}  // namespace

Weights parse_pth(Bytes bytes, const Source& source, Copy copy) {
  PthArchive archive(bytes, source);
  const Pickle pickle = archive.pickle();
  PthTensors tensors(pickle, archive, bytes.size());
  Weights weights;
  read_dict(pickle, find_state_dict(pickle, tensors, copy, source), tensors, weights);
  weights.owners = tensors.take_owners();
  strip_module_prefix(weights);
  sort_by_name(weights, source);
  return weights;
}

Weights parse_pth(Bytes bytes, const std::string& name, Copy copy) {
  return parse_pth(bytes, Source{"read_pth", name}, copy);
}

Weights read_pth(const std::string& path, Copy copy) {
  const auto file = std::make_shared<MappedFile>(Source{"read_pth", path});
  Weights weights = parse_pth(file->bytes(), path, copy);
  weights.owners.push_back(file);
  return weights;
}

}  // namespace mala::io
