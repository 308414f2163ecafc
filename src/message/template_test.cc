#include "message/template.h"

#include <gtest/gtest.h>

#include "waybill/error.h"

namespace waybill {
namespace {

const EventView created{
    .tenant = "north", .topic = "users", .type = "user.created", .aggregate_type = "user", .aggregate_id = "u-1"};

std::string filled(std::string_view text, const EventView& event = created) {
  std::string out;
  const auto missing = Template(text).append_to(out, event, {});
  return missing.empty() ? out : "missing " + std::string(missing);
}

std::string complaint(std::string_view text) {
  try {
    Template parsed(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.remedy(), Remedy::fix_config);
    return error.what();
  }
  return "none";
}

TEST(Template, PutsFieldsIn) {
  EXPECT_EQ(filled("events.{aggregate_type}.{type}"), "events.user.user.created");
  EXPECT_EQ(filled("{topic}/{tenant}/{aggregate_id}/{key}"), "users/north/u-1/user/u-1");
  EXPECT_EQ(filled("plain"), "plain");
  EXPECT_EQ(filled(""), "");
  EXPECT_EQ(filled("{{{type}}}"), "{user.created}");
}

TEST(Template, SaysWhichFieldTheEventLacks) {
  const EventView bare{.topic = "stock", .type = "stock"};
  EXPECT_EQ(filled("{aggregate_type}.{type}", bare), "missing aggregate_type");
  EXPECT_EQ(filled("{key}", bare), "missing key");
  EXPECT_EQ(filled("{aggregate_type|topic}.x", bare), "stock.x");
  EXPECT_EQ(filled("{aggregate_type|topic}.x"), "user.x");
}

TEST(Template, WritesNamesAsDotNetDoes) {
  EXPECT_EQ(filled("urn:message:Clinic:{type:pascal}"), "urn:message:Clinic:UserCreated");
  EXPECT_EQ(filled("{type:pascal}", {.type = "patient.checked-in_again2day"}), "PatientCheckedInAgain2day");
  EXPECT_EQ(filled("{type:pascal}", {.type = "TenantCreated"}), "TenantCreated");
  EXPECT_EQ(filled("{type:pascal}", {.type = "..."}), "missing type");
  EXPECT_EQ(filled("urn:message:{type:clr}", {.type = "Llm.Events.Tenant+Created, Llm, Version=1.0.0.0"}),
            "urn:message:Llm.Events:Tenant-Created");
}

TEST(Template, ComplainsWithThePlaceAndAWayOut) {
  EXPECT_EQ(complaint("{agregate_type}.x"),
            "{agregate_type}.x: at character 2: unknown field 'agregate_type'; did you mean 'aggregate_type'?");
  EXPECT_EQ(complaint("a.{typ"), "a.{typ: at character 3: '{' is never closed; write '{{' for a brace");
  EXPECT_EQ(complaint("a}b"), "a}b: at character 2: '}' closes nothing; write '}}' for a brace");
  EXPECT_EQ(complaint("{{a}"), "{{a}: at character 4: '}' closes nothing; write '}}' for a brace");
  EXPECT_EQ(complaint("{type{x}}"), "{type{x}}: at character 1: '{' is never closed; write '{{' for a brace");
  EXPECT_EQ(complaint("{type:pascl}"), "{type:pascl}: at character 7: unknown form 'pascl'; did you mean 'pascal'?");
  EXPECT_EQ(complaint("{topic|typ}"), "{topic|typ}: at character 8: unknown field 'typ'; did you mean 'type'?");
  EXPECT_NE(complaint("{}").find("known here: topic, type, tenant, aggregate_type, aggregate_id, key"),
            std::string::npos);
}

}  // namespace
}  // namespace waybill
