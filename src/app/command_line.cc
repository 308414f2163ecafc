// Which commands and flags there are, and what they are called; those of operators are in operator_commands.cc.
#include "app/command_line.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "waybill/error.h"

#include "app/command_request.h"
#include "app/commands.h"
#include "app/core_dumps.h"
#include "app/terminal.h"
#include "base/suggest.h"
#include "config/secret.h"

namespace waybill::app {
namespace {

void add_init(CLI::App& root, Request& request) {
  auto options = std::make_shared<InitOptions>();
  auto* app = add_command(root, "init", "Write a commented configuration; never overwrites one",
                          "  waybill init\n"
                          "  waybill init --store postgresql://clinic_relay@db/clinic clinic.toml\n");
  app->add_option("file", options->path, "File to write")->capture_default_str();
  app->callback([&request, options] {
    request.action = [&request, options] {
      if (!request.store.empty()) options->store = request.store;
      return static_cast<int>(init(*options));
    };
  });
}

void add_migrate(CLI::App& root, Request& request) {
  auto options = std::make_shared<MigrateOptions>();
  auto* app = add_command(root, "migrate", "Make the store's tables, or bring them up to date",
                          "  waybill migrate\n"
                          "  waybill migrate --print > waybill.sql      # to review it and run it yourself\n");
  app->add_flag("--print", options->print, "Only print the SQL for an empty store");
  run_with(app, request, options, migrate);
}

void add_run(CLI::App& root, Request& request) {
  auto options = std::make_shared<RunOptions>();
  auto* app = add_command(root, "run", "Relay events to their destinations until stopped (SIGTERM, SIGINT)",
                          "  waybill run\n"
                          "  waybill run --once                         # what is there now, then end\n"
                          "  waybill run --once --timeout 5m            # ends with 4 if something is left by then\n"
                          "  waybill run --migrate --set log.level=debug\n");
  app->add_flag("--migrate", options->migrate, "Bring the tables up to date first (always so with sqlite:)");
  auto* once = app->add_flag("--once", options->once,
                             "Deliver what has been committed by now, then end; with 4 if something is left");
  app->add_option("--timeout", options->timeout, "With --once: the longest time to wait, as in 30s or 5m")->needs(once);
  app->add_flag("--no-wait", options->no_wait,
                "End with 3 if the store is away at the start, instead of waiting for it");
  app->callback(
      [&request, options] { request.action = [&request, options] { return run(request.sources, *options); }; });
}

void add_demo(CLI::App& root, Request& request) {
  auto options = std::make_shared<DemoOptions>();
  auto* app = add_command(root, "demo", "A clinic at work: relay, page and two destinations on an embedded file",
                          "  waybill demo\n"
                          "  waybill demo --for 20s                     # ends by itself, with 0 if both received\n");
  app->add_option("--port", options->port, "Port of the page on 127.0.0.1; 0 for any free one")->capture_default_str();
  app->add_option("--for", options->duration, "End after this time");
  app->callback([&request, options] { request.action = [options] { return demo(*options); }; });
}

void add_event_flags(CLI::App* app, EventFlags& flags) {
  auto* topic = app->add_option("--topic", flags.topic, "What it is published under");
  const auto add = [&](const char* name, auto& value, const char* about) {
    return app->add_option(name, value, about)->needs(topic);
  };
  add("--type", flags.type, "What happened; the topic if not given");
  add("--aggregate", flags.aggregate, "What it happened to, as TYPE/ID; also the ordering key");
  add("--aggregate-version", flags.version, "The aggregate's version after the event");
  add("--key", flags.key, "Ordering key, instead of the aggregate");
  add("--tenant", flags.tenant, "Tenant; 'default' if not given");
  add("--id", flags.id, "Event id (a UUID); made if not given");
  add("--payload", flags.payload, "Payload: JSON, kept byte for byte");
  add("--payload-file", flags.payload_file, "File with a JSON payload; - for standard input");
  add("--payload-bytes-file", flags.payload_bytes_file, "File with a payload of any bytes");
  add("--content-type", flags.content_type, "Media type of the payload");
  add("--header", flags.headers, "Header, as NAME=VALUE; may be repeated")->allow_extra_args(false);
  add("--metadata", flags.metadata, "A JSON object that travels in the message");
  add("--routing-key", flags.routing_key, "Wins over the destination's template");
  add("--schema-id", flags.schema_id, "Schema of the payload");
  add("--schema-version", flags.schema_version, "Its version");
  add("--dedup-key", flags.dedup_key, "A second event with this key is not written");
  add("--occurred-at", flags.occurred_at, "When it happened (RFC 3339, or 10m for ago)");
  add("--not-before", flags.not_before, "Not delivered earlier (RFC 3339, or 10m from now)");
  add("--expires-at", flags.expires_at, "Not delivered later (RFC 3339, or 2h from now)");
  add("--attempts-max", flags.attempts_max, "Attempts before it is given up");
}

void add_enqueue(CLI::App& root, Request& request) {
  auto options = std::make_shared<EnqueueOptions>();
  auto* app =
      add_command(root, "enqueue", "Write events: one by flags, or JSON lines from standard input in one transaction",
                  "  waybill enqueue --topic order.paid --aggregate order/o-7 --payload '{\"id\":\"o-7\"}'\n"
                  "  waybill enqueue < events.jsonl               # members are named as the table's columns:\n"
                  "  "
                  "{\"topic\":\"order.paid\",\"aggregate_type\":\"order\",\"aggregate_id\":\"o-7\",\"payload\":{\"id\":"
                  "\"o-7\"}}\n");
  add_event_flags(app, options->event);
  app->add_flag("--json", options->json, "Print the ids as JSON");
  run_with(app, request, options, enqueue);
}

void add_status(CLI::App& root, Request& request) {
  auto options = std::make_shared<StatusOptions>();
  auto* app = add_command(root, "status", "Show what is pending, what moves, and who works on it",
                          "  waybill status\n"
                          "  waybill status --check --max-age 5m        # for a monitor: ends with 4 on an alert\n");
  app->add_flag("--check", options->check, "End with 4 if there is an alert");
  app->add_flag("--all", options->all, "Also show relays that were not seen for 10 minutes");
  app->add_option("--max-age", options->age_max, "Alert if a pending event is older; else alerts.age_max");
  app->add_option("--max-pending", options->pending_max, "Alert if more events are pending; else alerts.pending_max");
  app->add_flag("--json", options->json, "Print JSON");
  run_with(app, request, options, status);
}

void add_events_list(CLI::App& events, Request& request) {
  auto options = std::make_shared<EventsListOptions>();
  auto* app = add_command(events, "list", "List events, newest first",
                          "  waybill events list --topic 'order.*' --since 1h\n"
                          "  waybill events list --aggregate order/o-7 --jsonl --payload\n"
                          "  waybill events list --standing retrying --standing blocked\n");
  app->add_option("--topic", options->topic, "Topic; '*' stands for any text here and below");
  app->add_option("--type", options->type, "Event type");
  app->add_option("--tenant", options->tenant, "Tenant");
  app->add_option("--aggregate", options->aggregate, "Aggregate, as TYPE/ID");
  app->add_option("--key", options->key, "Ordering key");
  app->add_option("--since", options->since, "Written at or after (RFC 3339, or 1h for ago)");
  app->add_option("--until", options->until, "Written before (RFC 3339, or 1h for ago)");
  app->add_option("--before", options->before, "Only events with a smaller seq: the next page");
  app->add_option("--standing", options->standings,
                  "Only undelivered events that stand so: retrying, blocked, scheduled, held, expired, "
                  "expired_unknown, dead, dismissed; "
                  "may be repeated. --since and --until are then by when they came there")
      ->allow_extra_args(false);
  app->add_option("--limit", options->limit, "At most this many")->check(CLI::Range(1, 10'000))->capture_default_str();
  app->add_flag("--payload", options->payload, "With payloads (in JSON only)");
  auto* json = app->add_flag("--json", options->json, "Print one JSON document");
  app->add_flag("--jsonl", options->json_lines, "Print one JSON object per line")->excludes(json);
  run_with(app, request, options, events_list);
}

void add_events_show(CLI::App& events, Request& request) {
  auto options = std::make_shared<EventsShowOptions>();
  auto* app = add_command(events, "show", "Show an event, how far it got at each destination, and its attempts there",
                          "  waybill events show 018f3c1e-7b1a-7c3d-9e2f-0123456789ab --payload\n");
  app->add_option("id", options->id, "Event id")->required();
  app->add_flag("--payload", options->payload, "With the payload");
  app->add_flag("--json", options->json, "Print JSON");
  run_with(app, request, options, events_show);
}

void add_route(CLI::App& root, Request& request) {
  auto* route =
      add_command(root, "route", "Look at where events go", "  waybill route test --topic order.paid --payload '{}'\n");
  route->require_subcommand(1);
  auto options = std::make_shared<RouteTestOptions>();
  auto* app = add_command(*route, "test",
                          "Show where an event would go and how it would look there; nothing is sent or written.\n"
                          "Ends with 4 if no destination gets it, or one would refuse it",
                          "  waybill route test --topic order.paid --aggregate order/o-7 --payload '{\"id\":\"o-7\"}'\n"
                          "  waybill route test --event 018f3c1e-7b1a-7c3d-9e2f-0123456789ab --body\n"
                          "  waybill route test < event.json              # one line, as 'waybill enqueue' reads it\n");
  add_event_flags(app, options->event);
  app->add_option("--event", options->id, "Id of an event in the store, instead")->excludes("--topic");
  app->add_flag("--body", options->body, "Show all of the body");
  app->add_flag("--json", options->json, "Print JSON");
  run_with(app, request, options, route_test);
}

void add_config(CLI::App& root, Request& request) {
  auto* config = add_command(root, "config", "Check or show the configuration",
                             "  waybill config check\n  waybill config show --origin\n");
  config->require_subcommand(1);
  auto check = std::make_shared<ConfigOptions>();
  auto* check_app = add_command(*config, "check", "Say what is wrong with the configuration; ends with 2 if so",
                                "  waybill config check --config clinic.toml\n");
  check_app->add_flag("--json", check->json, "Print JSON");
  run_with(check_app, request, check, config_check);
  auto show = std::make_shared<ConfigOptions>();
  auto* show_app = add_command(*config, "show", "Show every value, secrets hidden",
                               "  waybill config show --origin               # and where each comes from\n");
  show_app->add_flag("--origin", show->origin, "Show where each value comes from");
  show_app->add_flag("--json", show->json, "Print JSON");
  run_with(show_app, request, show, config_show);
}

void add_doctor(CLI::App& root, Request& request) {
  auto options = std::make_shared<DoctorOptions>();
  auto* app = add_command(root, "doctor", "Look for what is wrong or will hurt; ends with 4 on a problem",
                          "  waybill doctor\n  waybill doctor --json\n");
  app->add_flag("--json", options->json, "Print JSON");
  run_with(app, request, options, doctor);
}

void add_version(CLI::App& root, Request& request) {
  auto options = std::make_shared<VersionOptions>();
  auto* app = add_command(root, "version", "Show the version and what is built in", "  waybill version --json\n");
  app->add_flag("--json", options->json, "Print JSON");
  app->callback([&request, options] { request.action = [options] { return static_cast<int>(version(*options)); }; });
}

// A new command is one function above, one line here and one file beside.
void add_commands(CLI::App& root, Request& request) {
  add_init(root, request);
  add_migrate(root, request);
  add_run(root, request);
  add_demo(root, request);
  add_enqueue(root, request);
  add_status(root, request);
  auto* events = add_command(root, "events", "Look at events",
                             "  waybill events list --topic 'order.*'\n  waybill events show ID\n");
  events->require_subcommand(1);
  add_events_list(*events, request);
  add_events_show(*events, request);
  add_operator_commands(root, request);
  add_route(root, request);
  add_config(root, request);
  add_doctor(root, request);
  add_version(root, request);
}

void add_common_flags(CLI::App& root, Request& request) {
  root.add_option("--config", request.sources.file,
                  "Configuration; else $WAYBILL_CONFIG, ./waybill.toml, $XDG_CONFIG_HOME/waybill/waybill.toml, "
                  "/etc/waybill/waybill.toml");
  auto* store = root.add_option(
      "--store", request.store,
      "The store; else $WAYBILL_STORE, $DATABASE_URL, the configuration. Others can see a password here");
  root.add_option("--store-file", request.store_file, "File whose content is the store's URL")->excludes(store);
  root.add_option("--set", request.settings, "Any key of the configuration, as KEY=VALUE; may be repeated")
      ->allow_extra_args(false);
  root.add_flag("--quiet", request.quiet, "No messages but errors; what 'run' logs is the affair of log.level");
}

// The flags' part of the configuration.
void take_flags(Request& request) {
  auto& flags = request.sources.flags;
  for (const auto& setting : request.settings) {
    const auto equals = setting.find('=');
    if (equals == std::string::npos || equals == 0)
      throw Error(Remedy::fix_input,
                  fmt::format("--set '{}' must read KEY=VALUE, as in --set log.level=debug", setting));
    const std::string key = setting.substr(0, equals);
    flags.push_back({key, setting.substr(equals + 1), "--set " + key});
  }
  if (!request.store.empty()) flags.push_back({"store", request.store, "--store"});
  if (!request.store_file.empty()) flags.push_back({"store_file", request.store_file, "--store-file"});
}

// A copy of the arguments, last one first, as CLI11 takes them. In the process's own list the secrets are overwritten,
// so that a list of processes does not show them for as long as this one runs.
std::vector<std::string> take_arguments(int argc, char** argv) {
  std::vector<std::string> arguments;
  for (int i = argc - 1; i > 0; --i) {
    arguments.emplace_back(argv[i]);
    for (const std::string_view secret : config::secret_parts(argv[i]))
      std::fill_n(argv[i] + (secret.data() - argv[i]), secret.size(), '*');
  }
  return arguments;
}

// Without what flags need and exclude: that is said when it matters, and hides the rest.
class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string text = CLI::Formatter::make_option_opts(option);
    return text.substr(0, std::min(text.find(" Needs:"), text.find(" Excludes:")));
  }
};

// The innermost command that was named.
const CLI::App& named_command(const CLI::App& root) {
  const CLI::App* app = &root;
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  return *app;
}

std::vector<std::string> known_words(const CLI::App& root, const CLI::App& app, bool flags) {
  std::vector<std::string> words;
  if (!flags)
    for (const auto* command : app.get_subcommands({})) words.push_back(command->get_name());
  if (flags)
    for (const auto* level : {&app, &root})
      for (const auto* option : level->get_options())
        for (const auto& name : option->get_lnames()) words.push_back("--" + name);
  return words;
}

// CLI11's own complaints, in our words and with our exit code; help goes to the standard output with 0.
int tell_parse_error(const CLI::App& root, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return root.exit(error);
  const CLI::App& app = named_command(root);
  std::string text = error.what();
  if (const auto extras = root.remaining(true); !extras.empty()) {
    const std::string& word = extras.front();
    const bool flag = word.starts_with("-");
    const std::string near = nearest(word, known_words(root, app, flag));
    text = fmt::format("unknown {} '{}'{}",
                       flag                              ? "flag"
                       : app.get_subcommands({}).empty() ? "argument"
                                                         : "command",
                       word, near.empty() ? "" : fmt::format("; did you mean '{}'?", near));
  }
  std::string command = app.get_name();
  for (const auto* parent = app.get_parent(); parent != nullptr; parent = parent->get_parent())
    command.insert(0, parent->get_name() + " ");
  say(fmt::format("{}{} {} --help", text, text.ends_with('?') ? " See" : "; see", command));
  return static_cast<int>(ExitCode::usage);
}

}  // namespace

int run_command_line(int argc, char** argv) try {
  const NoCoreDumps no_core_dumps;
  Request request;
  CLI::App root("Waybill: events written with your data, relayed at least once and in order.", "waybill");
  root.formatter(std::make_shared<HelpFormatter>());
  root.require_subcommand(1);
  root.fallthrough();
  root.set_version_flag("--version", WAYBILL_VERSION);
  root.footer(
      "Ends with 0 if all went well, 1 on a failure, 2 if the command line, the configuration or the "
      "input\n"
      "is wrong, 3 if the store cannot be reached, 4 if a check found something or not all was done,\n"
      "128+n on signal n.\n"
      "\nExamples:\n  waybill init && waybill migrate\n"
      "  waybill enqueue --topic hello --payload '{}'\n  waybill run --once\n");
  add_common_flags(root, request);
  add_commands(root, request);
  try {
    root.parse(take_arguments(argc, argv));
  } catch (const CLI::ParseError& error) {
    return tell_parse_error(root, error);
  }
  request.sources.environment = config::process_environment();
  take_flags(request);
  if (request.quiet) be_quiet();
  return request.action();
} catch (const Error& error) {
  say(error.what());
  return static_cast<int>(exit_code(error.remedy()));
} catch (const std::exception& error) {
  say(fmt::format("internal error: {}", error.what()));
  return static_cast<int>(ExitCode::failure);
}

}  // namespace waybill::app
