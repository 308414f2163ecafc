#pragma once

#include "waybill/store.h"

namespace waybill::app {

struct ListStyle {
  bool payload = false;  // in JSON only
  bool json = false;
  bool json_lines = false;
};

// Prints what the filter has, newest first. A page never ends in the middle of an event: it may be a few rows longer
// than the filter's limit.
void print_undelivered(Inspector& inspector, UndeliveredFilter filter, const ListStyle& style);

}  // namespace waybill::app
