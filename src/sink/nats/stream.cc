#include "sink/nats/stream.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "waybill/error.h"
#include "waybill/event.h"

#include "broker/nats/jetstream.h"

namespace waybill::nats {
namespace {

using nlohmann::json;
using Level = Finding::Level;
using std::chrono::nanoseconds;

constexpr int error_no_stream = 10059;

template <typename T>
T member(const json& object, const char* name, T fallback) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? fallback : found->get<T>();
}

StreamState read_state(const json& answer) {
  const json& config = answer.at("config");
  return {.name = config.at("name").get<std::string>(),
          .subjects = member(config, "subjects", std::vector<std::string>()),
          .storage = member(config, "storage", std::string()),
          .retention = member(config, "retention", std::string()),
          .discard = member(config, "discard", std::string()),
          .replicas = member(config, "num_replicas", 1),
          .no_ack = member(config, "no_ack", false),
          .sealed = member(config, "sealed", false),
          .mirror = config.contains("mirror") && !config["mirror"].is_null(),
          .max_message_size = member<std::int64_t>(config, "max_msg_size", -1),
          .max_messages = member<std::int64_t>(config, "max_msgs", -1),
          .max_bytes = member<std::int64_t>(config, "max_bytes", -1),
          .max_age = nanoseconds(member<std::int64_t>(config, "max_age", 0)),
          .duplicate_window = nanoseconds(member<std::int64_t>(config, "duplicate_window", 0)),
          .consumers = answer.contains("state") ? member<std::int64_t>(answer["state"], "consumer_count", 0) : 0};
}

StreamAnswer ask(Connection& connection, const std::string& subject, std::string_view body, Steady deadline) {
  const ApiAnswer answer = ask_api(connection, subject, body, deadline);
  if (answer.refused.empty()) return read_stream_answer(answer.json);
  return {.error = answer.refused, .unanswered = true};
}

std::string_view name_of(NatsStream::Retention retention) {
  switch (retention) {
    case NatsStream::Retention::interest:
      return "interest";
    case NatsStream::Retention::workqueue:
      return "workqueue";
    case NatsStream::Retention::limits:
      break;
  }
  return "limits";
}

std::string seconds(nanoseconds duration) {
  return fmt::format("{} s", std::chrono::duration_cast<std::chrono::seconds>(duration).count());
}

void examine_safety(const StreamState& state, std::vector<Finding>& findings) {
  if (state.no_ack)
    findings.push_back({Level::problem, "stream " + state.name, "it sends no acks (no_ack): nothing is known to arrive",
                        fmt::format("nats stream edit {}, with acks", state.name)});
  if (state.storage == "memory")
    findings.push_back({Level::problem, "stream " + state.name,
                        "it keeps its messages in memory: a restart of the server loses events that count as delivered",
                        "make a stream with file storage; it cannot be changed in place"});
  if (state.sealed)
    findings.push_back(
        {Level::problem, "stream " + state.name, "it is sealed: it takes nothing any more", "name another stream"});
  if (state.mirror)
    findings.push_back({Level::problem, "stream " + state.name, "it is a mirror: it takes nothing from publishers",
                        "name the stream that it mirrors"});
}

void examine_keeping(const StreamState& state, std::vector<Finding>& findings) {
  if (state.retention == "interest" && state.consumers == 0)
    findings.push_back({Level::warning, "stream " + state.name,
                        "it keeps messages only for consumers (retention interest), and has none: what is sent now "
                        "is acknowledged and thrown away",
                        "make the consumers first, or use retention limits"});
  if (state.discard == "old" && (state.max_messages > 0 || state.max_bytes > 0))
    findings.push_back({Level::note, "stream " + state.name,
                        "when it is full it throws away its oldest messages, read or not (discard old)",
                        "with discard new it would make us wait instead"});
  constexpr auto largest = static_cast<std::int64_t>(limits::payload_bytes_max + limits::headers_bytes_max);
  if (state.max_message_size > 0 && state.max_message_size < largest)
    findings.push_back(
        {Level::warning, "stream " + state.name,
         fmt::format("it takes messages of {} bytes at most; events may have {}", state.max_message_size, largest),
         "raise its max_msg_size; larger events are rejected"});
}

}  // namespace

