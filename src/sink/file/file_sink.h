#pragma once

#include <memory>
#include <string>

#include "waybill/sink.h"

namespace waybill {

struct FileSinkOptions {
  std::string path{};
  bool fsync = false;  // `delivered` only when it is on disk; otherwise when the system has it.
};

// Appends events to a file as JSON lines (model/event_json.h). Several processes may append to one file: lines
// are written whole, many in one write. A write that fails is an outage (`unavailable`) for all events that were
// to be written with it, so that those before the place where it broke come again; where that is inside a line,
// the next write begins with a line end, and only the broken line is unreadable.
std::unique_ptr<Sink> file_sink(FileSinkOptions options);

// The same to the standard output. While nobody reads it, events stay on their way.
std::unique_ptr<Sink> stdout_sink();

}  // namespace waybill
