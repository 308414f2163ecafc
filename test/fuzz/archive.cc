// Lines of JSON, as the archive and `waybill enqueue` have them: an event that is read from one can be written again.
#include <nlohmann/json.hpp>

#include "app/event_line.h"
#include "fuzz/input.h"
#include "model/event_json.h"
#include "model/event_view.h"
#include "model/validate.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace waybill;
  const std::string_view line = fuzz::Input(data, size).rest();
  fuzz::accepts([&] {
    Event event = app::parse_event_line(line);
    validate(event);
    if (!event.id) event.id = EventId();
    const std::string headers = headers_json(event.headers);
    std::string again;
    append_event_json(again, view_of(event, headers, Time{}));
    fuzz::require(again.find('\n') == std::string::npos && nlohmann::json::accept(again));
  });
  return 0;
}
