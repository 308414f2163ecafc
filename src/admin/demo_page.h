#pragma once

#include <functional>
#include <string>

#include "http/server.h"

namespace waybill {

// Adds the demo's page to a server: "/" and its files (web/demo/), "/status.json", and "/livez", which says
// that the server's thread answers. The page takes its events from "/stream/board"
// (sink/stream/event_stream.h).
//
// `status` is called on the server's thread, about once a second for every page that is open, so it should
// not wait for a store. It returns
// {"destinations":[{"name":…,"delivered":0,"failed":0,"skipped":0,"pending":0}]}; the page shows which
// destinations an event goes to by "topics":["patient.*"] beside the counts, all of them if absent.
//
// REQUIRES: the server is not started yet.
void add_demo_page(http::Server& server, std::function<std::string()> status);

}  // namespace waybill
