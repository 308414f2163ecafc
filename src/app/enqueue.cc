#include <algorithm>
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

// The ids of events, and which of them were not written since their dedup keys were used before.
struct Enqueued {
  std::vector<EventId> ids{};
  struct Repeated {
    std::size_t place = 0;  // in `ids`; what stands there is the id of the first event
    std::string dedup_key{};
  };
  std::vector<Repeated> repeated{};
};

// For a dedup key that was used before the store answers with the id of the first event. So that this shows, an event
// with such a key gets its own id here.
void write(Writer& writer, std::vector<Event>& events, Enqueued& enqueued) {
  for (Event& event : events)
    if (!event.dedup_key.empty() && !event.id) event.id = EventId::make();
  const auto ids = writer.enqueue(events);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (!events[i].dedup_key.empty() && ids[i] != *events[i].id)
      enqueued.repeated.push_back({enqueued.ids.size(), std::move(events[i].dedup_key)});
    enqueued.ids.push_back(ids[i]);
  }
}

Enqueued write_lines(Store& store) {
  if (::isatty(STDIN_FILENO) == 1) say("reading one JSON object per line; end with Ctrl-D, abandon with Ctrl-C");
  Enqueued enqueued;
  std::vector<Event> events;
  LineReader lines;
  std::unique_ptr<Writer> writer;
  for (bool more = true; more; events.clear()) {
    more = lines.read(events, bytes_before_writing);
    if (events.empty()) continue;
    if (!writer) writer = store.writer();
    write(*writer, events, enqueued);
  }
  if (writer) writer->commit();
  return enqueued;
}

Enqueued write_one(Store& store, Event event) {
  Enqueued enqueued;
  std::vector<Event> events{std::move(event)};
  const auto writer = store.writer();
  write(*writer, events, enqueued);
  writer->commit();
  return enqueued;
}

void print_json(const Enqueued& enqueued) {
  JsonWriter json;
  json.begin_object().name("ids").begin_list();
  for (const auto& id : enqueued.ids) json.value(id.to_string());
  json.end_list().name("repeated").begin_list();
  for (const auto& [place, key] : enqueued.repeated)
    json.begin_object().field("place", static_cast<std::int64_t>(place)).field("dedup_key", key).end_object();
  json.end_list().end_object();
  print(json.take());
}

void tell(const Enqueued& enqueued, bool as_json) {
  constexpr std::size_t named_max = 10;
  if (as_json) {
    print_json(enqueued);
  } else {
    std::string text;
    for (const auto& id : enqueued.ids) text += id.to_string() + '\n';
    print(text);
  }
  const auto& repeated = enqueued.repeated;
  for (std::size_t i = 0; i < std::min(repeated.size(), named_max); ++i)
    note(fmt::format("event {} was not written: dedup key '{}' was used before, by event {}", repeated[i].place + 1,
                     repeated[i].dedup_key, enqueued.ids[repeated[i].place].to_string()));
  if (repeated.size() > named_max)
    note(fmt::format("{} of {} events were not written: their dedup keys were used before", repeated.size(),
                     enqueued.ids.size()));
}

}  // namespace

ExitCode enqueue(const Sources& sources, const EnqueueOptions& options) {
  const Settings settings = load_settings(sources);
  const auto store = open_store_quietly(settings);
  if (options.event.topic.empty()) {
    require_schema(*store);
    tell(write_lines(*store), options.json);
    return ExitCode::ok;
  }
  Event event = event_of(options.event);
  require_schema(*store);
  tell(write_one(*store, std::move(event)), options.json);
  return ExitCode::ok;
}

}  // namespace waybill::app
