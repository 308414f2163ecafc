#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "waybill/event.h"

#include "store/sqlite/database.h"

namespace waybill {

// The columns that EventRows reads, for a SELECT.
std::string event_columns();

// Events read from the log, together with the memory their texts are in.
class EventRows {
 public:
  EventRows();
  ~EventRows();
  EventRows(EventRows&&) noexcept;

  // Adds the event of the query's current row.
  void add(const Query& row);
  std::size_t bytes() const { return bytes_; }
  std::vector<EventView> events;
  std::shared_ptr<const void> memory() const;

 private:
  class Arena;
  std::string_view keep(const Query& row, int column);
  std::shared_ptr<Arena> arena_;
  std::size_t bytes_ = 0;
};

}  // namespace waybill
