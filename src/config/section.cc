#include "config/section.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "waybill/error.h"

#include "base/json_text.h"
#include "base/secret_file.h"
#include "base/suggest.h"
#include "base/time_text.h"
#include "config/byte_size.h"
#include "config/reading.h"
#include "config/secret.h"

namespace waybill::config {
namespace {

// What was found, for messages, as it stands there: ${env:NAME} is not followed.
std::string found(const Node& node) {
  switch (node.kind) {
    case Node::Kind::table:
      return "found a table";
    case Node::Kind::list:
      return "found a list";
    case Node::Kind::text:
      return fmt::format("found {}", json_string(node.text.substr(0, 60)));
    case Node::Kind::integer:
      return fmt::format("found the number {}", node.integer);
    case Node::Kind::boolean:
      return fmt::format("found {}", node.boolean);
    case Node::Kind::other:
      return fmt::format("found a {}", node.text);
  }
  return {};
}

std::string toml_text(std::string_view text) {
  return json_string(text);  // TOML's basic strings know the same escapes.
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || rest != text.data() + text.size()) return std::nullopt;
  return value;
}

// What was found instead of a secret: only its kind.
std::string found_kind(const Node& node) {
  return node.kind == Node::Kind::integer   ? "found a number"
         : node.kind == Node::Kind::boolean ? "found true or false"
                                            : found(node);
}

std::string read_secret(const std::string& path) {
  std::string text = read_secret_file(path);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  if (text.empty()) throw Error(Remedy::fix_config, fmt::format("'{}' is empty", path));
  return text;
}

}  // namespace

template <typename Parse, typename Print>
struct Section::Measure {
  Measure(std::string_view e, Parse a, Print b) : examples(e), parse(a), print(b) {}
  std::string_view examples;
  Parse parse;
  Print print;
};

std::string Section::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

std::string Section::name() const {
  const auto dot = path_.rfind('.');
  return dot == std::string::npos ? path_ : path_.substr(dot + 1);
}

const Node* Section::ask(std::string_view key) {
  auto& asked = reading_->asked[path_];
  if (std::find(asked.begin(), asked.end(), key) == asked.end()) asked.emplace_back(key);
  if (const Node* above = reading_->above_file(path_of(key), in_environment_)) return above;
  return table_ == nullptr ? nullptr : table_->find(key);
}

bool Section::has(std::string_view key) const {
  return reading_->above_file(path_of(key), in_environment_) != nullptr ||
         (table_ != nullptr && table_->find(key) != nullptr);
}

void Section::complain(std::string_view key, const Node& node, const std::string& why) {
  reading_->problems.push_back(fmt::format("{}: {}: {}", node.origin.where, path_of(key), why));
}

// The text after the place it is about: the value's, else its table's, else the file's.
std::string Section::message(std::string_view key, const std::string& text) {
  const Node* node = key.empty() ? table_ : ask(key);
  if (node == nullptr) node = table_;
  if (node == nullptr) node = &reading_->tree;
  const std::string& where = node->origin.where;
  return fmt::format("{}{}{}: {}", where, where.empty() ? "" : ": ", key.empty() ? path_ : path_of(key), text);
}

void Section::refuse(std::string_view key, const std::string& why) {
  reading_->problems.push_back(message(key, why));
}

void Section::warn(std::string_view key, const std::string& what) {
  reading_->warnings.push_back(message(key, what));
}

void Section::ignore_rest() {
  reading_->ignored.push_back(path_);
}

void Section::show(std::string_view key, const Node* node, std::string value, std::string_view about) {
  const Origin origin = node != nullptr ? node->origin : Origin{Origin::Kind::fallback, "default"};
  reading_->settings.push_back({path_of(key), std::move(value), origin, std::string(about)});
}

