#pragma once

#include <span>
#include <string>
#include <string_view>

namespace waybill {

// How many letters must be changed, added, dropped or swapped with their neighbour to turn `a` into `b`.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The one of `known` that `word` was probably meant to be; empty if none is near.
std::string nearest(std::string_view word, std::span<const std::string> known);

// What to say after "unknown …": "; did you mean 'x'?", else the list of what is known.
std::string suggestion(std::string_view word, std::span<const std::string> known);

}  // namespace waybill
