#pragma once

#include <string>
#include <string_view>

#include "waybill/time.h"

#include "broker/nats/connection.h"

namespace waybill::nats {

// "$JS.API.STREAM.INFO.x", or the same of a domain.
std::string api_subject(const std::string& domain, std::string_view request);

// What JetStream says to a request.
struct ApiAnswer {
  std::string json{};
  std::string refused{};   // Why there is no answer; empty if there is.
  bool forbidden = false;  // It is that we may not ask.
};
ApiAnswer ask_api(Connection& connection, const std::string& subject, std::string_view body, Steady deadline);

}  // namespace waybill::nats
