// The examples of docs/consumers.md, word for word.

#include <memory>

#include "consume/scripted_source.h"
#include "consumers_md.h"
#include "service/databases.h"

namespace waybill {
namespace {

class ConsumeDocsTest : public DatabaseTest {};

INSTANTIATE_TEST_SUITE_P(Databases, ConsumeDocsTest, every_database, database_name);

TEST_P(ConsumeDocsTest, TheHandlersOfThePageWork) {
  db->script("CREATE TABLE stock (item text, reserved int); INSERT INTO stock VALUES ('pen', 1)");
  ScriptedSource::Script script;
  const stock::OrderPlaced placed{.item = "pen", .pieces = 2};
  for (int i = 0; i < 2; ++i) script.bring({.id = "m-1", .type = "order.placed", .body = placed.to_json()});
  Consumer consumer({.name = "stock"}, *db, std::make_unique<ScriptedSource>(script), by_type(stock::handlers()), {});
  for (int i = 0; i < 2; ++i) consumer.step(std::chrono::steady_clock::now());
  EXPECT_EQ("3", value("SELECT reserved FROM stock"));
  EXPECT_EQ(2U, script.accepted.size());
}

TEST_P(ConsumeDocsTest, TheSourcesOfThePageAreSources) {
  EXPECT_NE(nullptr, stock::from_nats("nats://127.0.0.1", {}));
  EXPECT_NE(nullptr, &stock::consume);
}

}  // namespace
}  // namespace waybill
