#include "waybill/log.h"

#include <algorithm>

#include <fmt/format.h>
#include <unistd.h>

#include "base/json_text.h"
#include "base/time_text.h"

namespace waybill {
namespace {

std::string json_line(LogLevel level, std::string_view text, std::span<const LogField> fields, Time now) {
  std::string line = fmt::format(R"({{"time":"{}","level":"{}","message":)", to_rfc3339(now), to_string(level));
  append_json_string(line, text);
  for (const auto& field : fields) {
    line += ',';
    append_json_string(line, field.name);
    line += ':';
    append_json_string(line, field.value);
  }
  line += "}\n";
  return line;
}

bool needs_quotes(std::string_view value) {
  return value.empty() || std::any_of(value.begin(), value.end(), [](char c) {
           return static_cast<unsigned char>(c) <= 0x20 || c == '"' || c == '=' || c == '\\' ||
                  static_cast<unsigned char>(c) >= 0x7F;
         });
}

std::string logfmt_line(LogLevel level, std::string_view text, std::span<const LogField> fields, Time now) {
  std::string line = fmt::format("time={} level={} msg=", to_rfc3339(now), to_string(level));
  append_json_string(line, text);
  for (const auto& field : fields) {
    line += ' ';
    line += field.name;
    line += '=';
    if (needs_quotes(field.value)) {
      append_json_string(line, field.value);
    } else {
      line += field.value;
    }
  }
  line += '\n';
  return line;
}

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written <= 0) return;  // A log that cannot be written must not stop what it reports on.
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

std::string_view to_string(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return "debug";
    case LogLevel::info:
      return "info";
    case LogLevel::warning:
      return "warning";
    case LogLevel::error:
      return "error";
  }
  return "error";
}

void Log::debug(std::string_view text, std::initializer_list<LogField> fields) const {
  if (writer_) writer_(LogLevel::debug, text, fields);
}
void Log::info(std::string_view text, std::initializer_list<LogField> fields) const {
  if (writer_) writer_(LogLevel::info, text, fields);
}
void Log::warning(std::string_view text, std::initializer_list<LogField> fields) const {
  if (writer_) writer_(LogLevel::warning, text, fields);
}
void Log::error(std::string_view text, std::initializer_list<LogField> fields) const {
  if (writer_) writer_(LogLevel::error, text, fields);
}

Log stderr_log(LogLevel least, LogFormat format) {
  auto choice = std::make_shared<LogChoice>();
  choice->least = least;
  choice->format = format;
  return stderr_log(std::move(choice));
}

Log stderr_log(std::shared_ptr<const LogChoice> choice) {
  return Log([choice = std::move(choice)](LogLevel level, std::string_view text, std::span<const LogField> fields) {
    if (level < choice->least) return;
    const Time now = system_clock().now();
    write_all(STDERR_FILENO, choice->format == LogFormat::json ? json_line(level, text, fields, now)
                                                               : logfmt_line(level, text, fields, now));
  });
}

}  // namespace waybill
