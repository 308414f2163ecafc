#pragma once

#include <memory>
#include <vector>

#include "waybill/store.h"

#include "app/settings.h"
#include "config/config.h"

namespace waybill::app {

// Reads the configuration and tells people its warnings.
Settings load_settings(const config::Sources& sources);

// The store of a command that is over soon: it logs warnings only.
std::unique_ptr<Store> open_store_quietly(const Settings& settings);

// The same, with tables that fit.
std::unique_ptr<Store> ready_store(const Settings& settings);

// Looks at the destination itself, for a few seconds at most; see SinkSetup.
std::vector<Finding> examine(const Destination& destination);

// Throws Error(fix_config) unless the tables are there and known to this program.
void require_schema(Store& store);

}  // namespace waybill::app
