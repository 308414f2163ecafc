#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "waybill/event.h"

namespace waybill {

// How a field is put into an address so that it cannot change the address's shape: what is listed is percent-encoded.
// A topic and a type are paths of their own ("user.created"); any other field is one word.
struct Escaping {
  std::string_view in_word{};
  std::string_view in_path{};
};

// A Template is a text with fields of an event: "{aggregate_type}.{type}".
//   {topic} {type} {tenant} {aggregate_type} {aggregate_id} {key}   the field; {key} is the ordering key
//   {aggregate_type|topic}   the first of them that the event has
//   {type:pascal}            "patient.checked-in" as "PatientCheckedIn"
//   {type:clr}               a .NET type name, "Clinic.Events.CheckedIn, Clinic", as "Clinic.Events:CheckedIn"
//   {{ }}                    braces
class Template {
 public:
  // Throws Error(fix_config): what is wrong, and at which character.
  explicit Template(std::string_view text);

  // Appends the text for this event. Returns the field that it needs and the event has not; empty if it has all.
  std::string_view append_to(std::string& out, const EventView& event, const Escaping& escaping) const;

  // Could `text` be an address of this template for that event? Everything between the fields, and the tenant, is as
  // the template has it; any other field may be anything of its shape: a path, or one word without dots.
  bool fits(std::string_view text, const EventView& event, const Escaping& escaping) const;
  bool names_tenant() const;

  // All that stands between the fields, in order.
  const std::string& literals() const { return literals_; }
  bool has_fields() const { return has_fields_; }

 private:
  enum class Form { plain, pascal, clr };
  struct Part {
    std::string literal{};              // Comes first.
    std::vector<std::size_t> fields{};  // The first that is there; none: only the literal.
    Form form = Form::plain;
  };
  class Parser;
  static std::string_view append_value(std::string& out, const Part& part, const EventView& event,
                                       const Escaping& escaping);
  static std::string_view value_of(const Part& part, const EventView& event, std::string& scratch, std::size_t& field);

  std::vector<Part> parts_;
  std::string literals_;
  bool has_fields_ = false;
};

}  // namespace waybill
