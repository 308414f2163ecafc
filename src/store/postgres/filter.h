#pragma once

#include <optional>
#include <string>
#include <vector>

#include "waybill/store.h"

#include "store/postgres/connection.h"

namespace waybill {

// A filter's parts as parameters: none where it has none.
std::optional<std::string> parameter(const std::string& text);
std::optional<std::string> parameter(const std::optional<Time>& time);
std::optional<std::string> parameter(const std::optional<std::int64_t>& number);

// standings, ids, topic, type, tenant, aggregate type, aggregate id, key, error, since, until, before seq: as
// undelivered_list.sql takes them after the destination, and redrive() and dismiss() after the operation.
void append_filter(PgParameters& parameters, const UndeliveredFilter& filter);

}  // namespace waybill
