// What the application's own tests are like.

#include <waybill/enqueue.h>
#include <waybill/gmock.h>

TEST(Consumer, TellsOfWhatHappened) {
  const auto db = waybill::memory_database();
  const waybill::EnqueuedEvents outbox(*db);
  waybill::enqueue(*db, {.topic = "account.closed", .payload = R"({"account": "a-1"})"});
  EXPECT_THAT(outbox, waybill::Enqueued(waybill::EventLike({.payload = R"({"account":"a-1"})"})));
}
