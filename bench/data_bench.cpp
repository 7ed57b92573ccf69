// How many pictures a second the input pipeline makes, with the augmentations of the published
// recipe. bench/data_bench.py runs it beside timm's.
//
//   data_bench FOLDER [--pictures 1000] [--workers 2] [--batch 64] [--size 224] [--no-mix]
//
// Prints pictures, seconds, and seconds of all cores together, as one line of JSON.
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <string>

#include "bench/support/flags.h"
#include "mala/data/batches.h"
#include "mala/data/dataset/open.h"
#include "mala/data/dataset/renumbered.h"

namespace {

using namespace mala::data;

struct Options {
  std::string folder;
  int64_t pictures = 1000;
  BatchOptions batches;
};

Options read_options(int argc, char** argv) {
  Options options;
  options.batches.batch_size = 64;
  options.batches.workers = 2;
  options.batches.augmentation =
      Augmentation{.rand_augment = "m9-mstd0.5-inc1", .erase = 0.25, .mixup = 0.8, .cutmix = 1.0};
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--no-mix") {
      options.batches.augmentation->mixup = options.batches.augmentation->cutmix = 0.0;
      continue;
    }
    if (!flag.starts_with("--")) {
      options.folder = flag;
      continue;
    }
    int64_t* const to = flag == "--pictures"  ? &options.pictures
                        : flag == "--workers" ? &options.batches.workers
                        : flag == "--batch"   ? &options.batches.batch_size
                        : flag == "--size"    ? &options.batches.image_size
                                              : nullptr;
    mala::check(to != nullptr && i + 1 < argc, "data_bench", flag,
                " is unknown or lacks its number; there are --pictures, --workers, --batch, --size"
                " and --no-mix");
    *to = mala::bench::positive_number<int64_t>("data_bench", flag, argv[++i]);
  }
  mala::check(!options.folder.empty(), "data_bench", "needs a folder with a folder for each class");
  return options;
}

double core_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

int64_t read_pictures(ImageBatches& batches, int64_t wanted) {
  int64_t pictures = 0;
  while (pictures < wanted) {
    const auto batch = batches.next();
    mala::check(batch.has_value(), "data_bench", "there are ", pictures, " pictures, not ", wanted);
    for (const BadFile& file : batch->skipped) mala::check(false, "data_bench", file.reason);
    pictures += batch->count;
  }
  return pictures;
}

}  // namespace

int main(int argc, char** argv) try {
  const Options options = read_options(argc, argv);
  const auto source = open_images(options.folder);
  // Over and over, as one epoch that the measurement does not come to the end of.
  const Renumbered endless(*source, 1'000'000, [&](int64_t i) { return i % source->size(); });
  ImageBatches batches(endless, options.batches);
  // As many are ahead when the clock starts as when it stops.
  constexpr int64_t kWarmUp = 6;
  read_pictures(batches, kWarmUp * options.batches.batch_size);
  const double cores_before = core_seconds();
  const auto start = std::chrono::steady_clock::now();
  const int64_t pictures = read_pictures(batches, options.pictures);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("{\"pictures\": %lld, \"seconds\": %.4f, \"core_seconds\": %.4f}\n",
              static_cast<long long>(pictures), seconds.count(), core_seconds() - cores_before);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "data_bench: %s\n", error.what());
  return 1;
}
