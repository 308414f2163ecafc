#pragma once

#include <string>
#include <string_view>

#include "waybill/error.h"

struct pg_conn;    // libpq's PGconn
struct pg_result;  // libpq's PGresult
struct sqlite3;

// What a database said when it refused something, as an Error: what to do about it is decided here alone, so that the
// same refusal means the same to an application that enqueues and to a relay.
namespace waybill {

// `who` opens the text. Of the server's answer only the primary message is told: its details would show the row,
// payload and all.
Error postgres_error(std::string_view who, const pg_conn* connection, const pg_result* result);
Error postgres_refusal(std::string_view who, std::string_view sqlstate, std::string_view message);
Error sqlite_error(std::string_view who, sqlite3* connection);

// Was another transaction in the way, so that this one may go through if it is begun again?
bool is_collision(std::string_view sqlstate);

// A database's message without the lines and tabs it is set in.
std::string one_line(std::string_view message);

Remedy postgres_remedy(std::string_view sqlstate);
Remedy sqlite_remedy(int code);  // extended or not

}  // namespace waybill
