#include "message/message.h"

#include "message/text.h"

namespace waybill {

void HeaderList::clear() {
  text_.clear();
  places_.clear();
}

void HeaderList::add(std::string_view prefix, std::string_view name, std::string_view value) {
  Place place{.name = text_.size()};
  text_ += prefix;
  text_ += name;
  place.value = text_.size();
  text_ += value;
  place.end = text_.size();
  places_.push_back(place);
}

HeaderList::Item HeaderList::operator[](std::size_t i) const {
  const Place& place = places_[i];
  const std::string_view text = text_;
  return {text.substr(place.name, place.value - place.name), text.substr(place.value, place.end - place.value)};
}

std::string_view HeaderList::find(std::string_view name) const {
  for (std::size_t i = 0; i < size(); ++i)
    if (same_letters((*this)[i].name, name)) return (*this)[i].value;
  return {};
}

void Message::clear() {
  body.clear();
  headers.clear();
  content_type.clear();
  id.clear();
  type.clear();
  correlation_id.clear();
  timestamp = {};
}

}  // namespace waybill
