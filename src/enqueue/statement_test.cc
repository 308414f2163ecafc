#include <gtest/gtest.h>

#include "waybill/enqueue.h"
#include "waybill/error.h"

namespace waybill {
namespace {

Event paid() {
  Event event;
  event.topic = "order.paid";
  event.payload = "{}";
  event.id = EventId::parse("018f3c1e-7a00-7abc-8def-0123456789ab");
  return event;
}

TEST(EnqueueStatement, NamesOnlyWhatIsSet) {
  const Statement statement = enqueue_statement(paid(), Dialect::postgresql);
  EXPECT_EQ(
      R"(INSERT INTO "waybill".event (id, tenant, topic, payload) VALUES ($1::uuid, $2::text, $3::text, $4::json))",
      statement.sql);
  ASSERT_EQ(4U, statement.parameters.size());
  EXPECT_EQ("018f3c1e-7a00-7abc-8def-0123456789ab", statement.parameters[0].value);
  EXPECT_EQ("{}", statement.parameters[3].value);
}

TEST(EnqueueStatement, SpeaksSqlite) {
  Event event = paid();
  event.payload.reset();
  event.payload_bytes = std::string("\0\xff", 2);
  event.key = "k";
  const Statement statement = enqueue_statement(event, Dialect::sqlite);
  EXPECT_EQ("INSERT INTO waybill_event (id, tenant, topic, key, payload_bytes) VALUES (?1, ?2, ?3, ?4, ?5)",
            statement.sql);
  EXPECT_TRUE(statement.parameters[4].bytes);
  EXPECT_FALSE(statement.parameters[3].bytes);
}

TEST(EnqueueStatement, MakesAnIdWhereThereIsNone) {
  Event event = paid();
  event.id.reset();
  const Statement statement = enqueue_statement(event, Dialect::postgresql);
  EXPECT_EQ(statement.id.to_string(), statement.parameters[0].value);
  EXPECT_NE(EventId{}, statement.id);
}

TEST(EnqueueStatement, Security19_RefusesAForeignSchemaName) {
  for (const char* schema :
       {"", "Way", "an_overlong_name_of_more_than_forty_characters", "way bill", "x\"; DROP TABLE event; --", "1a"})
    EXPECT_THROW(enqueue_statement(paid(), Dialect::postgresql, schema), Error) << schema;
}

}  // namespace
}  // namespace waybill
