#include "app/json_writer.h"

#include <utility>

#include <fmt/format.h>

#include "base/json_text.h"
#include "base/time_text.h"

namespace waybill::app {

void JsonWriter::separate() {
  if (!first_) text_ += ',';
  first_ = false;
}

JsonWriter& JsonWriter::begin_object() {
  separate();
  text_ += '{';
  first_ = true;
  return *this;
}
JsonWriter& JsonWriter::end_object() {
  text_ += '}';
  first_ = false;
  return *this;
}
JsonWriter& JsonWriter::begin_list() {
  separate();
  text_ += '[';
  first_ = true;
  return *this;
}
JsonWriter& JsonWriter::end_list() {
  text_ += ']';
  first_ = false;
  return *this;
}
JsonWriter& JsonWriter::name(std::string_view name) {
  separate();
  append_json_string(text_, name);
  text_ += ':';
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::raw(std::string_view json) {
  separate();
  text_ += json;
  return *this;
}
JsonWriter& JsonWriter::value(std::string_view text) {
  return raw(json_string(text));
}
JsonWriter& JsonWriter::value(std::int64_t number) {
  return raw(fmt::format("{}", number));
}
JsonWriter& JsonWriter::value(bool flag) {
  return raw(flag ? "true" : "false");
}
JsonWriter& JsonWriter::value(Time time) {
  return value(std::string_view(to_rfc3339(time)));
}
JsonWriter& JsonWriter::value(const Count& count) {
  return begin_object().field("value", count.value).field("exact", count.exact).end_object();
}
JsonWriter& JsonWriter::null() {
  return raw("null");
}

std::string JsonWriter::take() {
  text_ += '\n';
  first_ = true;
  return std::exchange(text_, {});
}

}  // namespace waybill::app
