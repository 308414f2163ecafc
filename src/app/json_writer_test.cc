#include "app/json_writer.h"

#include <gtest/gtest.h>

namespace waybill::app {
namespace {

TEST(JsonWriter, PutsCommasBetween) {
  JsonWriter json;
  json.begin_object().field("a", "x\"").field("b", 1).field("c", true);
  json.name("d").begin_list().value(1).begin_object().end_object().null().raw("[2]").end_list();
  json.name("e").begin_list().end_list().field("f", std::optional<Time>());
  json.field("g", Time(std::chrono::seconds(0))).end_object();
  EXPECT_EQ(R"({"a":"x\"","b":1,"c":true,"d":[1,{},null,[2]],"e":[],"f":null,"g":"1970-01-01T00:00:00.000000Z"})"
            "\n",
            json.take());
  EXPECT_EQ("[]\n", json.begin_list().end_list().take());
}

}  // namespace
}  // namespace waybill::app
