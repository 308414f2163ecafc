#include "waybill/sink.h"
#include "waybill/store.h"

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

std::string_view to_string(Standing standing) {
  switch (standing) {
    case Standing::retrying:
      return "retrying";
    case Standing::blocked:
      return "blocked";
    case Standing::scheduled:
      return "scheduled";
    case Standing::held:
      return "held";
    case Standing::expired:
      return "expired";
    case Standing::expired_unknown:
      return "expired_unknown";
    case Standing::dead:
      return "dead";
    case Standing::dismissed:
      return "dismissed";
  }
  return "retrying";
}

bool waits(Standing standing) {
  return standing == Standing::retrying || standing == Standing::blocked || standing == Standing::scheduled;
}

bool rests(Standing standing) {
  return standing == Standing::held || standing == Standing::dead || standing == Standing::expired ||
         standing == Standing::expired_unknown;
}

Outcome Sink::probe(Steady /*deadline*/) {
  return {};
}

void Sink::close(Steady /*deadline*/) {}

}  // namespace waybill
