#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "app/commands.h"

// What the files that know CLI11 share: command_line.cc and operator_commands.cc.
namespace waybill::app {

// What the command line has been found to ask for.
struct Request {
  std::string store{};
  std::string store_file{};
  std::vector<std::string> settings{};  // key=value
  bool quiet = false;
  Sources sources{};
  std::function<int()> action{};
};

// When the command line names `app`, `command` is to run with `options`. It returns an ExitCode, or a process's own.
template <typename Options, typename Code>
void run_with(CLI::App* app, Request& request, std::shared_ptr<Options> options,
              Code (*command)(const Sources&, const Options&)) {
  app->callback([&request, options, command] {
    request.action = [&request, options, command] { return static_cast<int>(command(request.sources, *options)); };
  });
}

inline CLI::App* add_command(CLI::App& parent, const std::string& name, const std::string& about,
                             const std::string& examples) {
  CLI::App* app = parent.add_subcommand(name, about);
  app->footer("Examples:\n" + examples +
              "\nEvery command also takes --config, --store, --set and --quiet: see waybill --help.\n");
  return app;
}

// What operators do about events that were not delivered, destinations and the store.
void add_operator_commands(CLI::App& root, Request& request);

}  // namespace waybill::app
