#include "config/config.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include "waybill/error.h"

#include "base/secret_file.h"
#include "base/suggest.h"
#include "config/reading.h"
#include "config/toml.h"

namespace waybill::config {
namespace {

constexpr std::string_view variable_prefix = "WAYBILL_";
constexpr std::uintmax_t file_bytes_max = std::uintmax_t{4} * 1024 * 1024;

const std::string* lookup(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() || found->second.empty() ? nullptr : &found->second;
}

// The file to read; empty if there is none.
std::string locate(const Sources& sources) {
  if (!sources.file.empty()) return sources.file;
  if (const auto* named = lookup(sources.environment, "WAYBILL_CONFIG")) return *named;
  std::vector<std::string> candidates{"waybill.toml"};
  if (const auto* xdg = lookup(sources.environment, "XDG_CONFIG_HOME")) {
    candidates.push_back(*xdg + "/waybill/waybill.toml");
  } else if (const auto* home = lookup(sources.environment, "HOME")) {
    candidates.push_back(*home + "/.config/waybill/waybill.toml");
  }
  candidates.emplace_back("/etc/waybill/waybill.toml");
  std::error_code ignored;
  for (const auto& path : candidates)
    if (std::filesystem::exists(path, ignored)) return path;
  return {};
}

[[noreturn]] void cannot_read(const std::string& path, std::string_view why) {
  throw Error(Remedy::fix_config, fmt::format("{}: cannot read the configuration: {}", path, why));
}

std::string read_whole(const std::string& path, Reading& reading) {
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0) cannot_read(path, std::strerror(errno));
  if (S_ISDIR(about.st_mode)) cannot_read(path, "it is a folder");
  if (static_cast<std::uintmax_t>(about.st_size) > file_bytes_max) cannot_read(path, "it is over 4 MiB");
  std::ifstream stream(path, std::ios::binary);
  if (!stream) cannot_read(path, std::strerror(errno));
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  if (stream.bad()) cannot_read(path, "reading failed");
  reading.file_mode = about.st_mode & 0777U;
  reading.file_exposed = is_exposed(about);
  return text;
}

void find_unknown(Reading& reading, const Node& table, const std::string& path) {
  const auto& ignored = reading.ignored;
  if (std::find(ignored.begin(), ignored.end(), path) != ignored.end()) return;
  const auto asked = reading.asked.find(path);
  if (asked == reading.asked.end()) return;  // Nobody read it as a table, and said so already.
  for (const auto& member : table.members) {
    const std::string member_path = path.empty() ? member.name : path + "." + member.name;
    if (std::find(asked->second.begin(), asked->second.end(), member.name) == asked->second.end()) {
      reading.problems.push_back(fmt::format("{}: {}: unknown key{}", member.origin.where, member_path,
                                             suggestion(member.name, asked->second)));
    } else if (member.kind == Node::Kind::table) {
      find_unknown(reading, member, member_path);
    }
  }
}

// Every key that was asked for, by its whole path.
std::vector<std::string> asked_paths(const Reading& reading) {
  std::vector<std::string> paths;
  for (const auto& [table, keys] : reading.asked)
    for (const auto& key : keys) paths.push_back(table.empty() ? key : fmt::format("{}.{}", table, key));
  return paths;
}

void find_unknown_flags(Reading& reading) {
  const auto known = asked_paths(reading);
  for (const auto& flag : reading.sources.flags) {
    if (std::find(known.begin(), known.end(), flag.key) != known.end()) continue;
    const std::string near = nearest(flag.key, known);
    reading.problems.push_back(
        fmt::format("{}: unknown key{}", flag.name, near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
  }
}

// Others may set WAYBILL_… too (Kubernetes does, for a service of that name), so these are no errors.
void find_misspelt_variables(Reading& reading) {
  std::vector<std::string> known{"CONFIG"};
  for (const auto& path : asked_paths(reading)) known.push_back(variable_name(path).substr(variable_prefix.size()));
  for (const auto& [name, value] : reading.sources.environment) {
    if (!name.starts_with(variable_prefix)) continue;
    const std::string word = name.substr(variable_prefix.size());
    const std::string near = nearest(word, known);
    if (!near.empty() && near != word)
      reading.warnings.push_back(
          fmt::format("environment {}: means nothing; did you mean '{}{}'?", name, variable_prefix, near));
  }
}

}  // namespace

Environment process_environment() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto equals = text.find('=');
    if (equals != std::string_view::npos) environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

const Node* Node::find(std::string_view member) const {
  const auto found =
      std::find_if(members.begin(), members.end(), [&](const Node& node) { return node.name == member; });
  return found == members.end() ? nullptr : &*found;
}

std::string variable_name(const std::string& path) {
  std::string name(variable_prefix);
  for (const char c : path)
    name += c == '.' || c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

const Node* Reading::keep(std::string text, Origin origin) {
  Node& node = nodes_.emplace_back();
  node.kind = Node::Kind::text;
  node.text = std::move(text);
  node.origin = std::move(origin);
  return &node;
}

const Node* Reading::from_environment(const std::string& path) {
  const std::string name = variable_name(path);
  const std::string* ours = lookup(sources.environment, name);
  const std::string* common = path == "store" ? lookup(sources.environment, "DATABASE_URL") : nullptr;
  if (ours != nullptr && common != nullptr && *ours != *common)
    problems.push_back(fmt::format("environment {} and DATABASE_URL name different stores; unset one of them", name));
  if (ours != nullptr) return keep(*ours, {.kind = Origin::Kind::environment, .where = "environment " + name});
  if (common == nullptr) return nullptr;
  const Node* in_file = tree.find(path);
  if (in_file != nullptr && in_file->text != *common)
    warnings.push_back(fmt::format("store: environment DATABASE_URL overrides {}", in_file->origin.where));
  return keep(*common, {.kind = Origin::Kind::environment, .where = "environment DATABASE_URL"});
}

const Node* Reading::above_file(const std::string& path, bool in_environment) {
  const auto known = above_file_.find(path);
  if (known != above_file_.end()) return known->second;
  return above_file_[path] = find_above_file(path, in_environment);
}

const Node* Reading::find_above_file(const std::string& path, bool in_environment) {
  const auto& flags = sources.flags;
  const auto flag =
      std::find_if(flags.rbegin(), flags.rend(), [&](const Flag& candidate) { return candidate.key == path; });
  if (flag != flags.rend()) return keep(flag->value, {.kind = Origin::Kind::flag, .where = flag->name});
  return in_environment ? from_environment(path) : nullptr;
}

Config::Config(Sources sources) : reading_(std::make_unique<Reading>()) {
  reading_->sources = std::move(sources);
  reading_->file = locate(reading_->sources);
  if (reading_->file.empty()) return;
  const std::string text = read_whole(reading_->file, *reading_);
  reading_->tree = parse_toml(text, reading_->file);
}

Config::~Config() = default;
Config::Config(Config&&) noexcept = default;
Config& Config::operator=(Config&&) noexcept = default;

Section Config::root() {
  reading_->asked.try_emplace("");
  return {*reading_, &reading_->tree, "", true};
}

void Config::finish() {
  find_unknown(*reading_, reading_->tree, "");
  find_unknown_flags(*reading_);
  find_misspelt_variables(*reading_);
  if (reading_->problems.empty()) return;
  throw Error(Remedy::fix_config, fmt::format("{}", fmt::join(reading_->problems, "\n")));
}

const std::string& Config::file() const {
  return reading_->file;
}
const std::vector<Setting>& Config::settings() const {
  return reading_->settings;
}
const std::vector<std::string>& Config::warnings() const {
  return reading_->warnings;
}

}  // namespace waybill::config
