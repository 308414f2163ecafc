#pragma once

#include "waybill/database.h"
#include "waybill/projection.h"

#include "http.h"

namespace clinic {

// The side that shows: tables made from the events, for the page in the waiting room.
waybill::Projection waiting_room();

// GET / is the page, GET /waiting-room the same as text.
http::Response on_the_board(waybill::Connection& db, const http::Request& request);

}  // namespace clinic
