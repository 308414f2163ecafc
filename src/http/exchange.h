#pragma once

#include <optional>

#include <microhttpd.h>

#include "http/message.h"

// Between libmicrohttpd's form of requests and answers and ours.
namespace waybill::http {

// A request as it is known when its headers are there. Without its body; its route comes later.
Request read_request(MHD_Connection* connection, const char* method, const char* url);

// What is wrong with a request's measures, by its headers alone.
std::optional<Response> over_limits(MHD_Connection* connection, const Request& request);

// Both have the headers that every answer has. The caller queues and destroys them.
MHD_Response* whole_answer(const Response& response);
MHD_Response* streamed_answer(const Response& head, MHD_ContentReaderCallback reader, void* reader_argument);

}  // namespace waybill::http
