#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "waybill/error.h"
#include "waybill/progress.h"

#include "app/begun.h"
#include "app/commands.h"
#include "app/dialogue.h"
#include "app/json_writer.h"
#include "app/selection.h"
#include "app/session.h"
#include "app/signals.h"
#include "app/story.h"
#include "app/terminal.h"
#include "app/undelivered_list.h"

namespace waybill::app {
namespace {

// What one transaction changes at most: it holds no locks for long, and a signal is heard soon.
constexpr int batch = 500;

struct Verb {
  std::string_view name{};
  std::string_view done{};  // What is now true of the events.
  std::int64_t (Operator::*apply)(const Operation&, const UndeliveredFilter&, int most) = nullptr;
};

constexpr Verb redrive{"redrive", "on the way again", &Operator::redrive};
constexpr Verb dismiss{"dismiss", "dismissed", &Operator::dismiss};

bool are_only(const std::vector<Standing>& standings, Standing standing) {
  return std::all_of(standings.begin(), standings.end(), [&](Standing each) { return each == standing; });
}

std::string_view thing(const UndeliveredFilter& filter) {
  return are_only(filter.standings, Standing::dead)   ? "dead letter"
         : are_only(filter.standings, Standing::held) ? "held event"
                                                      : "event";
}

// An operation has one destination. Without a flag it is the one that has any of the events; empty if none has.
std::string destination_of(Operator& store, const StoreStatus& status, UndeliveredFilter filter) {
  if (!filter.destination.empty()) {
    require_destination(status, filter.destination);
    return filter.destination;
  }
  std::vector<std::string> found;
  std::string last;
  for (const auto& name : known_destinations(status)) {
    filter.destination = name;
    const std::int64_t count = store.count(filter);
    if (count == 0) continue;
    found.push_back(fmt::format("'{}' ({})", name, count));
    last = name;
  }
  if (found.size() > 1)
    throw Error(Remedy::fix_input, fmt::format("several destinations have such events: {}; choose one with "
                                               "--destination; nothing was changed",
                                               fmt::join(found, ", ")));
  return last;
}

// One call of redrive or dismiss.
class Change {
 public:
  Change(const Verb& verb, const Sources& sources, const DeadActOptions& options)
      : verb_(verb),
        options_(options),
        rate_(parse_rate(options.rate)),
        operation_{.id = operation_id(options.operation), .by = operator_name(sources.environment, options.act.by)},
        filter_(filter_of(options.selection)) {
    if (is_empty(options.selection) && !options.all && !continues())
      throw Error(Remedy::fix_input, fmt::format("say which: ids, or flags such as --destination and --topic, or --all "
                                                 "to {} all dead letters",
                                                 verb.name));
    // What is held may have arrived: that is for a person to decide, and not to be swept along.
    if (filter_.standings.empty()) filter_.standings = {Standing::dead};
    if (!filter_.ids.empty() && options.selection.standings.empty())
      filter_.standings = {Standing::dead, Standing::held, Standing::expired, Standing::expired_unknown};
  }

  int run(Store& store) {
    operator_ = store.operate();
    const auto inspector = store.inspector();
    const StoreStatus status = inspector->status();
    go_on();
    filter_.destination = destination_of(*operator_, status, filter_);
    if (filter_.destination.empty()) return nothing(*inspector);
    // What dies from now on was not counted, and is not touched.
    if (!filter_.until) filter_.until = status.now;
    matched_ = operator_->count(filter_);
    if (matched_ == 0) return nothing(*inspector);
    const int missing = tell_missing(*inspector);
    const std::string what =
        fmt::format("{} {} of '{}'", verb_.name, counted(matched_, thing(filter_)), filter_.destination);
    if (options_.act.dry_run) {
      print(options_.act.json ? as_json() : fmt::format("would {}\n", what));
      return code(missing);
    }
    if (!confirm(what, options_.act.yes)) return static_cast<int>(ExitCode::failure);
    const int signal = apply();
    print(options_.act.json ? as_json() : "");
    tell_end(status, signal);
    return signal != 0 ? 128 + signal : code(missing);
  }