// The text with its references followed; a complaint and "" if one leads nowhere.
std::string Section::value_of(const Node& node, std::string_view key) {
  const auto& environment = reading_->sources.environment;
  try {
    return expand(node.text, [&](const std::string& variable) -> std::optional<std::string> {
      const auto entry = environment.find(variable);
      if (entry == environment.end()) return std::nullopt;
      return entry->second;
    });
  } catch (const Error& error) {
    complain(key, node, error.what());
    return {};
  }
}

std::string Section::text(std::string_view key, std::string_view fallback, std::string_view about) {
  const Node* node = ask(key);
  if (node != nullptr && node->kind != Node::Kind::text) {
    complain(key, *node, fmt::format("must be a text in quotes; {}", found(*node)));
    node = nullptr;
  }
  show(key, node, toml_text(node != nullptr ? redact_url(node->text) : std::string(fallback)), about);
  return node != nullptr ? value_of(*node, key) : std::string(fallback);
}

std::int64_t Section::integer(std::string_view key, std::int64_t fallback, Range<std::int64_t> range,
                              std::string_view about) {
  const Node* node = ask(key);
  std::optional<std::int64_t> value = fallback;
  if (node != nullptr) {
    value.reset();
    // A number is a text where it comes from outside the file.
    const bool outside = node->origin.kind != Origin::Kind::file || has_reference(node->text);
    if (node->kind == Node::Kind::integer) value = node->integer;
    if (node->kind == Node::Kind::text && outside) value = parse_integer(value_of(*node, key));
    if (!value || *value < range.least || *value > range.most)
      complain(key, *node,
               fmt::format("must be a whole number from {} to {}; {}", range.least, range.most,
                           value ? fmt::format("found {}", *value) : found(*node)));
  }
  show(key, node, fmt::format("{}", value.value_or(fallback)), about);
  return value.value_or(fallback);
}

std::optional<std::int64_t> Section::limit(std::string_view key, std::optional<std::int64_t> fallback,
                                           Range<std::int64_t> range, std::string_view about) {
  const Node* node = ask(key);
  const bool unlimited = node != nullptr ? node->kind == Node::Kind::text && node->text == "unlimited" : !fallback;
  if (!unlimited) return integer(key, fallback.value_or(range.most), range, about);
  show(key, node, toml_text("unlimited"), about);
  return std::nullopt;
}

std::optional<Section::Duration> Section::duration_or_off(std::string_view key, std::optional<Duration> fallback,
                                                          Range<Duration> range, std::string_view about) {
  const Node* node = ask(key);
  const bool off = node != nullptr ? node->kind == Node::Kind::text && node->text == "off" : !fallback;
  if (!off) return duration(key, fallback.value_or(range.most), range, about);
  show(key, node, toml_text("off"), about);
  return std::nullopt;
}

bool Section::boolean(std::string_view key, bool fallback, std::string_view about) {
  const Node* node = ask(key);
  std::optional<bool> value = fallback;
  if (node != nullptr) {
    value.reset();
    const bool outside = node->origin.kind != Origin::Kind::file || has_reference(node->text);
    if (node->kind == Node::Kind::boolean) value = node->boolean;
    if (node->kind == Node::Kind::text && outside) {
      const std::string word = value_of(*node, key);
      if (word == "true" || word == "false") value = word == "true";
    }
    if (!value) complain(key, *node, fmt::format("must be true or false; {}", found(*node)));
  }
  show(key, node, value.value_or(fallback) ? "true" : "false", about);
  return value.value_or(fallback);
}

template <typename T, typename Parse, typename Print>
T Section::measured(std::string_view key, T fallback, Range<T> range, std::string_view about,
                    const Measure<Parse, Print>& measure) {
  const Node* node = ask(key);
  T value = fallback;
  if (node != nullptr) {
    const auto parsed = measure.parse(node->kind == Node::Kind::text ? value_of(*node, key) : std::string());
    value = parsed.value_or(fallback);
    if (!parsed) {
      complain(key, *node, fmt::format("must be {}; {}", measure.examples, found(*node)));
    } else if (value < range.least || value > range.most) {
      complain(key, *node,
               fmt::format(R"(must be from "{}" to "{}"; found "{}")", measure.print(range.least),
                           measure.print(range.most), measure.print(value)));
    }
  }
  show(key, node, toml_text(measure.print(value)), about);
  return value;
}

