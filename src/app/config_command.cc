#include <algorithm>

#include <fmt/format.h>

#include "waybill/error.h"

#include "app/commands.h"
#include "app/json_writer.h"
#include "app/settings.h"
#include "app/terminal.h"

namespace waybill::app {
namespace {

struct Reading {
  std::vector<std::string> problems{};
  std::vector<std::string> warnings{};
  std::vector<config::Setting> settings{};
  std::string file{};
};

std::vector<std::string> lines(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const auto end = text.find('\n');
    out.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return out;
}

// Reads the configuration as every command does, but survives its problems.
Reading read(const Sources& sources) {
  Reading reading;
  try {
    config::Config config(sources);
    try {
      read_settings(config);
    } catch (const Error& error) {
      reading.problems = lines(error.what());
    }
    reading.settings = config.settings();
    reading.warnings = config.warnings();
    reading.file = config.file();
  } catch (const Error& error) {
    reading.problems = lines(error.what());
  }
  return reading;
}

void write_list(JsonWriter& json, std::string_view name, const std::vector<std::string>& texts) {
  json.name(name).begin_list();
  for (const auto& text : texts) json.value(text);
  json.end_list();
}

ExitCode tell_problems(const Reading& reading) {
  for (const auto& warning : reading.warnings) say("warning: " + warning);
  for (const auto& problem : reading.problems) say(problem);
  return reading.problems.empty() ? ExitCode::ok : ExitCode::usage;
}

void show_json(const Reading& reading) {
  JsonWriter json;
  json.begin_object().field("file", reading.file).name("settings").begin_list();
  for (const auto& setting : reading.settings) {
    json.begin_object().field("key", setting.key);
    json.name("value").raw(setting.value);  // Our texts, numbers and lists are written alike in TOML and JSON.
    json.field("origin", setting.origin.where).field("about", setting.about).end_object();
  }
  json.end_list().end_object();
  print(json.take());
}

}  // namespace

ExitCode config_check(const Sources& sources, const ConfigOptions& options) {
  const Reading reading = read(sources);
  if (options.json) {
    JsonWriter json;
    json.begin_object().field("ok", reading.problems.empty()).field("file", reading.file);
    write_list(json, "problems", reading.problems);
    write_list(json, "warnings", reading.warnings);
    json.end_object();
    print(json.take());
    return reading.problems.empty() ? ExitCode::ok : ExitCode::usage;
  }
  const ExitCode code = tell_problems(reading);
  if (code == ExitCode::ok) print(reading.file.empty() ? "ok (no file)\n" : fmt::format("ok: {}\n", reading.file));
  return code;
}

// The output is a configuration itself, but for hidden secrets.
ExitCode config_show(const Sources& sources, const ConfigOptions& options) {
  const Reading reading = read(sources);
  if (options.json) {
    show_json(reading);
    return tell_problems(reading);
  }
  std::size_t width = 0;
  for (const auto& [key, value, origin, about] : reading.settings)
    width = std::max(width, std::min<std::size_t>(50, key.size() + value.size() + 3));
  std::string text;
  for (const auto& [key, value, origin, about] : reading.settings)
    text += fmt::format("{:<{}}  # {}\n", fmt::format("{} = {}", key, harmless(value)), width,
                        options.origin ? harmless(origin.where) : about);
  print(text);
  return tell_problems(reading);
}

}  // namespace waybill::app
