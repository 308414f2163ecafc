#pragma once

#include <string>
#include <string_view>

#include "waybill/database.h"
#include "waybill/domain_event.h"
#include "waybill/time.h"

namespace waybill {

// A text for both databases, with the names and forms of one.
std::string service_statement(std::string_view text, Dialect dialect, const std::string& schema);

// An event as load.sql selects it, from column `first` on.
RecordedEvent event_at(const Rows& rows, std::size_t row, std::size_t first, StreamId stream);

Time time_at(const Rows& rows, std::size_t row, std::size_t column);
// Empty if it is null.
std::string text_at(const Rows& rows, std::size_t row, std::size_t column);

}  // namespace waybill
