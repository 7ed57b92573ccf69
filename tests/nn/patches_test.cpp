// Sizes and memory from the picture to the pixels of the first stages.
#include "mala/nn/patches.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "mala/core/error.h"
#include "mala/nn/block.h"

namespace mala::nn {
namespace {

TEST(Patches, ShrinkByTheStride) {
  const Tensor images = torch::randn({2, 3, 37, 64});
  EXPECT_EQ(PatchEmbed(16, 4)->forward(images).sizes(), torch::IntArrayRef({2, 10, 16, 16}));
  EXPECT_EQ(PatchEmbed(16, 2)->forward(images).sizes(), torch::IntArrayRef({2, 19, 32, 16}));
}

// Pixels stay one after the other through every layer, so no layer has to lay them out anew.
TEST(Patches, PixelsStayInOneLayout) {
  const torch::NoGradGuard no_gradients;
  const Tensor patches = PatchEmbed(16, 4)->forward(torch::randn({2, 3, 32, 48}));
  EXPECT_TRUE(patches.is_contiguous());
  for (const Mixer mixer : {Mixer::kMala, Mixer::kSoftmax}) {
    Block block(BlockOptions{.dim = 16, .heads = 2, .hidden = 56, .mixer = mixer});
    EXPECT_TRUE(block->forward(patches).is_contiguous()) << word_for(mixer);
  }
  const Tensor next = Downsample(16, 32)->forward(patches);
  EXPECT_EQ(next.sizes(), torch::IntArrayRef({2, 4, 6, 32}));
  EXPECT_TRUE(next.is_contiguous());
}

TEST(Patches, RefuseWhatIsNoPicture) {
  EXPECT_THROW(PatchEmbed(16, 3), Error);
  EXPECT_THROW(PatchEmbed(16, 4)->forward(torch::randn({2, 1, 32, 32})), Error);
  EXPECT_THROW(PatchEmbed(16, 4)->forward(torch::randn({3, 32, 32})), Error);
}

}  // namespace
}  // namespace mala::nn
