// Whether a sanitizer watches this build, which makes everything some ten times slower.
#pragma once

namespace mala::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace mala::test
