#include "consume/nats/place.h"

#include <array>
#include <charconv>

namespace waybill::nats {
namespace {

constexpr std::size_t words_old = 9;
constexpr std::size_t words_new = 11;  // at least
constexpr std::size_t words_max = 12;

template <typename Number>
bool read(std::string_view digits, Number& number) {
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc() && end == digits.data() + digits.size();
}

}  // namespace

std::optional<Place> read_place(std::string_view ack_subject) {
  if (!ack_subject.starts_with("$JS.ACK.")) return std::nullopt;
  std::array<std::string_view, words_max> words{};
  std::size_t count = 0;
  for (std::string_view rest = ack_subject; count < words.size(); ++count) {
    const auto dot = rest.find('.');
    words[count] = rest.substr(0, dot);
    if (dot == std::string_view::npos) {
      ++count;
      break;
    }
    rest.remove_prefix(dot + 1);
  }
  if (count != words_old && count < words_new) return std::nullopt;
  const std::size_t first = count == words_old ? 4 : 6;
  Place place;
  std::int64_t stored = 0;
  if (!read(words[first], place.deliveries) || !read(words[first + 1], place.sequence) ||
      !read(words[first + 3], stored))
    return std::nullopt;
  place.stored = Time(std::chrono::floor<std::chrono::microseconds>(std::chrono::nanoseconds(stored)));
  return place;
}

}  // namespace waybill::nats
