#pragma once

#include <atomic>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "waybill/api.h"

namespace WAYBILL_API waybill {

enum class LogLevel { debug, info, warning, error };

std::string_view to_string(LogLevel level);

struct LogField {
  std::string_view name{};
  std::string value{};
};

// Where this library says what it does. The application decides where the lines go; nowhere, unless it says
// so. A line holds neither payloads nor secrets. Copies write to the same place. Thread-safe if the writer
// is.
class Log {
 public:
  using Writer = std::function<void(LogLevel, std::string_view text, std::span<const LogField>)>;

  Log() = default;
  explicit Log(Writer writer) : writer_(std::move(writer)) {}

  void debug(std::string_view text, std::initializer_list<LogField> fields = {}) const;
  void info(std::string_view text, std::initializer_list<LogField> fields = {}) const;
  void warning(std::string_view text, std::initializer_list<LogField> fields = {}) const;
  void error(std::string_view text, std::initializer_list<LogField> fields = {}) const;

 private:
  Writer writer_;
};

enum class LogFormat { logfmt, json };

// Writes lines of at least `least` to the standard error output, one write per line.
Log stderr_log(LogLevel least, LogFormat format);

// May be changed while it is in use.
struct LogChoice {
  std::atomic<LogLevel> least{LogLevel::info};
  std::atomic<LogFormat> format{LogFormat::logfmt};
};
Log stderr_log(std::shared_ptr<const LogChoice> choice);

}  // namespace waybill
