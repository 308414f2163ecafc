#pragma once

#include <exception>
#include <string>

namespace waybill {

// What may be told of a failure to those who read logs: the text of an Error; of anything else what it is called, for
// nobody knows what its text quotes.
std::string error_text(const std::exception& failure);

}  // namespace waybill
