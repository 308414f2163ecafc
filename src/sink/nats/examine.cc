// Whether events would be safe: asked before the relay starts, and by doctor.
#include <algorithm>

#include <fmt/format.h>

#include "waybill/error.h"
#include "waybill/event.h"

#include "net/expiry.h"
#include "sink/nats/nats_sink.h"
#include "sink/nats/stream.h"

namespace waybill {
namespace {

using nats::Connection;
using nats::StreamAnswer;
using Level = Finding::Level;
using std::chrono::milliseconds;

Finding missing(const NatsStream& stream) {
  const std::string what = "stream " + stream.name;
  if (stream.create) return {Level::note, what, "it is not there yet; it is made when the relay starts", ""};
  return {Level::problem, what, "there is no such stream",
          "make it, as in 'nats stream add " + stream.name + "', or set create = true"};
}

void examine_one(Connection& connection, const NatsOptions& options, const std::string& name, milliseconds retry_gap,
                 Steady deadline, std::vector<Finding>& findings) {
  NatsStream stream = options.stream;
  stream.name = name;
  const StreamAnswer answer = nats::look_up_stream(connection, stream, deadline);
  if (answer.missing) {
    findings.push_back(missing(stream));
  } else if (!answer.error.empty()) {
    findings.push_back({Level::warning, "stream " + name, "cannot be looked at: " + answer.error,
                        "let us ask $JS.API.STREAM.INFO." + name + ", to know whether events are safe there"});
  } else {
    const auto& subjects = answer.state.subjects;
    if (std::none_of(subjects.begin(), subjects.end(),
                     [&](const std::string& subject) { return nats::overlap(subject, options.subject_pattern); }))
      findings.push_back({Level::problem, "stream " + name,
                          fmt::format("it takes {}, which no event's subject ({}) matches",
                                      subjects.empty() ? "nothing" : fmt::format("{}", fmt::join(subjects, ", ")),
                                      options.subject_pattern),
                          "add the subject to the stream, or change 'subject'"});
    for (auto& finding : nats::examine_stream(answer.state, retry_gap)) findings.push_back(std::move(finding));
  }
}

void examine_limits(const Connection& connection, std::vector<Finding>& findings) {
  constexpr std::size_t largest = limits::payload_bytes_max + limits::headers_bytes_max;
  if (connection.max_payload() >= largest) return;
  findings.push_back({Level::warning, "server " + connection.where(),
                      fmt::format("it takes messages of {} bytes at most (max_payload); events may have {}",
                                  connection.max_payload(), largest),
                      "raise max_payload; larger events are rejected"});
}

void examine_streams(Connection& connection, const NatsOptions& options, milliseconds retry_gap, Steady deadline,
                     std::vector<Finding>& findings) {
  std::vector<std::string> names{options.stream.name};
  if (options.stream.name.empty()) {
    names = nats::find_streams(connection, options.stream.domain, options.subject_pattern, deadline);
    if (names.empty())
      findings.push_back({Level::warning, "server " + connection.where(),
                          fmt::format("no stream is known to take {}", options.subject_pattern),
                          "make one, or name it in 'stream' and set create = true"});
  }
  for (const auto& name : names) examine_one(connection, options, name, retry_gap, deadline, findings);
}

// A signature (nkey, credentials_file) is no use to those who read it; a password or token is.
void examine_login(const NatsOptions& options, std::vector<Finding>& findings) {
  const bool told = !options.login.password.empty() || !options.login.token.empty();
  if (told && !options.tls.on && !net::all_on_loopback(options.servers))
    findings.push_back({Level::warning, "login", "password or token, and events, cross the network unencrypted",
                        "use tls:// (or tls = true), or log in by nkey or credentials_file"});
}

}  // namespace

std::vector<Finding> examine_nats(const NatsOptions& options, milliseconds retry_gap, Steady deadline) {
  std::vector<Finding> findings;
  examine_login(options, findings);
  Waker waker;
  const net::Patience patience(waker, [] { return false; });
  std::unique_ptr<Connection> connection;
  try {
    connection = nats::connect_to_any(options, 0, patience, deadline);
  } catch (const Error& error) {
    findings.push_back(
        {Level::warning, "nats", fmt::format("cannot be reached: {}", error.what()), "events wait until it can"});
    return findings;
  }
  if (const auto until = connection->trusted_until()) {
    const net::ExpiryAdvice advice = net::advise_on_expiry(*until, system_clock().now());
    findings.push_back({advice.soon ? Level::warning : Level::ok, "certificates", advice.text, advice.remedy});
  }
  examine_limits(*connection, findings);
  try {
    examine_streams(*connection, options, retry_gap, deadline, findings);
  } catch (const Error& error) {
    findings.push_back({Level::warning, "nats", error.what(), ""});
  }
  return findings;
}

}  // namespace waybill
