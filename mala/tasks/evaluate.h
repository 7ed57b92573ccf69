// How well a classifier does on labelled pictures.
#pragma once

#include <memory>

#include "mala/data/dataset/image_source.h"
#include "mala/data/image/image.h"
#include "mala/tasks/classify.h"

namespace mala::tasks {

// Counts of pictures by class and by answer.
class Confusion {
 public:
  explicit Confusion(int64_t classes)
      : classes_(classes), counts_(static_cast<size_t>(classes * classes)) {}

  void add(int64_t label, int64_t answer) { ++counts_[place(label, answer)]; }
  int64_t count(int64_t label, int64_t answer) const { return counts_[place(label, answer)]; }
  int64_t classes() const { return classes_; }
  // Pictures of the class.
  int64_t count(int64_t label) const;
  // The answer that pictures of the class got most often besides their own; -1 where none did.
  int64_t mistaken_for(int64_t label) const;

 private:
  size_t place(int64_t label, int64_t answer) const {
    return static_cast<size_t>(label * classes_ + answer);
  }

  int64_t classes_;
  std::vector<int64_t> counts_;
};

struct Evaluation {
  int64_t pictures = 0;  // answered
  int64_t top1 = 0, top5 = 0;
  double seconds = 0;
  Confusion confusion;
  std::vector<data::BadFile> skipped;
};

// What `path` names, with labels as the classifier numbers its classes: by their names where it has
// labels, else in the order of the names. Throws mala::Error when the classes do not agree.
std::unique_ptr<data::ImageSource> open_labelled(const std::string& path,
                                                 const Classifier& classifier);

// `progress` hears how many pictures are done, answered or skipped.
Evaluation evaluate(const Classifier& classifier, const data::ImageSource& source,
                    const data::BatchOptions& options,
                    const std::function<void(int64_t done)>& progress);

// A square for every class (down) and answer (across), darker for a greater share of the class;
// right answers green, wrong ones red.
data::Image picture_of(const Confusion& confusion);

}  // namespace mala::tasks
