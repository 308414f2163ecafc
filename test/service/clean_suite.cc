// What the library keeps does not grow for ever: cleaning removes what is old, in batches.

#include "waybill/idempotency.h"
#include "waybill/inbox.h"
#include "waybill/store.h"

#include "service/databases.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;

class CleanSuite : public DatabaseTest {
 protected:
  Cleaned clean(CleanOptions options = {}) {
    Cleaned all;
    const auto upkeep = store->upkeep();
    do {
      const Cleaned part = upkeep->clean(options);
      all.inbox.value += part.inbox.value;
      all.idempotency.value += part.idempotency.value;
      all.more = part.more;
      ++calls;
    } while (all.more);
    return all;
  }
  // So many messages that were handled, and requests whose answers have expired, so many days from now.
  void add(int rows, const std::string& days) {
    const std::string numbers =
        sqlite() ? "WITH RECURSIVE g (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM g WHERE n < " + std::to_string(rows) +
                       ") INSERT INTO "
                 : "WITH g AS (SELECT generate_series(1, " + std::to_string(rows) + ") AS n) INSERT INTO ";
    const auto ago = [&](const std::string& more) {
      return sqlite() ? "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '" + days + " days', '" + more + "')"
                      : "now() + interval '" + days + " days' + interval '" + more + "'";
    };
    db->script(numbers + table("inbox") + " (tenant, consumer, message_id, handled_at) SELECT 't', 'c', '" + days +
               "-' || n, " + ago("0 days") + " FROM g");
    db->script(numbers + table("idempotency") +
               " (tenant, key, fingerprint, status, content_type, body, answered_at, expires_at) SELECT 't', '" + days +
               "-' || n, 'f', 200, '', '', " + ago("-1 days") + ", " + ago("0 days") + " FROM g");
  }
  std::string left() {
    return std::to_string(count(table("inbox"))) + ' ' + std::to_string(count(table("idempotency")));
  }

  const std::unique_ptr<Store> store = sqlite() ? sqlite_store({.path = url.substr(7)}) : postgres_store({.url = url});
  int calls = 0;
};

INSTANTIATE_TEST_SUITE_P(Databases, CleanSuite, every_database, database_name);

TEST_P(CleanSuite, WhatIsOldGoesAndTheRestStays) {
  add(3, "-91");
  add(2, "-89");
  add(4, "+1");  // tomorrow
  const Cleaned found = store->upkeep()->clean({.dry = true});
  EXPECT_EQ(3, found.inbox.value);
  EXPECT_EQ(5, found.idempotency.value) << "an answer goes when it has expired";
  EXPECT_EQ("9 9", left());
  const Cleaned cleaned = clean();
  EXPECT_EQ(3, cleaned.inbox.value);
  EXPECT_EQ(5, cleaned.idempotency.value);
  EXPECT_EQ("6 4", left());
  EXPECT_EQ(2, clean({.inbox_older_than = 24h * 88}).inbox.value);
  EXPECT_EQ("4 4", left());
}

// So it must be known for longer than anybody can send it: 'retention_inbox' is held to that.
TEST_P(CleanSuite, Row84_WhatIsNoLongerKnownIsHandledAgain) {
  const Inbox inbox("billing");
  const auto nothing = [](Connection&) {};
  EXPECT_TRUE(inbox.once(*db, "m-1", nothing));
  clean();
  EXPECT_FALSE(inbox.once(*db, "m-1", nothing));
  EXPECT_EQ(1, clean({.inbox_older_than = -10s}).inbox.value);
  EXPECT_TRUE(inbox.once(*db, "m-1", nothing));
}

TEST_P(CleanSuite, InBatches) {
  add(12'000, "-91");
  const Cleaned found = store->upkeep()->clean({.dry = true});
  EXPECT_FALSE(found.inbox.exact);
  EXPECT_GE(found.inbox.value, 10'000);
  const Cleaned cleaned = clean();
  EXPECT_EQ(12'000, cleaned.inbox.value);
  EXPECT_EQ(12'000, cleaned.idempotency.value);
  EXPECT_EQ("0 0", left());
  EXPECT_GT(calls, 2);
}

}  // namespace
}  // namespace waybill