Section::Duration Section::duration(std::string_view key, Duration fallback, Range<Duration> range,
                                    std::string_view about) {
  return measured(key, fallback, range, about,
                  Measure{R"(a duration such as "250ms", "5s", "10m", "36h" or "7d")", parse_duration, to_text});
}

std::int64_t Section::byte_size(std::string_view key, std::int64_t fallback, Range<std::int64_t> range,
                                std::string_view about) {
  return measured(key, fallback, range, about,
                  Measure{R"(a size such as "512B", "64KiB" or "32MiB")", parse_byte_size, byte_size_text});
}

std::vector<std::string> Section::list(std::string_view key, std::string_view about) {
  return texts(key, about, redact_url);
}

std::vector<std::string> Section::addresses(std::string_view key, std::string_view about) {
  return texts(key, about, redact_address);
}

std::vector<std::string> Section::texts(std::string_view key, std::string_view about,
                                        std::string (*redact)(std::string_view)) {
  const Node* node = ask(key);
  std::vector<std::string> values;
  std::vector<std::string> shown;
  const auto take = [&](const Node& item) {
    if (item.kind != Node::Kind::text)
      return complain(key, item, fmt::format("must be a text or a list of texts; {}", found(item)));
    values.push_back(value_of(item, key));
    shown.push_back(toml_text(redact(item.text)));
  };
  if (node != nullptr && node->kind == Node::Kind::list) {
    for (const auto& item : node->members) take(item);
  } else if (node != nullptr) {
    take(*node);
  }
  show(key, node, fmt::format("[{}]", fmt::join(shown, ", ")), about);
  return values;
}

std::size_t Section::choose(std::string_view key, std::size_t fallback, const std::vector<std::string>& names,
                            std::string_view about) {
  const Node* node = ask(key);
  std::size_t chosen = fallback;
  if (node != nullptr) {
    const std::string word = node->kind == Node::Kind::text ? value_of(*node, key) : "";
    const auto name = std::find(names.begin(), names.end(), word);
    if (name != names.end()) {
      chosen = static_cast<std::size_t>(name - names.begin());
    } else {
      complain(key, *node,
               fmt::format("must be one of {}; {}{}", fmt::join(names, ", "), found(*node),
                           nearest(word, names).empty() ? "" : suggestion(word, names)));
    }
  }
  show(key, node, toml_text(names[chosen]), about);
  return chosen;
}

std::string Section::required_choice(std::string_view key, const std::vector<std::string>& names,
                                     std::string_view about) {
  const Node* node = ask(key);
  if (node == nullptr) {
    refuse(key, fmt::format("is missing; it must be one of {}", fmt::join(names, ", ")));
    return {};
  }
  const std::size_t problems = reading_->problems.size();
  const std::size_t chosen = choose(key, 0, names, about);
  return reading_->problems.size() == problems ? names[chosen] : std::string();
}

// The value of a key that may also be given as KEY_file; nullptr if neither is.
const Node* Section::from_file(std::string_view key, const Node* node, std::string& value) {
  const std::string file_key = fmt::format("{}_file", key);
  const Node* file = ask(file_key);
  if (file == nullptr) {
    if (node != nullptr) value = value_of(*node, key);
    return node;
  }
  if (node != nullptr && node->origin.kind != file->origin.kind) {
    // The stronger source wins, as everywhere.
    if (node->origin.kind > file->origin.kind) {
      value = value_of(*node, key);
      return node;
    }
  } else if (node != nullptr) {
    complain(file_key, *file, fmt::format("is given beside {}; keep one of them", key));
    return node;
  }
  if (file->kind != Node::Kind::text) {
    complain(file_key, *file, fmt::format("must be a path in quotes; {}", found(*file)));
    return file;
  }
  try {
    value = read_secret(value_of(*file, file_key));
  } catch (const Error& error) {
    complain(file_key, *file, error.what());
  }
  return file;
}

