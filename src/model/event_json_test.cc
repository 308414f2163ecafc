#include "model/event_json.h"

#include <gtest/gtest.h>

namespace waybill {
namespace {

std::string line(const EventView& event) {
  std::string out;
  append_event_json(out, event);
  return out;
}

TEST(EventJson, HoldsWhatIsSetAndNothingElse) {
  const EventView event{.seq = 7,
                        .id = *EventId::parse("018f3c1e-7a00-7abc-8def-0123456789ab"),
                        .tenant = "default",
                        .topic = "order.paid",
                        .type = "order.paid",
                        .version = 3,
                        .payload = "{\"a\":\n1}",
                        .content_type = "application/json"};
  EXPECT_EQ(R"({"id":"018f3c1e-7a00-7abc-8def-0123456789ab","seq":7,"tenant":"default","topic":"order.paid",)"
            R"("type":"order.paid","version":3,"content_type":"application/json",)"
            R"("occurred_at":"1970-01-01T00:00:00.000000Z","created_at":"1970-01-01T00:00:00.000000Z",)"
            R"("payload":{"a": 1}})",
            line(event));
}

TEST(EventJson, BytesComeAsBase64) {
  EXPECT_NE(std::string::npos,
            line({.payload = "\xff\x01", .payload_is_json = false}).find(R"("payload_base64":"/wE=")"));
}

}  // namespace
}  // namespace waybill
