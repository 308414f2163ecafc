#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace waybill {

// Appends `text` as a JSON string, quotes included. Bytes that are not UTF-8 come out as U+FFFD.
void append_json_string(std::string& out, std::string_view text);

std::string json_string(std::string_view text);

// Takes a JSON string off the front of `text`. What it spells: a part of `text`, or, if it is written with escapes,
// of `decoded`. Nothing if there is none, or if it is not UTF-8 or spells half a character.
std::optional<std::string_view> take_json_string(std::string_view& text, std::string& decoded);

// Appends `bytes` in base64, with padding.
void append_base64(std::string& out, std::string_view bytes);

// Is `text` one well-formed JSON value, nested at most 500 deep?
bool is_json(std::string_view text);

// Is it a JSON object?
bool is_json_object(std::string_view text);

// Is `text` well-formed UTF-8 without NUL: what a text column takes?
bool is_text(std::string_view text);

}  // namespace waybill
