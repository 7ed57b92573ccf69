// Counts blocks as their names go by.
#include "mala/tasks/layer_depths.h"

namespace mala::tasks {
namespace {

// "layers.1.blocks.2" of "layers.1.blocks.2.attn.weight"; empty outside of blocks.
std::string block_of(const std::string& name) {
  constexpr std::string_view kBlocks = "blocks.";
  const size_t at = name.find(kBlocks);
  if (at == name.npos) return {};
  return name.substr(0, name.find('.', at + kBlocks.size()));
}

bool is_within_stages(const std::string& name) { return name.starts_with("layers."); }

}  // namespace

LayerDepths layer_depths(const std::vector<std::string>& names) {
  LayerDepths depths;
  std::string last_block;
  int64_t depth = 0;
  std::vector<std::string> after;
  for (const std::string& name : names) {
    const std::string block = block_of(name);
    if (!block.empty() && block != last_block) ++depth;
    if (!block.empty()) last_block = block;
    const bool is_after = block.empty() && depth > 0 && !is_within_stages(name);
    if (is_after) after.push_back(name);
    depths.of[name] = depth;
  }
  for (const std::string& name : after) depths.of[name] = depth + 1;
  depths.count = depth + 1 + (after.empty() ? 0 : 1);
  return depths;
}

}  // namespace mala::tasks
