#pragma once

namespace waybill::app {

// A core dump holds passwords and payloads. While one of these lives this process writes none, and processes of the
// same user cannot read its memory; at its end the process is as it was, which tools that look for leaks need.
class NoCoreDumps {
 public:
  NoCoreDumps();
  ~NoCoreDumps() { allow_core_dumps(); }
  NoCoreDumps(const NoCoreDumps&) = delete;
  NoCoreDumps& operator=(const NoCoreDumps&) = delete;

  // As the process was started, from now on.
  static void allow_core_dumps();
};

}  // namespace waybill::app