// A secret must not stand where others can read it: they can read a configuration file that is exposed, and the command
// line of every process.
void Section::check_place_of_secret(std::string_view key, const Node& node) {
  if (node.origin.kind == Origin::Kind::file && reading_->file_exposed)
    complain(key, node,
             fmt::format("holds a secret, and others can read this file (mode {:04o}); chmod 600 {}, or use {}_file or "
                         "${{env:NAME}}",
                         reading_->file_mode, reading_->file, key));
  if (node.origin.kind == Origin::Kind::flag)
    warn(key, fmt::format("holds a password on the command line, which others can see in the list of processes; use "
                          "{}{}_file or ${{env:NAME}}",
                          in_environment_ ? fmt::format("the environment variable {}, ", variable_name(path_of(key)))
                                          : std::string(),
                          key));
}

std::string Section::secret(std::string_view key, std::string_view about) {
  const Node* node = ask(key);
  if (node != nullptr && node->kind != Node::Kind::text) {
    complain(key, *node, fmt::format("must be a text in quotes; {}", found_kind(*node)));
    node = nullptr;
  }
  if (node != nullptr && !has_reference(node->text)) check_place_of_secret(key, *node);
  std::string value;
  const Node* source = from_file(key, node, value);
  if (source != nullptr) show(key, source, toml_text(redacted), about);
  return value;
}

std::string Section::url(std::string_view key, std::string_view fallback, std::string_view about) {
  const Node* node = ask(key);
  if (node != nullptr && node->kind != Node::Kind::text) {
    complain(key, *node, fmt::format("must be a URL in quotes; {}", found_kind(*node)));
    node = nullptr;
  }
  const auto password = node != nullptr ? url_password(node->text) : std::string_view();
  if (!password.empty() && !has_reference(password)) check_place_of_secret(key, *node);
  std::string value(fallback);
  const Node* source = from_file(key, node, value);
  // What an environment variable holds is shown by its name only, unless it is the whole story.
  const bool as_written = source == node && node != nullptr && has_reference(node->text);
  show(key, source, toml_text(redact_url(as_written ? node->text : value)), about);
  return value;
}

std::string Section::secret_path(std::string_view key, std::string_view about) {
  const std::string path = text(key, "", about);
  if (const auto why = path.empty() ? std::string() : exposure(path); !why.empty())
    refuse(key, fmt::format("'{}' holds a secret, and {}", path, why));
  return path;
}

Section Section::section(std::string_view key) {
  const Node* node = ask(key);
  const std::string path = path_of(key);
  if (node != nullptr && node->kind != Node::Kind::table) {
    complain(key, *node, fmt::format("must be a table; {}", found(*node)));
    node = nullptr;
  }
  reading_->asked.try_emplace(path);
  return {*reading_, node, path, in_environment_};
}

std::vector<Section> Section::named(std::string_view key) {
  const Section table = section(key);
  std::vector<Section> sections;
  if (table.table_ == nullptr) return sections;
  auto& asked = reading_->asked[table.path_];
  for (const auto& member : table.table_->members) {
    asked.push_back(member.name);
    const std::string path = table.path_of(member.name);
    if (member.kind != Node::Kind::table) {
      complain(fmt::format("{}.{}", key, member.name), member, fmt::format("must be a table; {}", found(member)));
      continue;
    }
    reading_->asked.try_emplace(path);
    sections.push_back(Section(*reading_, &member, path, false));
  }
  return sections;
}

}  // namespace waybill::config
