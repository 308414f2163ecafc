#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>
#include <unistd.h>

#include "waybill/error.h"

#include "app/commands.h"
#include "app/event_flags.h"
#include "app/event_line.h"
#include "app/json_writer.h"
#include "app/session.h"
#include "app/terminal.h"
#include "model/validate.h"

namespace waybill::app {
namespace {

// Twice the largest event, in base64 or escaped.
constexpr std::size_t line_bytes_max = std::size_t{4} * 1024 * 1024;
// Up to here the input is read and checked before the transaction begins, so that a slow producer holds no
// locks; beyond, memory counts more.
constexpr std::size_t bytes_before_writing = std::size_t{64} * 1024 * 1024;

// Reads events from lines of JSON. A line that is wrong is named by its number.
class LineReader {
 public:
  // Appends events until about `bytes_max` were read. False at the end of the input.
  bool read(std::vector<Event>& events, std::size_t bytes_max) {
    std::size_t bytes = 0;
    while (bytes < bytes_max && next_line()) {
      bytes += line_.size();
      if (line_.find_first_not_of(" \t\r") == std::string::npos) continue;
      try {
        events.push_back(parse_event_line(line_));
        validate(events.back());
      } catch (const Error& error) {
        throw Error(Remedy::fix_input,
                    fmt::format("standard input, line {}: {}; nothing was written", number_, error.what()));
      }
    }
    return bytes >= bytes_max;
  }

 private:
  bool next_line() {
    line_.clear();
    for (int c = std::getchar(); c != EOF; c = std::getchar()) {
      if (c == '\n') return ++number_ > 0;
      line_ += static_cast<char>(c);
      if (line_.size() > line_bytes_max)
        throw Error(Remedy::fix_input, fmt::format("standard input, line {}: it is over {} bytes; nothing was written",
                                                   number_ + 1, line_bytes_max));
    }
    if (std::ferror(stdin) != 0)
      throw Error(Remedy::fix_input, fmt::format("cannot read the standard input: {}", std::strerror(errno)));
    return !line_.empty() && ++number_ > 0;
  }

  std::string line_;
  std::int64_t number_ = 0;
};

std::vector<EventId> write_lines(Store& store) {
  if (::isatty(STDIN_FILENO) == 1) say("reading one JSON object per line; end with Ctrl-D, abandon with Ctrl-C");
  std::vector<EventId> ids;
  std::vector<Event> events;
  LineReader lines;
  std::unique_ptr<Writer> writer;
  for (bool more = true; more; events.clear()) {
    more = lines.read(events, bytes_before_writing);
    if (events.empty()) continue;
    if (!writer) writer = store.writer();
    const auto written = writer->enqueue(events);
    ids.insert(ids.end(), written.begin(), written.end());
  }
  if (writer) writer->commit();
  return ids;
}

std::vector<EventId> write_one(Store& store, const Event& event) {
  const auto writer = store.writer();
  auto ids = writer->enqueue({&event, 1});
  writer->commit();
  return ids;
}

void print_ids(const std::vector<EventId>& ids, bool as_json) {
  std::string text;
  JsonWriter json;
  json.begin_object().name("ids").begin_list();
  for (const auto& id : ids) {
    if (as_json) {
      json.value(id.to_string());
    } else {
      text += id.to_string() + '\n';
    }
  }
  json.end_list().end_object();
  print(as_json ? json.take() : text);
}

}  // namespace

ExitCode enqueue(const Sources& sources, const EnqueueOptions& options) {
  const Settings settings = load_settings(sources);
  const auto store = open_store_quietly(settings);
  if (options.event.topic.empty()) {
    require_schema(*store);
    print_ids(write_lines(*store), options.json);
    return ExitCode::ok;
  }
  const Event event = event_of(options.event);
  require_schema(*store);
  print_ids(write_one(*store, event), options.json);
  return ExitCode::ok;
}

}  // namespace waybill::app
