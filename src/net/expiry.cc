#include "net/expiry.h"

#include <fmt/format.h>

namespace waybill::net {

ExpiryAdvice advise_on_expiry(Time until, Time now) {
  constexpr std::chrono::days soon{14};
  const auto left = std::chrono::floor<std::chrono::days>(until - now);
  ExpiryAdvice advice{.soon = left < soon,
                      .text = fmt::format("the first to run out does so in {} days", left.count())};
  if (advice.soon) advice.remedy = "renew it in time: the server's, its authority's, or our own (tls_certificate)";
  return advice;
}

}  // namespace waybill::net
