#include "waybill/sink.h"

namespace waybill {

std::string_view to_string(Outcome::Kind kind) {
  switch (kind) {
    case Outcome::Kind::delivered:
      return "delivered";
    case Outcome::Kind::retry:
      return "retry";
    case Outcome::Kind::rejected:
      return "rejected";
    case Outcome::Kind::unavailable:
      return "unavailable";
    case Outcome::Kind::unknown:
      return "unknown";
  }
  return "unknown";
}

Outcome Sink::probe(Steady /*deadline*/) {
  return {};
}

void Sink::close(Steady /*deadline*/) {}

}  // namespace waybill
