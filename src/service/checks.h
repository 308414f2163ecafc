#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "waybill/database.h"

namespace waybill {

// Throws Error(fix_input) unless `text` is UTF-8 without NUL, of `least` to `most` bytes. `what` opens the message.
void check_text(std::string_view what, std::string_view text, std::size_t least, std::size_t most);

// Throws Error(fix_input) without a transaction: what `what` writes would be committed before what belongs to it.
void check_transaction(const Connection& connection, std::string_view what);

// Throws Error(fix_config) if a schema cannot be called so.
void check_schema(std::string_view name);

// NULL if it is empty.
Parameter or_null(const std::string& text);

// Bytes from what encode(…, 'hex') and hex(…) write.
std::string from_hexadecimal(std::string_view digits);

}  // namespace waybill