 private:
  static int code(int missing) { return static_cast<int>(missing > 0 ? ExitCode::unhealthy : ExitCode::ok); }

  bool continues() const { return !options_.operation.empty(); }

  // With what the operation was begun with: the flags may be left away, and must not say otherwise.
  void go_on() {
    if (!continues()) return;
    const std::string id = operation_.id.to_string();
    const bool flags = !is_empty(options_.selection) || options_.all;
    const auto begun = find_begun(*operator_, operation_.id);
    if (!begun) {  // A new one whose id was chosen beforehand.
      if (flags) return;
      throw Error(Remedy::fix_input,
                  fmt::format("there is no operation {} to go on with; 'waybill operations' shows them", id));
    }
    if (begun->view.kind != verb_.name)
      throw Error(Remedy::fix_input, fmt::format("operation {} is no {} but a {} of '{}'; nothing was changed", id,
                                                 verb_.name, begun->view.kind, begun->view.destination));
    const auto different = flags ? differences(*begun, filter_, options_.selection) : std::vector<std::string>();
    if (!different.empty())
      throw Error(Remedy::fix_input,
                  fmt::format("operation {} was begun otherwise: {}; leave the flags away to go on with it, or leave "
                              "--operation away to begin another; nothing was changed",
                              id, fmt::join(different, "; ")));
    filter_ = begun->filter;
  }

  // Of the ids that were given, how many are not there? Those that an operation has dealt with are not missed.
  int tell_missing(Inspector& inspector) const {
    if (filter_.ids.empty() || continues()) return 0;
    UndeliveredFilter filter = filter_;
    filter.limit = static_cast<int>(filter_.ids.size());
    const auto list = inspector.undelivered(filter);
    int missing = 0;
    for (const auto& id : filter_.ids) {
      const auto& views = list.events;
      if (std::any_of(views.begin(), views.end(), [&](const UndeliveredView& view) { return view.event.id == id; }))
        continue;
      say(why_not(inspector, id));
      ++missing;
    }
    return missing;
  }

  // "dead, held or expired": both ways to expire are one word.
  template <typename Standings>
  static std::string either(const Standings& standings) {
    std::vector<std::string_view> words;
    for (const Standing each : standings)
      if (each != Standing::expired_unknown || standings.size() == 1) words.push_back(to_string(each));
    if (words.empty()) return "undelivered";
    const std::string_view last = words.back();
    words.pop_back();
    return words.empty() ? std::string(last) : fmt::format("{} or {}", fmt::join(words, ", "), last);
  }

  // Why an event that was named is not among those to change: how it stands instead.
  std::string why_not(Inspector& inspector, const EventId& id) const {
    const auto story = inspector.find(id);
    if (!story) return fmt::format("there is no event {}", id.to_string());
    std::vector<std::string> states;
    for (const auto& at : story->destinations)
      if (filter_.destination.empty() || at.destination == filter_.destination)
        states.push_back(fmt::format("{} at '{}'", at.state, at.destination));
    return fmt::format("event {} is not {}{}: it is {}", id.to_string(), either(filter_.standings),
                       filter_.destination.empty() ? "" : fmt::format(" at '{}'", filter_.destination),
                       states.empty() ? "at no destination" : fmt::format("{}", fmt::join(states, ", ")));
  }

  int nothing(Inspector& inspector) const {
    const bool named = !filter_.ids.empty() && !continues();
    if (options_.act.json && !named) print(as_json());
    const std::string text =
        continues() ? fmt::format("there is nothing left to {} for operation {}", verb_.name, operation_.id.to_string())
                    : fmt::format("there is no such {}; nothing to {}", thing(filter_), verb_.name);
    if (named) {
      for (const auto& id : filter_.ids) say(why_not(inspector, id));
      say(fmt::format("nothing to {}", verb_.name));
      return static_cast<int>(ExitCode::failure);
    }
    note(text);
    return static_cast<int>(ExitCode::ok);
  }

