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

// Where events go: by a template. An event's own routing key counts instead of it where own keys are taken, and must
// fit the template (Template::fits), unless that is empty. By default they are taken, unless the template names the
// tenant: otherwise a producer would decide whose queue an event reaches.
class Address {
 public:
  // Throws Error(fix_config) if no event could ever be sent there. `rules` must outlive it.
  Address(std::string_view pattern, const AddressRules& rules);

  bool takes_own_keys() const { return takes_own_keys_; }
  void take_own_keys(bool on) { takes_own_keys_ = on; }
  // For people, about this event: that its own key does not count. Empty: nothing.
  std::string note(const EventView& event) const;

  // Puts the event's address into `out`. Returns why it has none; empty if it has.
  std::string resolve(std::string& out, const EventView& event) const;
  // The same for an address that events have no say in, such as an exchange.
  std::string resolve_by_template(std::string& out, const EventView& event) const;

 private:
  std::string pattern_;
  Template template_;
  const AddressRules* rules_;
  bool takes_own_keys_;
};

}  // namespace waybill
