#include "sink/stream/frame.h"

#include <gtest/gtest.h>

namespace waybill::stream {
namespace {

Follower::Page page() {
  Follower::Page page{.place = "p4", .more = false};
  for (const auto* topic : {"room.opened", "mail.sent", "room.closed"})
    page.items.push_back(
        {.event = {.topic = topic, .payload = "{\n}"}, .place = "p" + std::to_string(page.items.size() + 1)});
  return page;
}

TEST(Frame, IsOneMessageWithItsPlaceAndNoEventType) {
  const auto frames = frames_of(page(), {}, 1'000'000);
  const auto& text = frames.frames.at(0)->text;
  EXPECT_TRUE(text.starts_with("id: p1\ndata: {\"id\":")) << text;
  EXPECT_TRUE(text.ends_with(R"("payload":{ }})"
                             "\n\n"))
      << text;
  EXPECT_EQ(std::string::npos, text.find("event:"));
  EXPECT_EQ("p4", frames.place);
}

TEST(Frame, OnlyWhatMatches) {
  const auto frames = frames_of(page(), {.topic = {"room.*"}}, 1'000'000);
  EXPECT_EQ(2U, frames.frames.size());
  EXPECT_EQ("p4", frames.place);
  EXPECT_FALSE(frames.more);
}

TEST(Frame, TakesAsManyAsFitAndReadsTheRestLater) {
  const auto frames = frames_of(page(), {}, 1);
  EXPECT_EQ(1U, frames.frames.size());
  EXPECT_EQ("p1", frames.place);
  EXPECT_TRUE(frames.more);
}

TEST(Frame, WhatDoesNotMatchNeedsNoRoom) {
  const auto frames = frames_of(page(), {.topic = {"room.opened"}}, 1);
  EXPECT_EQ("p4", frames.place);
  EXPECT_FALSE(frames.more);
}

}  // namespace
}  // namespace waybill::stream
