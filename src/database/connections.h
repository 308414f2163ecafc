#pragma once

#include <memory>
#include <string>

#include "waybill/database.h"

namespace waybill {

std::unique_ptr<Connection> connect_postgres(const std::string& url);
std::unique_ptr<Connection> connect_sqlite(const std::string& path);

}  // namespace waybill
