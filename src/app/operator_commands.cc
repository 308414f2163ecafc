// Commands and flags of operators; see command_line.cc.
#include "app/command_request.h"

namespace waybill::app {
namespace {

void add_selection(CLI::App* app, SelectionOptions& selection, bool ids) {
  if (ids) app->add_option("ids", selection.ids, "Event ids; none: by flags");
  app->add_option("--destination", selection.destination, "Destination");
  app->add_option("--topic", selection.topic, "Topic; '*' stands for any text here and below");
  app->add_option("--type", selection.type, "Event type");
  app->add_option("--tenant", selection.tenant, "Tenant");
  app->add_option("--aggregate", selection.aggregate, "Aggregate, as TYPE/ID");
  app->add_option("--key", selection.key, "Ordering key");
  app->add_option("--error", selection.error, "Text that the error contains; with '*': the whole error");
  app->add_option("--since", selection.since, "Not delivered at or after (RFC 3339, or 1h for ago)");
  app->add_option("--until", selection.until, "Not delivered before (RFC 3339, or 1h for ago)");
  app->add_option("--standing", selection.standings,
                  "dead, held (waits for a person), expired, expired_unknown; may be repeated")
      ->allow_extra_args(false);
}

// `asks`: it is confirmed before anything is done.
void add_act(CLI::App* app, ActOptions& act, bool asks) {
  app->add_flag("--dry-run", act.dry_run, "Only say what would be done");
  if (asks) app->add_flag("--yes", act.yes, "Do not ask; needed where there is no terminal");
  app->add_option("--by", act.by, "Who does it, for the record; else $USER@host");
  app->add_flag("--json", act.json, "Print JSON");
}

CLI::Option* add_limit(CLI::App* app, int& limit) {
  return app->add_option("--limit", limit, "At most this many")->check(CLI::Range(1, 10'000))->capture_default_str();
}

void add_dead_list(CLI::App& dead, Request& request) {
  auto options = std::make_shared<DeadListOptions>();
  auto* app = add_command(dead, "list", "List dead letters and held events, newest first",
                          "  waybill dead list --destination events --since 1h\n"
                          "  waybill dead list --error 'no such exchange' --jsonl --payload\n");
  add_selection(app, options->selection, true);
  app->add_option("--before", options->before, "Only events with a smaller seq: the next page");
  add_limit(app, options->limit);
  app->add_flag("--payload", options->payload, "With payloads (in JSON only)");
  auto* json = app->add_flag("--json", options->json, "Print one JSON document");
  app->add_flag("--jsonl", options->json_lines, "Print one JSON object per line")->excludes(json);
  run_with(app, request, options, dead_list);
}

void add_dead_show(CLI::App& dead, Request& request) {
  auto options = std::make_shared<EventsShowOptions>();
  auto* app =
      add_command(dead, "show", "Show a dead letter: the event, its attempts, how it stands at each destination",
                  "  waybill dead show 018f3c1e-7b1a-7c3d-9e2f-0123456789ab --payload\n");
  app->add_option("id", options->id, "Event id")->required();
  app->add_flag("--payload", options->payload, "With the payload");
  app->add_flag("--json", options->json, "Print JSON");
  run_with(app, request, options, dead_show);
}

void add_dead_edit(CLI::App& dead, Request& request) {
  auto options = std::make_shared<DeadEditOptions>();
  auto* app = add_command(dead, "edit", "Change what a dead letter says before it is redriven; the original is kept",
                          "  waybill dead edit ID --destination events          # in $EDITOR\n"
                          "  waybill dead edit ID --destination events --payload '{\"id\":\"o-7\"}'\n"
                          "  waybill dead edit ID --payload-file mended.json --headers '{\"x-mended\":\"1\"}'\n");
  app->add_option("id", options->id, "Event id")->required();
  app->add_option("--destination", options->destination, "Destination; needed if it is dead at several");
  app->add_option("--payload", options->payload, "The new payload; JSON if the old one is");
  app->add_option("--payload-file", options->payload_file, "File with the new payload; - for standard input");
  app->add_option("--headers", options->headers, "The new headers, all of them: a JSON object of texts");
  add_act(app, options->act, false);
  run_with(app, request, options, dead_edit);
}

std::shared_ptr<DeadActOptions> add_dead_act(CLI::App* app) {
  auto options = std::make_shared<DeadActOptions>();
  add_selection(app, options->selection, true);
  app->add_flag("--all", options->all, "All dead letters, where neither ids nor flags say which");
  app->add_option("--operation", options->operation,
                  "Go on with an operation that was interrupted: its id; which events is on record");
  add_act(app, options->act, true);
  return options;
}

void add_dead(CLI::App& root, Request& request) {
  auto* dead = add_command(root, "dead", "Look at dead letters and held events; mend, redrive or dismiss them",
                           "  waybill dead list\n  waybill dead redrive --destination events --dry-run\n");
  dead->require_subcommand(1);
  add_dead_list(*dead, request);
  add_dead_show(*dead, request);
  add_dead_edit(*dead, request);

  auto* redrive =
      add_command(*dead, "redrive", "Send dead letters on the way again, as if for the first time",
                  "  waybill dead redrive --destination events --topic 'order.*' --dry-run\n"
                  "  waybill dead redrive --destination events --topic 'order.*' --rate 100/s --yes\n"
                  "  waybill dead redrive 018f3c1e-7b1a-7c3d-9e2f-0123456789ab\n"
                  "  waybill dead redrive --operation ID                  # go on where it stopped\n"
                  "\nBy flags, what is held (it may have arrived) goes only with --standing held, and what has "
                  "expired only with --standing expired or expired_unknown.\n");
  auto redrive_options = add_dead_act(redrive);
  redrive->add_option("--rate", redrive_options->rate, "At most this many in a second, as 100/s");
  run_with(redrive, request, redrive_options, dead_redrive);

  auto* dismiss =
      add_command(*dead, "dismiss", "Decide that dead letters need not go",
                  "  waybill dead dismiss --destination mail --until 30d --dry-run\n"
                  "  waybill dead dismiss 018f3c1e-7b1a-7c3d-9e2f-0123456789ab --yes\n"
                  "\nBy flags, what is held (it may have arrived) goes only with --standing held, and what has "
                  "expired only with --standing expired or expired_unknown.\n");
  run_with(dismiss, request, add_dead_act(dismiss), dead_dismiss);
}

void add_blocked(CLI::App& root, Request& request) {
  auto options = std::make_shared<BlockedOptions>();
  auto* app = add_command(root, "blocked", "List keys whose events wait behind one that failed, and why",
                          "  waybill blocked\n  waybill blocked --destination events --json\n");
  app->add_option("--destination", options->destination, "Destination; none: all");
  add_limit(app, options->limit);
  app->add_flag("--json", options->json, "Print JSON");
  run_with(app, request, options, blocked);
}

void add_pause(CLI::App& root, Request& request) {
  auto pause_options = std::make_shared<DestinationActOptions>();
  auto* pause_app = add_command(root, "pause", "Stop publishing to a destination; its events wait",
                                "  waybill pause mail\n  waybill pause mail --by 'ada, ticket 17'\n");
  pause_app->add_option("destination", pause_options->destination, "Destination")->required();
  add_act(pause_app, pause_options->act, false);
  run_with(pause_app, request, pause_options, pause);

  auto resume_options = std::make_shared<DestinationActOptions>();
  auto* resume_app =
      add_command(root, "resume", "Go on publishing to a destination that was paused", "  waybill resume mail\n");
  resume_app->add_option("destination", resume_options->destination, "Destination")->required();
  add_act(resume_app, resume_options->act, false);
  run_with(resume_app, request, resume_options, resume);
}

void add_rewind(CLI::App& root, Request& request) {
  auto options = std::make_shared<RewindOptions>();
  auto* app = add_command(root, "rewind", "Send a destination again what it has been sent before",
                          "  waybill rewind search --to 2h --dry-run\n"
                          "  waybill rewind search --event 018f3c1e-7b1a-7c3d-9e2f-0123456789ab\n"
                          "  waybill rewind search --beginning --yes            # with the oldest event kept\n");
  app->add_option("destination", options->destination, "Destination")->required();
  app->add_option("--to", options->to, "With events committed since then (RFC 3339, or 2h for ago)");
  app->add_option("--event", options->event, "With this event");
  app->add_flag("--beginning", options->beginning, "With the oldest event kept");
  add_act(app, options->act, true);
  run_with(app, request, options, rewind);
}

void add_destinations(CLI::App& root, Request& request) {
  auto* destinations = add_command(root, "destinations", "List the destinations the store knows, or forget one",
                                   "  waybill destinations list\n  waybill destinations forget old-search\n");
  destinations->require_subcommand(1);
  auto list = std::make_shared<DestinationsListOptions>();
  auto* list_app = add_command(*destinations, "list", "List the destinations that the store knows",
                               "  waybill destinations list --json\n");
  list_app->add_flag("--json", list->json, "Print JSON");
  run_with(list_app, request, list, destinations_list);

  auto forget = std::make_shared<DestinationActOptions>();
  auto* forget_app =
      add_command(*destinations, "forget", "Forget a destination, so that it holds the log back no longer",
                  "  waybill destinations forget old-search --dry-run\n"
                  "  waybill destinations forget old-search --yes\n");
  forget_app->add_option("destination", forget->destination, "Destination")->required();
  add_act(forget_app, forget->act, true);
  run_with(forget_app, request, forget, destinations_forget);
}

void add_operations(CLI::App& root, Request& request) {
  auto options = std::make_shared<OperationsOptions>();
  auto* app = add_command(root, "operations", "List what people have done, newest first",
                          "  waybill operations\n  waybill operations --limit 5 --json\n");
  add_limit(app, options->limit);
  app->add_flag("--json", options->json, "Print JSON");
  run_with(app, request, options, operations);
}

void add_upkeep(CLI::App& root, Request& request) {
  auto clean_options = std::make_shared<CleanCommandOptions>();
  auto* clean_app = add_command(root, "clean", "Remove what is old and delivered, and say who holds the log back",
                                "  waybill clean --dry-run\n  waybill clean --set retention=24h\n");
  clean_app->add_flag("--dry-run", clean_options->dry_run, "Only say what would be done");
  clean_app->add_flag("--json", clean_options->json, "Print JSON");
  run_with(clean_app, request, clean_options, clean);

  auto anchor_options = std::make_shared<ActOptions>();
  auto* anchor_app = add_command(root, "anchor", "After a restore, a copy or an upgrade: let relays trust this store",
                                 "  waybill anchor --dry-run\n  waybill anchor --yes\n");
  add_act(anchor_app, *anchor_options, true);
  run_with(anchor_app, request, anchor_options, anchor);
}

}  // namespace

void add_operator_commands(CLI::App& root, Request& request) {
  add_dead(root, request);
  add_blocked(root, request);
  add_pause(root, request);
  add_rewind(root, request);
  add_destinations(root, request);
  add_operations(root, request);
  add_upkeep(root, request);
}

}  // namespace waybill::app
