#include "message/address.h"

#include <algorithm>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "waybill/error.h"

namespace waybill {
namespace {

const EventView created{
    .tenant = "north", .topic = "users", .type = "user.created", .aggregate_type = "user", .aggregate_id = "u.1 *>%"};

std::string where(std::string_view pattern, const AddressRules& rules, const EventView& event = created) {
  std::string out;
  const std::string refusal = Address(pattern, rules).resolve(out, event);
  return refusal.empty() ? out : "refused: " + refusal;
}

std::string complaint(std::string_view pattern, const AddressRules& rules) {
  try {
    Address address(pattern, rules);
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(Address, KeepsTheDotsOfTopicAndType) {
  EXPECT_EQ(where("events.{aggregate_type}.{type}", addresses::subject), "events.user.user.created");
  EXPECT_EQ(where("{aggregate_type}.{type}", addresses::routing_key), "user.user.created");
}

TEST(Address, KeepsAnyOtherFieldOneWord) {
  EXPECT_EQ(where("a.{aggregate_id}", addresses::subject), "a.u%2E1%20%2A%3E%25");
  EXPECT_EQ(where("a.{aggregate_id}", addresses::routing_key), "a.u%2E1 *>%25");
  EXPECT_EQ(where("{topic}", addresses::subject, {.topic = "50% off.now > *"}), "50%25%20off.now%20%3E%20%2A");
  EXPECT_EQ(where("{topic}", addresses::routing_key, {.topic = "50% off.now > *"}), "50% off.now > *");
}

TEST(Address, IsTheEventsOwnIfItHasOne) {
  EventView own = created;
  own.routing_key = "my.own";
  EXPECT_EQ(where("{type}", addresses::routing_key, own), "my.own");
  EXPECT_EQ(where("{type}", addresses::subject, own), "my.own");
  std::string exchange;
  EXPECT_EQ(Address("{tenant}", addresses::exchange).resolve_by_template(exchange, own), "");
  EXPECT_EQ(exchange, "north");
}

TEST(Address, AnOwnKeyMustFitTheTemplate) {
  const auto own = [](std::string_view pattern, std::string_view key) {
    const EventView event{.tenant = "north", .topic = "t", .type = "t", .routing_key = key};
    Address address(pattern, addresses::routing_key);
    address.take_own_keys(true);
    std::string out;
    const std::string refused = address.resolve(out, event);
    return refused.empty() ? out : refused;
  };
  const auto refused = [&](std::string_view pattern, std::string_view key) {
    return own(pattern, key).find("does not fit the destination's template") != std::string::npos;
  };
  EXPECT_EQ(own("{topic}", "any.thing"), "any.thing");
  EXPECT_EQ(own("", "any.thing"), "any.thing");
  EXPECT_EQ(own("clinic.{type}", "clinic.a.b"), "clinic.a.b");
  EXPECT_TRUE(refused("clinic.{type}", "billing.a"));
  EXPECT_TRUE(refused("clinic.{type}", "clinic."));
  EXPECT_TRUE(refused("clinic", "clinics"));
  EXPECT_EQ(own("{aggregate_type}.{type}", "a.b.c"), "a.b.c");
  EXPECT_TRUE(refused("{aggregate_type}.x", "a.b.x")) << "a word has no dots";
  EXPECT_EQ(own("{aggregate_type|topic}.x", "a.b.x"), "a.b.x");
  EXPECT_EQ(own("{tenant}.{topic}", "north.other"), "north.other");
  EXPECT_TRUE(refused("{tenant}.{topic}", "south.other"));
  EXPECT_TRUE(refused("x.{topic}.{tenant}.y", "x.a.north.b.south.y"));
  EXPECT_EQ(own("x.{topic}.{tenant}.y", "x.a.south.north.y"), "x.a.south.north.y");
}

TEST(Address, WhereTheTemplateNamesTheTenantOwnKeysDoNotCount) {
  const EventView event{.tenant = "north", .topic = "orders", .type = "paid", .routing_key = "south.orders"};
  EXPECT_EQ(where("{tenant}.{topic}", addresses::subject, event), "north.orders");
  EXPECT_EQ(where("{topic|tenant}", addresses::routing_key, event), "orders");
  EXPECT_EQ(where("{topic}", addresses::routing_key, event), "south.orders");
  EXPECT_NE(Address("{tenant}.{topic}", addresses::subject).note(event), "");
  EXPECT_EQ(Address("{topic}", addresses::subject).note(event), "");
}

// Whatever an event says, it stays within its tenant.
RC_GTEST_PROP(AddressProperty, AnOwnKeyStaysWithItsTenant, ()) {
  const auto word =
      rc::gen::resize(12, rc::gen::nonEmpty(rc::gen::container<std::string>(rc::gen::element('a', 'b', '.', '%'))));
  const std::string tenant = *word;
  const std::string key = "e." + *word + "." + *word;
  const EventView event{.tenant = tenant, .topic = "t", .type = "t", .routing_key = key};
  Address address("e.{tenant}.{topic}", addresses::routing_key);
  address.take_own_keys(true);
  std::string out;
  std::string meant;
  if (!address.resolve(out, event).empty()) return;
  RC_ASSERT(address.resolve_by_template(meant, event).empty());
  RC_ASSERT(out.starts_with(meant.substr(0, meant.size() - 1)));
}

TEST(Address, Security28_RefusesWhatTheBrokerWouldNotTake) {
  const auto own = [](std::string_view key) { return EventView{.topic = "t", .type = "t", .routing_key = key}; };
  const std::string long_key(256, 'k');
  EXPECT_EQ(where("x", addresses::routing_key, own(long_key)),
            "refused: the routing key has 256 bytes; at most 255 are allowed");
  EXPECT_EQ(where("x", addresses::routing_key, own("a\r\nb")), "refused: the routing key contains a control character");
  EXPECT_EQ(where("x", addresses::routing_key, own("a\xff")), "refused: the routing key is not UTF-8");
  EXPECT_EQ(where("x", addresses::subject, own("a.*")), "refused: the subject contains '*'");
  EXPECT_EQ(where("x", addresses::subject, own("a b")), "refused: the subject contains ' '");
  EXPECT_EQ(where("x", addresses::subject, own("a..b")), "refused: the subject has an empty word between its dots");
  EXPECT_EQ(where("x", addresses::subject, own("$JS.API.STREAM.DELETE.X")),
            "refused: the subject begins with '$', which is the server's own");
  EXPECT_EQ(where("{topic}", addresses::subject, {.topic = ".a"}),
            "refused: the subject has an empty word between its dots");
  EXPECT_EQ(where("{aggregate_type}.{type}", addresses::routing_key, {.topic = "t", .type = "t"}),
            "refused: the routing key needs aggregate_type, which the event has not");
}

TEST(Address, ThatNoEventCouldHaveIsAMistakeInTheConfiguration) {
  EXPECT_EQ(complaint("", addresses::routing_key), "none");
  EXPECT_EQ(complaint("", addresses::subject), ": is empty");
  EXPECT_EQ(complaint("events.*", addresses::subject), "events.*: contains '*'");
  EXPECT_EQ(complaint("my events.{type}", addresses::subject), "my events.{type}: contains ' '");
  EXPECT_EQ(complaint("events..x", addresses::subject), "events..x: has an empty word between its dots");
  EXPECT_EQ(complaint("events.{type}", addresses::subject), "none");
  EXPECT_NE(complaint(std::string(256, 'x') + "{type}", addresses::routing_key).find("has 256 bytes"),
            std::string::npos);
}

// No event can reach a place that its template does not mean: the words around a field stay where they are.
RC_GTEST_PROP(AddressProperty, AWordStaysAWord, ()) {
  const auto word = rc::gen::resize(
      30, rc::gen::nonEmpty(rc::gen::container<std::string>(rc::gen::element('a', '.', '*', '>', ' ', '%', '$'))));
  const std::string tenant = *word;
  const std::string id = *word;
  const EventView event{.tenant = tenant, .topic = "t", .type = "t", .aggregate_type = "a", .aggregate_id = id};
  for (const AddressRules* rules : {&addresses::subject, &addresses::routing_key}) {
    std::string out;
    RC_ASSERT(Address("e.{tenant}.x.{aggregate_id}", *rules).resolve(out, event) == "");
    RC_ASSERT(std::count(out.begin(), out.end(), '.') == 3);
    RC_ASSERT(out.starts_with("e."));
    RC_ASSERT(out.find(".x.") != std::string::npos);
    RC_ASSERT(!rules->subject || out.find_first_of("*> ") == std::string::npos);
  }
}

}  // namespace
}  // namespace waybill
