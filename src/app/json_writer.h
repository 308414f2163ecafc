#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "waybill/store.h"
#include "waybill/time.h"

namespace waybill::app {

// A JsonWriter builds one JSON document, members in the order of the calls. What is not there is null: a
// field never goes missing.
class JsonWriter {
 public:
  JsonWriter& begin_object();
  JsonWriter& end_object();
  JsonWriter& begin_list();
  JsonWriter& end_list();
  JsonWriter& name(std::string_view name);

  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(std::int64_t number);
  JsonWriter& value(int number) { return value(std::int64_t{number}); }
  JsonWriter& value(bool flag);
  JsonWriter& value(Time time);
  JsonWriter& value(const Count& count);  // {"value": 17, "exact": true}
  JsonWriter& null();
  // REQUIRES: `json` is one JSON value.
  JsonWriter& raw(std::string_view json);
  template <typename T>
  JsonWriter& value(const std::optional<T>& maybe) {
    return maybe ? value(*maybe) : null();
  }

  template <typename T>
  JsonWriter& field(std::string_view field_name, const T& field_value) {
    return name(field_name).value(field_value);
  }

  // The document, and a line end.
  std::string take();

 private:
  void separate();

  std::string text_;
  bool first_ = true;  // Nothing stands before the next value that a comma must part it from.
};

}  // namespace waybill::app
