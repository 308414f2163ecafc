#include "sink/rabbitmq/settings.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "waybill/error.h"

#include "broker/rabbitmq/url.h"
#include "message/settings.h"
#include "message/text.h"
#include "sink/rabbitmq/dresser.h"
#include "sink/rabbitmq/examine.h"
#include "sink/rabbitmq/options.h"

namespace waybill {
namespace {

using config::Choice;
using config::Section;
using namespace std::chrono_literals;
using Sasl = RabbitmqOptions::Sasl;

constexpr std::array mechanisms{Choice<Sasl>{"plain", Sasl::plain}, Choice<Sasl>{"external", Sasl::external}};
constexpr std::array<std::string_view, 4> exchange_types{"topic", "direct", "fanout", "headers"};
constexpr std::size_t name_bytes_max = 255;
// What an event may come to as a message: its payload in base64, and what an envelope adds.
constexpr std::size_t message_bytes_expected = limits::payload_bytes_max / 3 * 4 + (std::size_t{128} << 10);

void read_where(Section& section, RabbitmqOptions& options) {
  const std::string url = section.url(
      "url", "", R"(The broker: "amqp://user@host:5672/vhost", "amqps://" for TLS; several hosts by commas)");
  try {
    if (url.empty())
      throw Error(Remedy::fix_config,
                  R"(is missing; name the broker, as in url = "amqps://relay@rabbit-1,rabbit-2/clinic")");
    rabbitmq::BrokerUrl parsed = rabbitmq::parse_url(url);
    options.hosts = std::move(parsed.hosts);
    options.vhost = std::move(parsed.vhost);
    options.tls.on = parsed.tls;
    if (!parsed.user.empty()) options.user = std::move(parsed.user);
    options.password = std::move(parsed.password);
  } catch (const Error& error) {
    section.refuse("url", error.what());
  }
  const std::string password = section.secret("password", "Password of the user in the URL");
  if (!password.empty() && !options.password.empty()) section.refuse("password", "stands in the URL, too; remove one");
  if (!password.empty()) options.password = password;
  options.sasl = section.choice("sasl", options.sasl, mechanisms,
                                "How to log in: plain (user and password), external (by tls_certificate)");
}

void read_tls(Section& section, RabbitmqOptions& options) {
  net::TlsOptions& tls = options.tls;
  tls.ca = section.text("tls_ca", "", "File of certificates whose word counts for the broker's; empty: the system's");
  tls.certificate = section.text("tls_certificate", "", "File of our own certificate, if the broker wants one");
  tls.key = section.secret_path("tls_key", "File of its key");
  tls.server_name =
      section.text("tls_server_name", "", "Name that the broker's certificate is made out to; empty: the host's");
  for (const char* key : {"tls_ca", "tls_certificate", "tls_key", "tls_server_name"})
    if (!tls.on && section.has(key)) section.refuse(key, R"(is for TLS; begin the URL with "amqps://")");
  if (tls.certificate.empty() != tls.key.empty())
    section.refuse(tls.key.empty() ? "tls_key" : "tls_certificate",
                   "is missing; a certificate and its key go together");
  if (options.sasl == Sasl::external && (!tls.on || tls.certificate.empty()))
    section.refuse("sasl", "external logs in by a certificate: it needs amqps:// and tls_certificate");
}

void read_addresses(Section& section, RabbitmqOptions& options) {
  const std::string about = "Exchange that gets the messages, a template; \"\" is the broker's default one";
  options.exchange.emplace(read_address(section, "exchange", "", addresses::exchange, about));
  if (!section.has("exchange"))
    section.refuse("exchange", R"(is missing; name it, as in exchange = "clinic", or write "" for the default one)");
  options.routing_key.emplace(read_address(section, "routing_key", "{topic}", addresses::routing_key,
                                           "Routing key, a template; an event's own counts if it fits"));
  read_own_routing_key(section, *options.routing_key);
  // An exchange that needs nothing of an event is the same for all.
  options.exchange_is_fixed = options.exchange->resolve_by_template(options.fixed_exchange, EventView{}).empty();
}

void read_limits(Section& section, RabbitmqOptions& options) {
  options.in_flight_max =
      static_cast<std::size_t>(section.integer("in_flight_max", static_cast<std::int64_t>(options.in_flight_max),
                                               {1, 10'000}, "Messages that may wait for their confirmation at once"));
  options.message_bytes_max = static_cast<std::size_t>(
      section.byte_size("max_message_size", static_cast<std::int64_t>(options.message_bytes_max),
                        {std::int64_t{1} << 10, std::int64_t{512} << 20},
                        "What the broker takes, its max_message_size; what is larger is rejected"));
  if (options.message_bytes_max < message_bytes_expected)
    section.warn("max_message_size",
                 fmt::format("an event may come to {} KiB as a message; larger ones than this will be "
                             "dead letters",
                             message_bytes_expected >> 10U));
  options.connect_timeout = section.duration("connect_timeout", options.connect_timeout, {100ms, 1min},
                                             "For each host: to connect, log in and be ready");
  options.confirm_timeout = section.duration("confirm_timeout", options.confirm_timeout, {1s, 1h},
                                             "A message without confirmation for so long: connect anew, send again");
  options.heartbeat = std::chrono::ceil<std::chrono::seconds>(
      section.duration("heartbeat", options.heartbeat, {1s, 10min},
                       "Signs of life, in whole seconds; after twice as long without one the broker is gone"));
}

void read_bindings(Section& declare, RabbitmqOptions& options) {
  options.declare.bindings =
      declare.list("binding", "Routing keys that the queue gets, '*' a word, '#' any; none: all");
  if (options.declare.queue.empty()) {
    if (!options.declare.bindings.empty()) declare.refuse("binding", "binds a queue; name it: queue = \"…\"");
    return;
  }
  for (const std::string& key : options.declare.bindings)
    if (key.size() > name_bytes_max) declare.refuse("binding", "has more than 255 bytes");
  const bool default_exchange = options.exchange_is_fixed && options.fixed_exchange.empty();
  if (default_exchange && !options.declare.bindings.empty())
    declare.refuse("binding", "is not possible: the default exchange sends to the queue that the routing key names");
  if (options.declare.bindings.empty() && !default_exchange) options.declare.bindings = {"#"};
}

void read_declare(Section& section, RabbitmqOptions& options) {
  RabbitmqDeclare& wanted = options.declare;
  wanted.on = section.has("declare");
  Section declare = section.section("declare");
  wanted.exchange_type = declare.text("exchange_type", wanted.exchange_type,
                                      "Type of the exchange that is declared: topic, direct, fanout, headers, x-…");
  if (std::find(exchange_types.begin(), exchange_types.end(), wanted.exchange_type) == exchange_types.end() &&
      !wanted.exchange_type.starts_with("x-"))
    declare.refuse("exchange_type", "must be topic, direct, fanout, headers, or a plugin's (x-…)");
  wanted.queue = declare.text("queue", "", "Queue that is declared and bound; empty: none");
  if (wanted.queue.size() > name_bytes_max || !text_problem(wanted.queue).empty())
    declare.refuse("queue", "must be at most 255 bytes of text");
  constexpr std::array types{Choice<std::string_view>{"quorum", "quorum"},
                             Choice<std::string_view>{"classic", "classic"},
                             Choice<std::string_view>{"stream", "stream"}};
  wanted.queue_type = declare.choice<std::string_view>("queue_type", "quorum", types,
                                                       "Type of that queue: quorum survives the loss of a node");
  read_bindings(declare, options);
  wanted.durable = declare.boolean("durable", wanted.durable, "Survives a restart of the broker; nothing else is safe");
  if (wanted.on && !options.exchange_is_fixed)
    section.refuse("declare", "needs an exchange that is the same for all events, without fields in braces");
}

PreviewEvent preview_of(const std::shared_ptr<const RabbitmqOptions>& options) {
  return [options](const EventView& event) {
    rabbitmq::Dresser dresser(*options);
    Preview preview;
    preview.refusal = dresser.dress(event);
    preview.address = fmt::format("exchange '{}', routing key '{}'", dresser.exchange(), dresser.routing_key());
    preview.message = dresser.message();
    preview.note = options->routing_key->note(event);
    return preview;
  };
}

}  // namespace

SinkSetup read_rabbitmq(Section& section) {
  const auto options = std::make_shared<RabbitmqOptions>();
  options->name = section.name();
  read_where(section, *options);
  read_tls(section, *options);
  read_addresses(section, *options);
  options->encode = read_encoder(section, read_amqp_binding(section));
  read_limits(section, *options);
  read_declare(section, *options);
  return {.make = [options](const Log& log) { return rabbitmq_sink(*options, log); },
          .preview = preview_of(options),
          .examine = [options](Steady deadline) { return rabbitmq::examine(*options, deadline); }};
}

}  // namespace waybill
