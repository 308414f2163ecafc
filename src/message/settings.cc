#include "message/settings.h"

#include <algorithm>
#include <array>

#include "waybill/error.h"

namespace waybill {
namespace {

using config::Choice;
using config::Section;

constexpr std::array envelopes{Choice<Envelope>{"cloudevents", Envelope::cloudevents},
                               Choice<Envelope>{"cloudevents-structured", Envelope::cloudevents_structured},
                               Choice<Envelope>{"waybill", Envelope::waybill}, Choice<Envelope>{"raw", Envelope::raw},
                               Choice<Envelope>{"masstransit", Envelope::masstransit}};
constexpr std::array amqp_bindings{Choice<const Binding*>{"cloudEvents:", &bindings::amqp},
                                   Choice<const Binding*>{"cloudEvents_", &bindings::amqp_underscore}};

std::string read_source(Section& section, const std::string& fallback) {
  const std::string source = section.text("source", fallback, "Who sends, in CloudEvents: a URI, absolute or not");
  const bool good = std::all_of(source.begin(), source.end(), [](char c) {
    return c > ' ' && c < 0x7F && std::string_view("\"<>\\^`{|}").find(c) == std::string_view::npos;
  });
  if (source.empty() || !good) section.refuse("source", R"(must be a URI or a part of one, as in "/clinic/reception")");
  return source;
}

std::vector<Template> read_message_types(Section& section) {
  std::vector<Template> types;
  for (const auto& text : section.list("message_type", "URNs that MassTransit knows the message by: templates")) try {
      types.emplace_back(text);
    } catch (const Error& error) {
      section.refuse("message_type", error.what());
    }
  return types;
}

}  // namespace

Encoder read_encoder(Section& section, const Binding& binding) {
  EnvelopeOptions options;
  options.envelope = section.choice("envelope", options.envelope, envelopes, "How an event is dressed for the wire");
  const bool is_cloudevents =
      options.envelope == Envelope::cloudevents || options.envelope == Envelope::cloudevents_structured;
  if (is_cloudevents) options.source = read_source(section, options.source);
  if (options.envelope == Envelope::masstransit) {
    options.message_types = read_message_types(section);
    if (!section.has("message_type"))
      section.refuse("message_type",
                     R"(is missing; name the type, as in "urn:message:Clinic.Contracts:{type:pascal}")");
    if (options.message_types.empty()) return {};
  }
  return encoder(std::move(options), binding);
}

const Binding& read_amqp_binding(Section& section) {
  return *section.choice("attribute_names", &bindings::amqp, amqp_bindings,
                         "How headers with attributes of CloudEvents begin; without a colon for JMS");
}

void read_own_routing_key(Section& section, Address& address) {
  address.take_own_keys(section.boolean("own_routing_key", address.takes_own_keys(),
                                        "An event's own routing_key counts if it fits the template; off by default "
                                        "where the template names the tenant"));
}

Address read_address(Section& section, std::string_view key, std::string_view fallback, const AddressRules& rules,
                     std::string_view about) {
  try {
    return {section.text(key, fallback, about), rules};
  } catch (const Error& error) {
    section.refuse(key, error.what());
    return {fallback, rules};
  }
}

}  // namespace waybill
