#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>
#include <unistd.h>

#include "waybill/error.h"

#include "app/commands.h"
#include "app/dialogue.h"
#include "app/json_writer.h"
#include "app/payload_file.h"
#include "app/selection.h"
#include "app/session.h"
#include "app/terminal.h"
#include "base/json_members.h"
#include "base/json_text.h"
#include "model/validate.h"

namespace waybill::app {
namespace {

// The one place where the event waits for a person.
UndeliveredList find_where(Inspector& inspector, const DeadEditOptions& options, const EventId& id) {
  UndeliveredFilter filter;
  filter.ids = {id};
  filter.destination = options.destination;
  filter.standings = {Standing::dead, Standing::held, Standing::expired, Standing::expired_unknown};
  filter.payloads = true;
  if (!options.destination.empty()) require_destination(inspector.status(), options.destination);
  UndeliveredList list = inspector.undelivered(filter);
  if (list.events.empty())
    throw Error(Remedy::fix_input,
                fmt::format("event {} is neither dead, held nor expired{}", id.to_string(),
                            options.destination.empty() ? "" : fmt::format(" at '{}'", options.destination)));
  if (list.events.size() > 1) {
    std::vector<std::string> names;
    for (const auto& view : list.events) names.push_back(view.destination);
    throw Error(Remedy::fix_input, fmt::format("event {} is a dead letter of {}; choose one with --destination",
                                               id.to_string(), fmt::join(names, ", ")));
  }
  return list;
}

std::vector<Header> parse_headers(const std::string& json) {
  if (!is_json_object(json)) throw Error(Remedy::fix_input, "--headers is not a JSON object");
  std::vector<Header> headers;
  for (const auto& member : json_members(json)) {
    if (member.value.front() != '"')
      throw Error(Remedy::fix_input, fmt::format("--headers: '{}' must be a text", member.name));
    headers.push_back({member.name, decode_json_string(member.value)});
  }
  return headers;
}

// Holds an edit to the limits that an event is held to when it is written.
void check(const EventView& event, const Edit& edit, const std::vector<Header>& headers) {
  Event edited;
  edited.topic = event.topic;
  edited.headers = headers;
  (event.payload_is_json ? edited.payload : edited.payload_bytes) = edit.payload.value_or(std::string("0"));
  validate(edited);
}

// A file of our own for as long as this lives; only its owner reads it.
class DraftFile {
 public:
  explicit DraftFile(std::string_view text) {
    const char* folder = std::getenv("TMPDIR");
    path_ = fmt::format("{}/waybill-XXXXXX.json", folder != nullptr && *folder != '\0' ? folder : "/tmp");
    const int fd = ::mkstemps(path_.data(), 5);
    if (fd < 0) fail(errno);
    const bool whole = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    const int error = errno;
    if (::close(fd) == 0 && whole) return;
    ::unlink(path_.c_str());
    fail(error);
  }
  ~DraftFile() { ::unlink(path_.c_str()); }
  DraftFile(const DraftFile&) = delete;
  DraftFile& operator=(const DraftFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  [[noreturn]] void fail(int error) const {
    throw Error(Remedy::fix_config, fmt::format("{}: cannot write: {}", path_, std::strerror(error)));
  }

  std::string path_;
};

// Through a shell, since people set EDITOR to a command with flags.
void run_editor(const std::string& path) {
  const char* editor = std::getenv("EDITOR");
  const std::string command = fmt::format("{} \"$1\"", editor != nullptr && *editor != '\0' ? editor : "vi");
  const pid_t child = ::fork();
  if (child < 0) throw Error(Remedy::retry, fmt::format("cannot start an editor: {}", std::strerror(errno)));
  if (child == 0) {
    ::execl("/bin/sh", "sh", "-c", command.c_str(), "sh", path.c_str(), nullptr);
    ::_exit(127);
  }
  int state = 0;
  while (::waitpid(child, &state, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(state) || WEXITSTATUS(state) != 0)
    throw Error(Remedy::fix_input, "the editor ended with an error; nothing was changed");
}

// The payload as a person leaves it; nothing if it is as it was.
std::optional<std::string> edit_by_hand(const UndeliveredView& view) {
  if (!view.event.payload_is_json)
    throw Error(Remedy::fix_input, "the payload is not JSON; give another one with --payload-file");
  const std::string before = view.edit.payload.value_or(std::string(view.event.payload));
  const DraftFile draft(before);
  while (true) {
    run_editor(draft.path());
    std::string text = read_payload(draft.path());
    // Most editors end the last line.
    if (text.ends_with('\n') && !before.ends_with('\n')) text.pop_back();
    if (text == before) return std::nullopt;
    if (is_json(text)) return text;
    if (!confirm("this is not JSON; edit it again", false)) throw Error(Remedy::fix_input, "the payload is not JSON");
  }
}

bool by_hand(const DeadEditOptions& options) {
  if (options.payload && !options.payload_file.empty())
    throw Error(Remedy::fix_input, "give one of --payload and --payload-file");
  if (options.payload || options.headers || !options.payload_file.empty()) return false;
  if (::isatty(STDIN_FILENO) != 1 || ::isatty(STDOUT_FILENO) != 1)
    throw Error(Remedy::fix_input,
                "there is no terminal to edit on; give --payload, --payload-file or --headers; nothing was changed");
  return true;
}

std::string as_json(const DeadEditOptions& options, const Operation& operation, const UndeliveredView& view,
                    const Edit& edit) {
  JsonWriter json;
  json.begin_object().field("kind", "edit").name("operation");
  if (options.act.dry_run) {
    json.null();
  } else {
    json.value(operation.id.to_string());
  }
  json.field("destination", view.destination).field("event", view.event.id.to_string());
  json.field("dry_run", options.act.dry_run).field("payload", edit.payload.has_value());
  json.field("headers", edit.headers.has_value()).end_object();
  return json.take();
}

}  // namespace

ExitCode dead_edit(const Sources& sources, const DeadEditOptions& options) {
  const EventId id = parse_event_id(options.id);
  const bool hand = by_hand(options);
  Edit edit{.payload = options.payload, .headers = {}};
  if (!options.payload_file.empty()) edit.payload = read_payload(options.payload_file);
  std::vector<Header> headers;
  if (options.headers) {
    headers = parse_headers(*options.headers);
    edit.headers = headers.empty() ? "{}" : headers_json(headers);
  }

  const auto store = ready_store(load_settings(sources));
  const auto at_work = store->operate();
  const UndeliveredList list = find_where(*store->inspector(), options, id);
  const UndeliveredView& view = list.events.front();
  if (hand) edit.payload = edit_by_hand(view);
  if (!edit.payload && !edit.headers) {
    note("the payload is as it was; nothing was changed");
    return ExitCode::ok;
  }
  check(view.event, edit, headers);

  const Operation operation{.id = EventId::make(), .by = operator_name(sources.environment, options.act.by)};
  if (!options.act.dry_run) at_work->edit(operation, view.destination, id, edit);
  if (options.act.json) {
    print(as_json(options, operation, view, edit));
  } else if (options.act.dry_run) {
    print(fmt::format("would edit event {} at '{}'\n", id.to_string(), view.destination));
  } else {
    note(fmt::format("event {} is edited at '{}'; the original is kept; next: waybill dead redrive {} --destination {}",
                     id.to_string(), view.destination, id.to_string(), view.destination));
  }
  return ExitCode::ok;
}

}  // namespace waybill::app
