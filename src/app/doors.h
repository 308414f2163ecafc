#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "waybill/log.h"
#include "waybill/store.h"

#include "app/monitor.h"
#include "app/settings.h"
#include "http/server.h"
#include "sink/stream/event_stream.h"

namespace waybill::app {

// What `run` serves over HTTP: metrics, and the streams of the configuration. Used by one thread; `store` and `monitor`
// must outlive it.
class Doors {
 public:
  Doors(Store& store, Monitor& monitor, Log log) : store_(store), monitor_(monitor), log_(std::move(log)) {}

  // Serves what the settings say, at the same address as before. Clients of streams are sent away, and come back, only
  // if the streams have changed. Error(fix_config) if it cannot listen although somebody counts on it.
  void open(const Settings& settings);

 private:
  void open_server(const Settings& settings);

  Store& store_;
  Monitor& monitor_;
  const Log log_;
  bool opened_ = false;
  std::uint16_t port_ = 0;  // 0: none yet
  std::vector<StreamOptions> wanted_;
  std::unique_ptr<http::Server> server_;
  std::vector<std::unique_ptr<EventStream>> streams_;
};

}  // namespace waybill::app
