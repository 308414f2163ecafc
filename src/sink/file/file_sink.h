#pragma once

#include <memory>
#include <string>

#include "waybill/sink.h"

namespace waybill {

struct FileSinkOptions {
  std::string path{};
  bool fsync = false;  // `delivered` only when it is on disk; otherwise when the system has it.
};

// Appends events to a file as JSON lines (model/event_json.h). Several processes may append to one file: a batch is one
// write, and after each write the sink looks at the byte before it. If that is not a line end, another writer died
// inside a line, and the first line of the write is written again, so that every delivered event has a line of its own.
// A reader ignores lines that are not JSON objects; docs/file.md has the rules. A failed write is an outage
// (`unavailable`) for every event of its batch; those before the failure come again. A file that was renamed or removed
// is created again with the next batch. A pipe has one writer at a time, and is an outage while nobody reads it.
std::unique_ptr<Sink> file_sink(FileSinkOptions options);

// The same to the standard output, with this process as the only writer, and one sink at a time: for others it is an
// outage. While nobody reads it, events stay under way.
std::unique_ptr<Sink> stdout_sink();

}  // namespace waybill
