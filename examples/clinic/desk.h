#pragma once

#include "waybill/database.h"

#include "http.h"

namespace clinic {

// The side that decides: POST /check-in, /cashier/call, … Each request loads the waiting queue, asks it, and writes
// what has happened, in one transaction.
http::Response at_the_desk(waybill::Connection& db, const http::Request& request);

}  // namespace clinic
