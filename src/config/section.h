#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/tree.h"

namespace waybill::config {

class Reading;  // config/reading.h

// Values from `least` to `most`, both included.
template <typename T>
struct Range {
  T least{};
  T most{};
};

template <typename E>
struct Choice {
  std::string_view name{};
  E value{};
};

// A Section reads one table of the configuration. Whoever needs a value asks for it by its key, with what
// holds if nobody set it and a line about it for people; what was never asked for is an unknown key in the
// end. What is wrong is noted, all of it, and thrown by Config::finish(); until then a getter answers with
// the fallback. Used by one thread; the Config must outlive it.
class Section {
 public:
  using Duration = std::chrono::milliseconds;

  std::string text(std::string_view key, std::string_view fallback, std::string_view about);
  std::int64_t integer(std::string_view key, std::int64_t fallback, Range<std::int64_t> range, std::string_view about);
  // A whole number, or "unlimited": nothing.
  std::optional<std::int64_t> limit(std::string_view key, std::optional<std::int64_t> fallback,
                                    Range<std::int64_t> range, std::string_view about);
  bool boolean(std::string_view key, bool fallback, std::string_view about);
  Duration duration(std::string_view key, Duration fallback, Range<Duration> range, std::string_view about);
  // A duration, or "off": nothing.
  std::optional<Duration> duration_or_off(std::string_view key, std::optional<Duration> fallback, Range<Duration> range,
                                          std::string_view about);
  std::int64_t byte_size(std::string_view key, std::int64_t fallback, Range<std::int64_t> range,
                         std::string_view about);
  // One text, or a list of them.
  std::vector<std::string> list(std::string_view key, std::string_view about);
  // The same, of servers' addresses: a password in one is never shown.
  std::vector<std::string> addresses(std::string_view key, std::string_view about);

  template <typename E, std::size_t N>
  E choice(std::string_view key, E fallback, const std::array<Choice<E>, N>& choices, std::string_view about) {
    std::vector<std::string> names;
    std::size_t chosen = 0;
    for (std::size_t i = 0; i < N; ++i) {
      names.emplace_back(choices[i].name);
      if (choices[i].value == fallback) chosen = i;
    }
    return choices[choose(key, chosen, names, about)].value;
  }
  // One of `names`; there is no fallback. Empty if it is missing or none of them, which is then noted.
  std::string required_choice(std::string_view key, const std::vector<std::string>& names, std::string_view about);

  // A secret is never shown. It may come from the file that KEY_file names. Neither that file nor a configuration file
  // with a secret in it may be exposed (base/secret_file.h). On the command line it is warned of. Empty: not set.
  std::string secret(std::string_view key, std::string_view about);
  // A URL is a secret if it carries a password, which is never shown.
  std::string url(std::string_view key, std::string_view fallback, std::string_view about);

  // The path of a file that holds a secret (a key, credentials), which must not be exposed. Empty: not set.
  std::string secret_path(std::string_view key, std::string_view about);

  bool has(std::string_view key) const;
  // A table inside this one; empty if it is not there.
  Section section(std::string_view key);
  // Tables inside `key` whose names the user chooses, sorted by name.
  std::vector<Section> named(std::string_view key);

  // Says that a value, or with no key the whole section, is wrong for a reason no getter knows.
  void refuse(std::string_view key, const std::string& why);
  // Says that a value is allowed but will surprise.
  void warn(std::string_view key, const std::string& what);
  // Whatever else stands in here is not to be complained about: something worse is wrong.
  void ignore_rest();

  std::string name() const;  // The last part of the path.

 private:
  friend class Config;
  Section(Reading& reading, const Node* table, std::string path, bool in_environment)
      : reading_(&reading), table_(table), path_(std::move(path)), in_environment_(in_environment) {}

  std::string path_of(std::string_view key) const;
  const Node* ask(std::string_view key);
  std::string message(std::string_view key, const std::string& text);
  std::string value_of(const Node& node, std::string_view key);
  template <typename Parse, typename Print>
  struct Measure;  // A kind of value that is written as a text: how it is read and shown.
  template <typename T, typename Parse, typename Print>
  T measured(std::string_view key, T fallback, Range<T> range, std::string_view about,
             const Measure<Parse, Print>& measure);
  std::size_t choose(std::string_view key, std::size_t fallback, const std::vector<std::string>& names,
                     std::string_view about);
  const Node* from_file(std::string_view key, const Node* node, std::string& value);
  std::vector<std::string> texts(std::string_view key, std::string_view about, std::string (*redact)(std::string_view));
  void check_place_of_secret(std::string_view key, const Node& node);
  void complain(std::string_view key, const Node& node, const std::string& why);
  void show(std::string_view key, const Node* node, std::string value, std::string_view about);

  Reading* reading_;
  const Node* table_;  // nullptr: not there
  std::string path_;   // Empty for the root.
  bool in_environment_;
};

}  // namespace waybill::config
