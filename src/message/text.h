#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace waybill {

// Equal, if upper and lower case of ASCII letters count as the same.
bool same_letters(std::string_view a, std::string_view b);

// Why `text` cannot stand in a header, a property or an address of any protocol: it has control characters (line ends
// among them) or is not UTF-8. Reads on after "its topic …"; empty if it can.
std::string_view text_problem(std::string_view text);

// Nothing but '!' to '~' and single spaces inside: what a line of a protocol carries unchanged.
bool is_line_value(std::string_view text);

// Letters, digits and !#$%&'*+-.^_`|~, at least one (a token of RFC 9110).
bool is_token(std::string_view text);

// Appends `text`, with the characters of `reserved` as "%2E".
void append_escaped(std::string& out, std::string_view text, std::string_view reserved);

// The same for what CloudEvents escapes in headers: spaces, quotes, percent signs, and all that is no ASCII.
void append_percent_encoded(std::string& out, std::string_view text);

// What that came from; nothing if a '%' is not followed by two hexadecimal digits.
std::optional<std::string> percent_decoded(std::string_view text);

}  // namespace waybill
