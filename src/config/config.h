#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/section.h"

namespace waybill::config {

using Environment = std::map<std::string, std::string>;

Environment process_environment();

// A value given on the command line: --store URL is {"store", URL, "--store"}.
struct Flag {
  std::string key{};  // Its path: "log.level".
  std::string value{};
  std::string name{};
};

// What a configuration is made of.
struct Sources {
  std::string file{};  // --config; empty: the first there is of $WAYBILL_CONFIG, ./waybill.toml,
                       // $XDG_CONFIG_HOME/waybill/waybill.toml, /etc/waybill/waybill.toml; none is fine too.
  Environment environment{};
  std::vector<Flag> flags{};
};

// A value somebody asked for, as `config show` shows it.
struct Setting {
  std::string key{};
  std::string value{};  // In TOML. Secrets are hidden.
  Origin origin{};
  std::string about{};
};

// A Config is one tree over flags, environment (WAYBILL_BATCH for `batch`, WAYBILL_LOG_LEVEL for
// `log.level`), file and defaults, in that order of precedence. Load it, read through root(), then finish().
// Used by one thread.
class Config {
 public:
  // Throws Error(fix_config) if the file cannot be read or is no TOML.
  explicit Config(Sources sources);
  ~Config();
  Config(Config&&) noexcept;
  Config& operator=(Config&&) noexcept;

  Section root();

  // REQUIRES: everything was read. Throws Error(fix_config) with one line per problem; unknown keys are some.
  void finish();

  const std::string& file() const;  // Empty: none.
  const std::vector<Setting>& settings() const;
  // What is allowed but probably not meant; complete after finish().
  const std::vector<std::string>& warnings() const;

 private:
  std::unique_ptr<Reading> reading_;
};

}  // namespace waybill::config
