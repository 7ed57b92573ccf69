// A vector whose numbers are whatever the memory held, for those that are all written anyway.
#pragma once

#include <memory>
#include <utility>
#include <vector>

namespace mala::data {

// Zeros for a batch take a thread as long as some of its pictures; without them, the threads that
// write the pages also get them from the system.
template <typename T>
struct LeaveUninitialised : std::allocator<T> {
  template <typename U>
  struct rebind {
    using other = LeaveUninitialised<U>;
  };

  template <typename U, typename... Args>
  void construct(U* at, Args&&... args) {
    if constexpr (sizeof...(Args) == 0) {
      ::new (static_cast<void*>(at)) U;
    } else {
      ::new (static_cast<void*>(at)) U(std::forward<Args>(args)...);
    }
  }
};

template <typename T>
using UninitialisedVector = std::vector<T, LeaveUninitialised<T>>;

}  // namespace mala::data