StreamAnswer read_stream_answer(std::string_view text) try {
  const auto answer = json::parse(text);
  if (const auto error = answer.find("error"); error != answer.end()) {
    const int code = member(*error, "err_code", 0);
    return {.error = fmt::format("{} ({}/{})", member(*error, "description", std::string("no reason given")),
                                 member(*error, "code", 0), code),
            .missing = code == error_no_stream};
  }
  return {.state = read_state(answer)};
} catch (const json::exception&) {
  throw Error(Remedy::retry, "the answer is not one of JetStream's");
}

std::string creation_request(const NatsStream& stream) {
  const auto limit = [](std::int64_t value) { return value > 0 ? value : -1; };
  return json{{"name", stream.name},
              {"subjects", stream.subjects},
              {"retention", name_of(stream.retention)},
              {"storage", "file"},
              {"discard", stream.discard == NatsStream::Discard::new_messages ? "new" : "old"},
              {"num_replicas", stream.replicas},
              {"max_age", nanoseconds(stream.max_age).count()},
              {"max_bytes", limit(stream.max_bytes)},
              {"max_msgs", limit(stream.max_messages)},
              {"max_consumers", -1},
              {"max_msg_size", -1},
              {"duplicate_window", nanoseconds(stream.duplicate_window).count()}}
      .dump();
}

bool overlap(std::string_view pattern, std::string_view other) {
  while (true) {
    const auto end = std::min(pattern.find('.'), pattern.size());
    const auto other_end = std::min(other.find('.'), other.size());
    const auto word = pattern.substr(0, end);
    const auto other_word = other.substr(0, other_end);
    if (word == ">" || other_word == ">") return true;
    if (word != "*" && other_word != "*" && word != other_word) return false;
    const bool ends = end == pattern.size();
    if (ends != (other_end == other.size())) return false;
    if (ends) return true;
    pattern.remove_prefix(end + 1);
    other.remove_prefix(other_end + 1);
  }
}

StreamAnswer look_up_stream(Connection& connection, const NatsStream& stream, Steady deadline) {
  return ask(connection, api_subject(stream.domain, "STREAM.INFO." + stream.name), "", deadline);
}

StreamAnswer create_stream(Connection& connection, const NatsStream& stream, Steady deadline) {
  return ask(connection, api_subject(stream.domain, "STREAM.CREATE." + stream.name), creation_request(stream),
             deadline);
}

std::vector<std::string> find_streams(Connection& connection, const std::string& domain, const std::string& pattern,
                                      Steady deadline) {
  const auto answer = connection.ask(api_subject(domain, "STREAM.NAMES"), json{{"subject", pattern}}.dump(), deadline);
  if (!answer || answer->no_responders) return {};
  const auto parsed = json::parse(answer->data, nullptr, false);
  std::vector<std::string> names;
  if (!parsed.is_object() || !parsed.contains("streams")) return names;
  for (const auto& name : parsed["streams"])
    if (name.is_string()) names.push_back(name.get<std::string>());
  std::erase_if(names, [](const std::string& name) { return name.starts_with("KV_") || name.starts_with("OBJ_"); });
  return names;
}

std::vector<Finding> examine_stream(const StreamState& state, std::chrono::milliseconds retry_gap) {
  std::vector<Finding> findings;
  examine_safety(state, findings);
  examine_keeping(state, findings);
  if (state.duplicate_window < retry_gap)
    findings.push_back(
        {Level::warning, "stream " + state.name,
         fmt::format("it knows a repeated message for {} (duplicate_window), but an event may be tried again after {}",
                     seconds(state.duplicate_window), seconds(retry_gap)),
         "lengthen its duplicate window, or shorten retry.max_delay; until then an event whose ack was lost may be "
         "stored twice, and consumers tell by its id"});
  if (findings.empty())
    findings.push_back({Level::ok, "stream " + state.name,
                        fmt::format("file storage, {} replica{}", state.replicas, state.replicas == 1 ? "" : "s"), ""});
  return findings;
}

}  // namespace waybill::nats
