// The word that a mistyped one was meant to be.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace mala {

// Letters to add, drop, change or swap with their neighbour to make one word the other.
size_t typing_distance(std::string_view a, std::string_view b);

// The known word that is fewest mistakes away, the first of several; empty when none is near: at
// most one mistake in three letters, and always one.
std::string nearest(std::string_view word, std::span<const std::string> known);

// "; did you mean --top?", or nothing where no word is near.
std::string did_you_mean(std::string_view word, std::span<const std::string> known);

}  // namespace mala
