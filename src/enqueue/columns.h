#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "waybill/enqueue.h"
#include "waybill/event.h"

namespace waybill {

// The columns an application may write, in one order everywhere; everything else is the store's.
inline constexpr std::size_t column_count = 21;
inline constexpr std::size_t payload_bytes_column = 9;

struct Column {
  std::string_view name;
  std::string_view type;  // PostgreSQL's
};

const std::array<Column, column_count>& contract_columns();

// An event's values as text, but for payload_bytes, which are raw.
struct Row {
  EventId id;
  std::array<std::optional<std::string>, column_count> values;
};

// Whatever writes an event goes through here. Throws Error(fix_input) if it breaks a limit, Error(fix_config) in a
// Replay.
Row row_of(const Event& event);

// The table's name, quoted. Throws Error(fix_config) if the schema's name is none of ours.
std::string event_table(Dialect dialect, const std::string& schema);

}  // namespace waybill
