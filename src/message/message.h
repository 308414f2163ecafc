#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "waybill/time.h"

namespace waybill {

// Names and values in their order, in one piece of memory that is used again after clear().
class HeaderList {
 public:
  struct Item {
    std::string_view name{};
    std::string_view value{};
  };

  void clear();
  void add(std::string_view name, std::string_view value) { add({}, name, value); }
  // A header whose name is `prefix` and `name` together.
  void add(std::string_view prefix, std::string_view name, std::string_view value);

  std::size_t size() const { return places_.size(); }
  // Valid until the next add() or clear().
  Item operator[](std::size_t i) const;
  // Of all names and values.
  std::size_t bytes() const { return text_.size(); }
  // The value of the first header of that name, upper and lower case alike; empty if there is none.
  std::string_view find(std::string_view name) const;

 private:
  struct Place {
    std::size_t name = 0;
    std::size_t value = 0;
    std::size_t end = 0;
  };
  std::string text_;
  std::vector<Place> places_;
};

// A Message is an event as a broker gets it. An encoder (message/envelope.h) fills one it is given, so that a sink
// which keeps one Message allocates nothing for an event. `content_type` and what follows it are for protocols with a
// place of their own for them.
struct Message {
  std::string body{};
  HeaderList headers{};
  std::string content_type{};
  std::string id{};    // The event's, the same at every attempt: what consumers deduplicate by.
  std::string type{};  // The event's.
  std::string
      correlation_id{};  // The event's header `correlation-id` (or `correlation_id`), at most 255 bytes; or empty.
  Time timestamp{};      // When it happened.

  void clear();
};

}  // namespace waybill
