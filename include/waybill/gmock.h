#pragma once

#include <ostream>

#include <gmock/gmock.h>

#include "waybill/api.h"
#include "waybill/event.h"
#include "waybill/testing.h"

// Matchers for GoogleMock; a header of its own, for those who have it.
//
//   const EnqueuedEvents outbox(db);
//   …
//   EXPECT_THAT(outbox, Enqueued(EventLike({.topic = "order.placed", .payload = R"({"order":"o-7"})"})));
namespace WAYBILL_API waybill {

// How GoogleTest shows an event.
inline void PrintTo(const Event& event, std::ostream* out) {
  *out << to_text(event);
}
inline void PrintTo(const EnqueuedEvents& enqueued, std::ostream* out) {
  *out << enqueued.events().size() << " events";
}

namespace detail {
MATCHER_P(IsLike, wanted, (negation ? "is not like " : "is like ") + to_text(wanted)) {
  const std::string different = difference(arg, wanted);
  *result_listener << different;
  return different.empty();
}
}  // namespace detail

// An event like this; see difference().
inline auto EventLike(const Event& wanted) {
  return detail::IsLike(wanted);
}

// EnqueuedEvents that are these, in this order. A matcher for each.
template <typename... Matchers>
auto Enqueued(const Matchers&... events) {
  return ::testing::ResultOf([](const EnqueuedEvents& enqueued) { return enqueued.events(); },
                             ::testing::ElementsAre(events...));
}

}  // namespace waybill
