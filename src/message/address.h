#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "waybill/event.h"

#include "message/template.h"

namespace waybill {

// What a protocol takes as an address. Data, no code: each is a constant below.
struct AddressRules {
  std::string_view name{};  // For people.
  std::size_t bytes_max = 0;
  Escaping escaping{};
  bool subject = false;  // Words parted by dots, none of them empty; no wildcards, nothing of the server's own ("$…").
};

namespace addresses {

inline constexpr AddressRules routing_key{.name = "routing key", .bytes_max = 255, .escaping = {.in_word = "%."}};
inline constexpr AddressRules exchange{.name = "exchange", .bytes_max = 255};
// The server takes a line of 4 KiB, of which this is a part.
inline constexpr AddressRules subject{
    .name = "subject", .bytes_max = 2048, .escaping = {.in_word = "%.*> ", .in_path = "%*> "}, .subject = true};

}  // namespace addresses

// Where events go: by a template, unless they say it themselves.
class Address {
 public:
  // Throws Error(fix_config) if no event could ever be sent there. `rules` must outlive it.
  Address(std::string_view pattern, const AddressRules& rules);

  // Puts the event's address into `out`. Returns why it has none; empty if it has.
  std::string resolve(std::string& out, const EventView& event) const;
  // The same for an address that events have no say in, such as an exchange.
  std::string resolve_by_template(std::string& out, const EventView& event) const;

 private:
  Template template_;
  const AddressRules* rules_;
};

}  // namespace waybill
