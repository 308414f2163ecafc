#pragma once

#include <stdexcept>
#include <string>

#include "waybill/api.h"

namespace WAYBILL_API waybill {

// What the one who catches an Error can do about it.
enum class Remedy {
  retry,       // The same call may work later: connection lost, deadlock, server busy.
  fix_config,  // Fails until a person changes something: wrong password, missing table, foreign database.
  fix_input,   // The call's own argument is wrong: malformed JSON, a payload over the limit.
  unknown,     // It may have taken effect: the connection broke while waiting for COMMIT.
};

// The one exception of this library. Its text says what failed, where, and the way out; it holds neither
// secrets nor payloads. What is expected per event is no Error but a value (see Outcome).
class Error : public std::runtime_error {
 public:
  Error(Remedy remedy, const std::string& text) : std::runtime_error(text), remedy_(remedy) {}
  Remedy remedy() const noexcept { return remedy_; }

 private:
  Remedy remedy_;
};

}  // namespace waybill
