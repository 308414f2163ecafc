#include "message/template.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "waybill/error.h"

#include "base/suggest.h"
#include "message/text.h"

namespace waybill {
namespace {

struct Field {
  std::string_view name{};
  bool path = false;
  std::string_view (*get)(const EventView&, std::string& scratch) = nullptr;
};

constexpr std::array fields{
    Field{"topic", true, [](const EventView& event, std::string&) { return event.topic; }},
    Field{"type", true, [](const EventView& event, std::string&) { return event.type; }},
    Field{"tenant", false, [](const EventView& event, std::string&) { return event.tenant; }},
    Field{"aggregate_type", false, [](const EventView& event, std::string&) { return event.aggregate_type; }},
    Field{"aggregate_id", false, [](const EventView& event, std::string&) { return event.aggregate_id; }},
    Field{"key", false,
          [](const EventView& event, std::string& scratch) {
            scratch = ordering_key(event);
            return std::string_view(scratch);
          }},
};

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || static_cast<unsigned char>(c) >= 0x80;
}

// Words begin after what is neither letter nor digit, and get a capital.
std::string pascal_case(std::string_view text) {
  std::string out;
  bool begins = true;
  for (const char c : text) {
    const bool digit = c >= '0' && c <= '9';
    if (is_letter(c) || digit) out += begins && c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    begins = !is_letter(c) && !digit;
  }
  return out;
}

// The assembly goes, the namespace is parted from the name by a colon, nested names by a dash: as MassTransit writes
// it.
std::string clr_name(std::string_view text) {
  std::string out(text.substr(0, text.find(',')));
  if (const auto dot = out.rfind('.'); dot != std::string::npos) out[dot] = ':';
  std::replace(out.begin(), out.end(), '+', '-');
  return out;
}

bool has_tenant(const std::vector<std::size_t>& candidates) {
  return std::any_of(candidates.begin(), candidates.end(), [](std::size_t i) { return fields[i].name == "tenant"; });
}

bool has_path(const std::vector<std::size_t>& candidates) {
  return std::any_of(candidates.begin(), candidates.end(), [](std::size_t i) { return fields[i].path; });
}

std::vector<bool> cuts_after_text(std::string_view text, const std::vector<bool>& cuts, std::string_view exact) {
  std::vector<bool> after(cuts.size());
  for (std::size_t i = 0; i + exact.size() < cuts.size(); ++i)
    after[i + exact.size()] = cuts[i] && text.substr(i, exact.size()) == exact;
  return after;
}

// A field is at least one character; dots part words.
std::vector<bool> cuts_after_field(std::string_view text, const std::vector<bool>& cuts, bool path) {
  std::vector<bool> after(cuts.size());
  bool within = false;
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    after[i] = within;
    within = within || cuts[i];
    if (i < text.size() && text[i] == '.' && !path) within = false;
  }
  return after;
}

}  // namespace

class Template::Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::vector<Part> parse() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if ((c == '{' || c == '}') && text_.substr(at_ + 1).starts_with(c)) {
        current_.literal += c;
        at_ += 2;
      } else if (c == '{') {
        field();
      } else if (c == '}') {
        refuse(at_, "'}' closes nothing; write '}}' for a brace");
      } else {
        current_.literal += c;
        ++at_;
      }
    }
    if (!current_.literal.empty()) parts_.push_back(std::move(current_));
    return std::move(parts_);
  }

 private:
  [[noreturn]] void refuse(std::size_t at, std::string_view why) const {
    throw Error(Remedy::fix_config, fmt::format("{}: at character {}: {}", text_, at + 1, why));
  }

  void field() {
    const auto end = text_.find_first_of("{}", at_ + 1);
    if (end == std::string_view::npos || text_[end] == '{') refuse(at_, "'{' is never closed; write '{{' for a brace");
    std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    if (const auto colon = inside.find(':'); colon != std::string_view::npos) {
      current_.form = form(inside.substr(colon + 1), at_ + 1 + colon + 1);
      inside = inside.substr(0, colon);
    }
    for (std::size_t at = at_ + 1;;) {
      const auto bar = inside.find('|');
      current_.fields.push_back(index_of(inside.substr(0, bar), at));
      if (bar == std::string_view::npos) break;
      inside.remove_prefix(bar + 1);
      at += bar + 1;
    }
    parts_.push_back(std::exchange(current_, {}));
    at_ = end + 1;
  }

  std::size_t index_of(std::string_view name, std::size_t at) const {
    std::vector<std::string> known;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if (fields[i].name == name) return i;
      known.emplace_back(fields[i].name);
    }
    refuse(at, fmt::format("unknown field '{}'{}", name, suggestion(name, known)));
  }

  Form form(std::string_view name, std::size_t at) const {
    if (name == "pascal") return Form::pascal;
    if (name == "clr") return Form::clr;
    const std::array<std::string, 2> known{"pascal", "clr"};
    refuse(at, fmt::format("unknown form '{}'{}", name, suggestion(name, known)));
  }

  std::string_view text_;
  std::size_t at_ = 0;
  Part current_;
  std::vector<Part> parts_;
};

Template::Template(std::string_view text) : parts_(Parser(text).parse()) {
  for (const auto& part : parts_) {
    literals_ += part.literal;
    has_fields_ = has_fields_ || !part.fields.empty();
  }
}

std::string_view Template::value_of(const Part& part, const EventView& event, std::string& scratch,
                                    std::size_t& field) {
  for (const std::size_t candidate : part.fields) {
    field = candidate;
    const auto value = fields[candidate].get(event, scratch);
    if (!value.empty()) return value;
  }
  return {};
}

// Returns the field that is missing; empty if none is.
std::string_view Template::append_value(std::string& out, const Part& part, const EventView& event,
                                        const Escaping& escaping) {
  std::string scratch;
  std::size_t field = 0;
  std::string_view value = value_of(part, event, scratch, field);
  if (part.form == Form::pascal) value = scratch = pascal_case(value);
  if (part.form == Form::clr) value = scratch = clr_name(value);
  if (value.empty()) return fields[part.fields.front()].name;
  const std::string_view reserved = fields[field].path ? escaping.in_path : escaping.in_word;
  if (value.find_first_of(reserved) == std::string_view::npos) {
    out += value;
  } else {
    append_escaped(out, value, reserved);
  }
  return {};
}

std::string_view Template::append_to(std::string& out, const EventView& event, const Escaping& escaping) const {
  for (const auto& part : parts_) {
    out += part.literal;
    if (part.fields.empty()) continue;
    if (const auto missing = append_value(out, part, event, escaping); !missing.empty()) return missing;
  }
  return {};
}

bool Template::names_tenant() const {
  return std::any_of(parts_.begin(), parts_.end(), [](const Part& part) { return has_tenant(part.fields); });
}

// Part by part: where may the text be cut after it?
bool Template::fits(std::string_view text, const EventView& event, const Escaping& escaping) const {
  std::vector<bool> cuts(text.size() + 1);
  cuts[0] = true;
  std::string exact;
  for (const auto& part : parts_) {
    exact = part.literal;
    const bool tenant = has_tenant(part.fields);
    if (tenant && !append_value(exact, part, event, escaping).empty()) return false;
    cuts = cuts_after_text(text, cuts, exact);
    if (!part.fields.empty() && !tenant) cuts = cuts_after_field(text, cuts, has_path(part.fields));
  }
  return cuts.back();
}

}  // namespace waybill
