#pragma once

#include <string_view>

namespace waybill {

// May a PostgreSQL schema of ours be called so? Such a name is safe in SQL as it stands, and short enough for what is
// made of it (roles and channels: waybill_operator, waybill_leases) to be cut off by no limit of PostgreSQL's.
bool is_schema_name(std::string_view name);
inline constexpr std::string_view schema_name_rule = "must be 1 to 40 of a-z, 0-9 and _, not beginning with a digit";

}  // namespace waybill
