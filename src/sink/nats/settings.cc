#include "sink/nats/settings.h"

#include <algorithm>
#include <array>
#include <memory>

#include "waybill/error.h"

#include "broker/nats/address.h"
#include "message/settings.h"
#include "message/text.h"
#include "sink/nats/composer.h"
#include "sink/nats/nats_sink.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;
using config::Choice;
using config::Section;
using Retention = NatsStream::Retention;
using Discard = NatsStream::Discard;

constexpr std::array retentions{Choice<Retention>{"limits", Retention::limits},
                                Choice<Retention>{"interest", Retention::interest},
                                Choice<Retention>{"workqueue", Retention::workqueue}};
constexpr std::array discards{Choice<Discard>{"new", Discard::new_messages},
                              Choice<Discard>{"old", Discard::old_messages}};

void read_servers(Section& section, NatsOptions& options) {
  for (const auto& text :
       section.addresses("servers", "Servers of one cluster, tried in turn: nats://host:4222, tls://…")) {
    const auto address = parse_nats_address(text);
    if (!address) {
      // Not shown: it may hold a password.
      section.refuse("servers",
                     R"(must be like "nats://host:4222"; who we are is said by 'user' and 'password', 'token', )"
                     R"('credentials_file' or 'nkey')");
      continue;
    }
    options.servers.push_back(address->server);
    options.tls.on = options.tls.on || address->tls;
  }
  if (!section.has("servers")) section.refuse("servers", R"(is missing; as in servers = "nats://127.0.0.1:4222")");
}

NatsLogin read_login(Section& section) {
  NatsLogin login;
  login.user = section.text("user", "", "Who we are, with 'password'");
  login.password = section.secret("password", "The user's password");
  login.token = section.secret("token", "Who we are, by a token");
  login.credentials_file =
      section.secret_path("credentials_file", "Who we are, by a file as 'nsc' makes it (JWT and seed)");
  login.nkey = section.text("nkey", "", "Who we are, by a public key, with 'nkey_seed_file'");
  login.nkey_seed_file = section.secret_path("nkey_seed_file", "The file with the seed of 'nkey'");
  const bool given[]{!login.user.empty(), !login.token.empty(), !login.credentials_file.empty(), !login.nkey.empty()};
  if (std::count(std::begin(given), std::end(given), true) > 1)
    section.refuse("",
                   "says in more than one way who we are: 'user', 'token', 'credentials_file' and 'nkey' exclude "
                   "each other");
  if (login.user.empty() != login.password.empty()) section.refuse("password", "goes with 'user': both, or neither");
  if (login.nkey.empty() != login.nkey_seed_file.empty())
    section.refuse("nkey_seed_file", "goes with 'nkey': both, or neither");
  return login;
}

void read_tls(Section& section, net::TlsOptions& tls) {
  tls.on = section.boolean("tls", tls.on, "Only over TLS; the server's certificate is always verified");
  if (!tls.on) return;
  tls.ca = section.text("tls_ca", "", "File of certificates to trust; none: the system's");
  tls.certificate = section.text("tls_certificate", "", "File of our own certificate, if the server asks for one");
  tls.key = section.secret_path("tls_key", "File of its key");
  tls.server_name = section.text("tls_server_name", "", "What the server's certificate is made out to; none: its host");
  if (tls.certificate.empty() != tls.key.empty()) section.refuse("tls_key", "goes with 'tls_certificate'");
}

bool is_stream_name(std::string_view name) {
  return name.find_first_of(" .*>/\\\t\r\n") == std::string_view::npos && text_problem(name).empty();
}

void read_new_stream(Section& section, NatsStream& stream, std::chrono::milliseconds retry_gap) {
  stream.subjects = section.list("subjects", "Subjects of the stream that is made, with wildcards");
  stream.replicas = static_cast<int>(section.integer("replicas", stream.replicas, {1, 5}, "On how many servers"));
  stream.retention = section.choice("retention", stream.retention, retentions, "When its messages go");
  stream.discard = section.choice("discard", stream.discard, discards, "What gives way when it is full");
  stream.max_age =
      section.duration_or_off("max_age", std::nullopt, {1s, 24h * 3650}, "How long it keeps a message").value_or(0ms);
  stream.max_bytes = section.byte_size("max_bytes", 0, {0, std::int64_t{1} << 60}, "Most bytes it keeps; 0: no limit");
  stream.max_messages =
      section.limit("max_messages", std::nullopt, {1, std::int64_t{1} << 60}, "Most messages it keeps").value_or(0);
  // Long enough for every attempt of an event, unless somebody says otherwise.
  auto window = std::clamp<std::chrono::milliseconds>(retry_gap, stream.duplicate_window, 24h * 7);
  if (stream.max_age > 0ms) window = std::min(window, stream.max_age);
  stream.duplicate_window =
      section.duration("duplicate_window", window, {100ms, 24h * 7}, "How long it knows a message that comes again");
  if (stream.name.empty()) section.refuse("stream", "is missing: create = true needs to know which");
  if (stream.subjects.empty()) section.refuse("subjects", R"(is missing; as in subjects = "events.>")");
  if (stream.max_age > 0ms && stream.duplicate_window > stream.max_age)
    section.refuse("duplicate_window", "must not be longer than max_age");
}

NatsStream read_stream(Section& section, std::chrono::milliseconds retry_gap) {
  NatsStream stream;
  stream.name = section.text("stream", "", "The stream that takes the events; none: whichever takes their subjects");
  stream.domain = section.text("domain", "", "JetStream's domain, if it is not the server's own");
  stream.create = section.boolean("create", stream.create, "Make the stream if it is not there");
  if (!is_stream_name(stream.name)) section.refuse("stream", "must not contain spaces, dots, slashes or wildcards");
  if (stream.create) read_new_stream(section, stream, retry_gap);
  return stream;
}

Address read_subject(Section& section, std::string& pattern) {
  constexpr std::string_view fallback = "{topic}";
  const std::string text =
      section.text("subject", fallback, "Subject, a template; an event's own routing_key counts if it fits");
  try {
    Address address(text, addresses::subject);
    pattern = subject_pattern(text);
    read_own_routing_key(section, address);
    return address;
  } catch (const Error& error) {
    section.refuse("subject", error.what());
    return {fallback, addresses::subject};
  }
}

std::string read_inbox_prefix(Section& section, const std::string& fallback) {
  std::string prefix = section.text("inbox_prefix", fallback, "How the subjects that acks come to begin");
  const bool ends_well = !prefix.empty() && prefix.front() != '.' && prefix.back() != '.';
  if (!ends_well || prefix.find_first_of(" *>\t\r\n") != std::string::npos)
    section.refuse("inbox_prefix", R"(must be words parted by dots, as in "_INBOX.waybill")");
  return prefix;
}

void read_times(Section& section, NatsOptions& options) {
  options.in_flight_max =
      static_cast<std::size_t>(section.integer("in_flight_max", static_cast<std::int64_t>(options.in_flight_max),
                                               {1, 100'000}, "Most events that wait for an ack at the same time"));
  options.connect_timeout =
      section.duration("connect_timeout", options.connect_timeout, {100ms, 60s}, "Longest wait for each server");
  options.ack_timeout = section.duration("ack_timeout", options.ack_timeout, {100ms, 10min}, "Longest wait for an ack");
  options.heartbeat = section.duration("heartbeat", options.heartbeat, {100ms, 10min},
                                       "A silent server is asked for a sign of life, and given up after as long again");
}

}  // namespace

SinkSetup read_nats(Section& section, std::chrono::milliseconds retry_gap) {
  std::string pattern = ">";
  NatsOptions options;
  options.subject = read_subject(section, pattern);
  options.subject_pattern = pattern;
  options.connection_name = "waybill " + section.name();
  read_servers(section, options);
  options.login = read_login(section);
  read_tls(section, options.tls);
  options.stream = read_stream(section, retry_gap);
  options.inbox_prefix = read_inbox_prefix(section, options.inbox_prefix);
  options.encode = read_encoder(section, bindings::nats);
  read_times(section, options);
  const auto shared = std::make_shared<const NatsOptions>(std::move(options));
  return {.make = [shared](const Log& log) { return nats_sink(*shared, log); },
          .preview = [shared](const EventView& event) { return nats::Composer(*shared).preview(event); },
          .examine = [shared, retry_gap](Steady deadline) { return examine_nats(*shared, retry_gap, deadline); }};
}

std::string subject_pattern(std::string_view subject_template) {
  const auto field = subject_template.find_first_of("{}");
  if (field == std::string_view::npos) return std::string(subject_template);
  const auto dot = subject_template.substr(0, field).rfind('.');
  return dot == std::string_view::npos ? ">" : std::string(subject_template.substr(0, dot)) + ".>";
}

}  // namespace waybill
