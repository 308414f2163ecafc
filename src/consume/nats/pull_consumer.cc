#include "consume/nats/pull_consumer.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "waybill/error.h"

#include "broker/nats/jetstream.h"

namespace waybill::nats {
namespace {

using nlohmann::json;
using std::chrono::nanoseconds;

constexpr int error_no_consumer = 10014;
constexpr int error_no_stream = 10059;

template <typename T>
T member(const json& object, const char* name, T fallback) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? fallback : found->get<T>();
}

ConsumerState read_state(const json& config) {
  ConsumerState state{.ack_policy = member(config, "ack_policy", std::string()),
                      .deliver_subject = member(config, "deliver_subject", std::string()),
                      .subjects = member(config, "filter_subjects", std::vector<std::string>()),
                      .max_ack_pending = member<std::int64_t>(config, "max_ack_pending", -1),
                      .max_deliver = member<std::int64_t>(config, "max_deliver", -1),
                      .ack_wait = nanoseconds(member<std::int64_t>(config, "ack_wait", 0))};
  if (const auto one = member(config, "filter_subject", std::string()); !one.empty()) state.subjects.push_back(one);
  return state;
}

ConsumerAnswer ask(Connection& connection, const NatsSourceOptions& options, std::string_view request,
                   std::string_view body, Steady deadline) {
  const std::string subject =
      api_subject(options.domain, fmt::format("{}.{}.{}", request, options.stream, options.durable));
  const ApiAnswer answer = ask_api(connection, subject, body, deadline);
  if (!answer.refused.empty())
    throw Error(answer.forbidden ? Remedy::fix_config : Remedy::retry,
                fmt::format("{}: {}: {}", connection.where(), subject, answer.refused));
  return read_consumer_answer(answer.json);
}

[[noreturn]] void refuse(const Connection& connection, const NatsSourceOptions& options, std::string_view why) {
  throw Error(Remedy::fix_config, fmt::format("{}: consumer '{}' of stream '{}': {}", connection.where(),
                                              options.durable, options.stream, why));
}

}  // namespace

ConsumerAnswer read_consumer_answer(std::string_view text) try {
  const auto answer = json::parse(text);
  if (const auto error = answer.find("error"); error != answer.end()) {
    const int code = member(*error, "err_code", 0);
    return {.error = fmt::format("{} ({}/{})", member(*error, "description", std::string("no reason given")),
                                 member(*error, "code", 0), code),
            .missing = code == error_no_consumer,
            .no_stream = code == error_no_stream};
  }
  return {.state = read_state(answer.at("config"))};
} catch (const json::exception&) {
  throw Error(Remedy::retry, "the answer is not one of JetStream's");
}

std::string creation_request(const NatsSourceOptions& options) {
  json config{{"durable_name", options.durable},    {"deliver_policy", "all"},
              {"ack_policy", "explicit"},           {"ack_wait", nanoseconds(options.ack_wait).count()},
              {"max_deliver", options.max_deliver}, {"max_ack_pending", options.prefetch},
              {"replay_policy", "instant"}};
  if (options.subjects.size() == 1) config["filter_subject"] = options.subjects.front();
  if (options.subjects.size() > 1) config["filter_subjects"] = options.subjects;
  return json{{"stream_name", options.stream}, {"config", config}}.dump();
}

std::string mismatch(const ConsumerState& state, const NatsSourceOptions& options) {
  if (!state.deliver_subject.empty()) return "it pushes, and is not to be pulled from; name another";
  if (state.ack_policy != "explicit")
    return fmt::format("its ack policy is '{}', not 'explicit'; name another", state.ack_policy);
  auto has = state.subjects;
  auto wanted = options.subjects;
  std::sort(has.begin(), has.end());
  std::sort(wanted.begin(), wanted.end());
  const auto listed = [](const auto& subjects) {
    return subjects.empty() ? "all subjects" : fmt::format("{}", fmt::join(subjects, ", "));
  };
  if (has != wanted)
    return fmt::format("it reads {}, not {}; change it, or 'subjects'", listed(state.subjects),
                       listed(options.subjects));
  if (state.max_deliver != options.max_deliver)
    return fmt::format("its max_deliver is {}, not {}; change it, or 'max_deliver'", state.max_deliver,
                       options.max_deliver);
  if (options.prefetch == 1 && state.max_ack_pending != 1)
    return fmt::format(
        "it hands out {} messages before one is acknowledged, so that it does not keep their order; set "
        "its max_ack_pending to 1, or prefetch to more",
        state.max_ack_pending < 0 ? "any number of" : std::to_string(state.max_ack_pending));
  return {};
}

ConsumerState find_or_create(Connection& connection, const NatsSourceOptions& options, bool may_create,
                             Steady deadline) {
  ConsumerAnswer answer = ask(connection, options, "CONSUMER.INFO", "", deadline);
  if (answer.missing && !options.create) refuse(connection, options, "is not there; make it, or set create = true");
  if (answer.missing && !may_create)
    refuse(connection, options, "is gone; make it again, beginning where it is to go on");
  if (answer.missing) answer = ask(connection, options, "CONSUMER.DURABLE.CREATE", creation_request(options), deadline);
  if (answer.no_stream) refuse(connection, options, "there is no such stream");
  if (!answer.error.empty()) refuse(connection, options, answer.error);
  if (const std::string why = mismatch(answer.state, options); !why.empty()) refuse(connection, options, why);
  return answer.state;
}

bool keeps_terminated(Connection& connection, const NatsSourceOptions& options, Steady deadline) {
  const ApiAnswer answer =
      ask_api(connection, api_subject(options.domain, "STREAM.INFO." + options.stream), "", deadline);
  // Whoever may not look has to say it (`reject`). To whom nobody answers may do so next time.
  if (!answer.refused.empty() && !answer.forbidden)
    throw Error(Remedy::retry, fmt::format("{}: {}", connection.where(), answer.refused));
  const auto parsed = json::parse(answer.json, nullptr, false);
  if (!parsed.is_object() || !parsed.contains("config") || !parsed["config"].is_object()) return false;
  const auto retention = parsed["config"].find("retention");
  return retention != parsed["config"].end() && *retention == "limits";
}

}  // namespace waybill::nats
