#pragma once

#include <string>

#include "waybill/store.h"

namespace waybill {

// What a redrive or a dismissal was asked for, for its record: a JSON object with what is set, under the names that
// migrations/003_operate.sql uses too.
std::string filter_details(const UndeliveredFilter& filter);

}  // namespace waybill
