#include "broker/nats/jetstream.h"

#include <utility>

#include <fmt/format.h>

namespace waybill::nats {

std::string api_subject(const std::string& domain, std::string_view request) {
  return domain.empty() ? fmt::format("$JS.API.{}", request) : fmt::format("$JS.{}.API.{}", domain, request);
}

ApiAnswer ask_api(Connection& connection, const std::string& subject, std::string_view body, Steady deadline) {
  auto answer = connection.ask(subject, body, deadline);
  if (answer && !answer->no_responders) return {.json = std::move(answer->data)};
  if (auto violations = connection.take_violations(); !violations.empty())
    return {.refused = std::move(violations.front()), .forbidden = true};
  return {.refused = answer ? "JetStream does not answer: it is not enabled on this server, or not for this account"
                            : "JetStream did not answer in time"};
}

}  // namespace waybill::nats