  // Returns the signal that came between; 0 if all is done.
  int apply() {
    const std::string id = operation_.id.to_string();
    const Signals signals;
    note(fmt::format("operation {}; if it is interrupted, add --operation {} to go on", id, id));
    try {
      ProgressBar progress(!is_quiet());
      Throttle throttle(rate_);
      while (throttle.wait(changed_, signals.stop_token())) {
        const std::int64_t count = (*operator_.*verb_.apply)(operation_, filter_, throttle.most(batch));
        if (count == 0) return 0;
        changed_ += count;
        progress.show(changed_, matched_);
      }
    } catch (const Error& error) {
      throw Error(error.remedy(), fmt::format("{}; {} of {} are {}, add --operation {} to go on", error.what(),
                                              changed_, counted(matched_, thing(filter_)), verb_.done, id));
    }
    return signals.received();
  }

  void tell_end(const StoreStatus& status, int signal) const {
    const std::string done = counted(changed_, thing(filter_));
    if (signal != 0) {
      say(fmt::format("interrupted; {} of '{}' {} {}, add --operation {} to go on", done, filter_.destination,
                      changed_ == 1 ? "is" : "are", verb_.done, operation_.id.to_string()));
      return;
    }
    note(fmt::format("{} of '{}' {} {}{}", done, filter_.destination, changed_ == 1 ? "is" : "are", verb_.done,
                     rate_ > 0 ? fmt::format(", {} a second", rate_) : ""));
    for (const auto& destination : status.destinations)
      if (destination.name == filter_.destination && destination.paused && verb_.name == redrive.name)
        note(fmt::format("'{}' is paused: they wait for 'waybill resume {}'", destination.name, destination.name));
  }

  std::string as_json() const {
    JsonWriter json;
    json.begin_object().field("kind", verb_.name).name("operation");
    if (options_.act.dry_run || filter_.destination.empty() || matched_ == 0) {
      json.null();
    } else {
      json.value(operation_.id.to_string());
    }
    json.name("destination");
    if (filter_.destination.empty()) {
      json.null();
    } else {
      json.value(filter_.destination);
    }
    json.field("dry_run", options_.act.dry_run).field("matched", matched_).field("changed", changed_).end_object();
    return json.take();
  }

  const Verb& verb_;
  const DeadActOptions& options_;
  const int rate_;
  const Operation operation_;
  UndeliveredFilter filter_;
  std::unique_ptr<Operator> operator_;
  std::int64_t matched_ = 0;
  std::int64_t changed_ = 0;
};

int change(const Verb& verb, const Sources& sources, const DeadActOptions& options) {
  Change change(verb, sources, options);
  const auto store = ready_store(load_settings(sources));
  return change.run(*store);
}

}  // namespace

ExitCode dead_list(const Sources& sources, const DeadListOptions& options) {
  UndeliveredFilter filter = filter_of(options.selection);
  if (filter.standings.empty()) filter.standings = {Standing::dead, Standing::held};
  filter.before_seq = options.before;
  filter.limit = options.limit;
  const auto store = ready_store(load_settings(sources));
  const auto inspector = store->inspector();
  if (!filter.destination.empty()) require_destination(inspector->status(), filter.destination);
  print_undelivered(*inspector, filter,
                    {.payload = options.payload, .json = options.json, .json_lines = options.json_lines});
  return ExitCode::ok;
}

ExitCode dead_show(const Sources& sources, const EventsShowOptions& options) {
  const EventId id = parse_event_id(options.id);
  const auto store = ready_store(load_settings(sources));
  const auto story = find_story(*store->inspector(), id);
  const bool dead = story && std::any_of(story->undelivered.events.begin(), story->undelivered.events.end(),
                                         [](const UndeliveredView& view) { return rests(view.row.standing); });
  if (!dead) {
    say(fmt::format("event {} is nowhere dead, held or expired{}", id.to_string(),
                    story ? fmt::format("; see 'waybill events show {}'", id.to_string()) : ""));
    return ExitCode::failure;
  }
  print(options.json ? story_json(*story, options.payload) : story_text(*story, options.payload));
  return ExitCode::ok;
}

int dead_redrive(const Sources& sources, const DeadActOptions& options) {
  return change(redrive, sources, options);
}

int dead_dismiss(const Sources& sources, const DeadActOptions& options) {
  return change(dismiss, sources, options);
}

}  // namespace waybill::app
