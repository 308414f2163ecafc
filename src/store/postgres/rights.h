#pragma once

#include <string>

namespace waybill {

// The right that a connection's work takes: a role of the schema's, or to own its tables.
enum class PgRight { enqueue, relay, operate, read, own };

// The way out of a refusal for want of rights (42501): which role the user lacks, and the statement that grants it. If
// the user has the role, or there is no such role, says what is wrong instead. Asks the server over a connection of its
// own, and never throws an Error: without an answer it names the role alone.
std::string way_to_right(const std::string& url, const std::string& schema, PgRight right);

}  // namespace waybill
