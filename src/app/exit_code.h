#pragma once

#include "waybill/error.h"

namespace waybill::app {

// What the process ends with. 128 + n: ended by signal n.
enum class ExitCode {
  ok = 0,
  failure = 1,
  usage = 2,        // The command line, the configuration or the input is wrong.
  unreachable = 3,  // The store or a destination cannot be reached.
  unhealthy = 4,    // A check found something.
};

inline ExitCode exit_code(Remedy remedy) {
  switch (remedy) {
    case Remedy::retry:
      return ExitCode::unreachable;
    case Remedy::fix_config:
    case Remedy::fix_input:
      return ExitCode::usage;
    case Remedy::unknown:
      return ExitCode::failure;
  }
  return ExitCode::failure;
}

}  // namespace waybill::app
