#include "message/address.h"

#include <fmt/format.h>

#include "waybill/error.h"

#include "message/text.h"

namespace waybill {
namespace {

constexpr std::string_view wildcards = "*> ";

std::string subject_problem(std::string_view text) {
  if (const auto at = text.find_first_of(wildcards); at != std::string_view::npos)
    return fmt::format("contains '{}'", text[at]);
  if (text.starts_with('$')) return "begins with '$', which is the server's own";
  if (text.starts_with('.') || text.ends_with('.') || text.find("..") != std::string_view::npos)
    return "has an empty word between its dots";
  return {};
}

// Reads on after "the routing key "; empty if it is a good one.
std::string problem(std::string_view text, const AddressRules& rules) {
  if (text.size() > rules.bytes_max)
    return fmt::format("has {} bytes; at most {} are allowed", text.size(), rules.bytes_max);
  if (const auto wrong = text_problem(text); !wrong.empty()) return std::string(wrong);
  if (rules.subject && text.empty()) return "is empty";
  return rules.subject ? subject_problem(text) : std::string();
}

std::string refusal(std::string_view text, const AddressRules& rules) {
  const std::string wrong = problem(text, rules);
  return wrong.empty() ? wrong : fmt::format("the {} {}", rules.name, wrong);
}

}  // namespace

Address::Address(std::string_view pattern, const AddressRules& rules)
    : pattern_(pattern), template_(pattern), rules_(&rules), takes_own_keys_(!template_.names_tenant()) {
  const std::string& literals = template_.literals();
  std::string wrong;
  if (!template_.has_fields()) {
    wrong = problem(literals, rules);
  } else if (literals.size() > rules.bytes_max || !text_problem(literals).empty() ||
             (rules.subject && literals.find_first_of(wildcards) != std::string::npos)) {
    wrong = problem(literals, rules);
  }
  if (!wrong.empty()) throw Error(Remedy::fix_config, fmt::format("{}: {}", pattern, wrong));
}

std::string Address::resolve(std::string& out, const EventView& event) const {
  if (event.routing_key.empty() || !takes_own_keys_) return resolve_by_template(out, event);
  out = event.routing_key;
  if (std::string wrong = refusal(out, *rules_); !wrong.empty()) return wrong;
  if (pattern_.empty() || template_.fits(out, event, rules_->escaping)) return {};
  return fmt::format("its own routing_key does not fit the destination's template '{}' for the {}", pattern_,
                     rules_->name);
}

std::string Address::note(const EventView& event) const {
  if (event.routing_key.empty() || takes_own_keys_) return {};
  return "the event's own routing_key does not count here (own_routing_key = false)";
}

std::string Address::resolve_by_template(std::string& out, const EventView& event) const {
  out.clear();
  const auto missing = template_.append_to(out, event, rules_->escaping);
  if (!missing.empty()) return fmt::format("the {} needs {}, which the event has not", rules_->name, missing);
  return refusal(out, *rules_);
}

}  // namespace waybill
