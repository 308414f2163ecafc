// Migrating, and refusing what is not ours: other versions, clones, restored dumps.

#include <future>

#include "postgres/postgres_fixture.h"

namespace waybill {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The message with which the store is refused.
std::string refusal(Store& store) {
  try {
    store.connect({.id = "relay", .name = "relay"}, "out");
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(Remedy::fix_config, error.remedy());
    return error.what();
  }
}

class MigrateTest : public testing::Test {
 protected:
  TmpPostgres& server = TmpPostgres::shared();
  const std::string url = server.fresh_database();
  const std::unique_ptr<Store> store = postgres_store({.url = url});
  Sql app = Sql(url);
};

TEST_F(MigrateTest, AStoreThatIsNotMigratedSaysHow) {
  EXPECT_THAT(refusal(*store), HasSubstr("run 'waybill migrate'"));
  EXPECT_EQ(0, store->schema()->state().version);
}

TEST_F(MigrateTest, ADatabaseThatCannotHoldEveryTextIsRefused) {
  for (const char* encoding : {"LATIN1", "SQL_ASCII"}) {
    const std::string name = std::string("in_") + (encoding[0] == 'L' ? "latin1" : "ascii");
    app("DROP DATABASE IF EXISTS " + name);
    app("CREATE DATABASE " + name + " ENCODING '" + encoding + "' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
    const auto other = postgres_store({.url = server.url(name)});
    EXPECT_THAT(refusal(*other), HasSubstr(encoding));
    EXPECT_THROW(other->schema()->migrate(), Error);
  }
}

TEST_F(MigrateTest, ASecondTimeDoesNothing) {
  EXPECT_FALSE(store->schema()->migrate().empty());
  const std::string shape =
      "SELECT md5(string_agg(c::text, '' ORDER BY c.oid)) FROM pg_class c WHERE relnamespace = 'waybill'::regnamespace";
  const std::string before = app(shape);
  EXPECT_THAT(store->schema()->migrate(), IsEmpty());
  EXPECT_EQ(before, app(shape));
  const SchemaState state = store->schema()->state();
  EXPECT_EQ(state.newest_known, state.version);
  EXPECT_EQ("", refusal(*store));
}

TEST_F(MigrateTest, Row11_OfTwoAtOnceOneWaits) {
  std::vector<std::future<std::vector<int>>> migrations;
  for (int i = 0; i < 4; ++i)
    migrations.push_back(std::async(std::launch::async, [&] { return store->schema()->migrate(); }));
  std::size_t applied = 0;
  for (auto& migration : migrations) applied += migration.get().empty() ? 0 : 1;
  EXPECT_EQ(1U, applied);
  EXPECT_EQ("", refusal(*store));
}

TEST_F(MigrateTest, AChangedColumnUnderAPreparedStatementIsARetry) {
  store->schema()->migrate();
  const auto inspector = store->inspector();
  inspector->list({});
  app("ALTER TABLE waybill.event ALTER COLUMN content_type TYPE varchar");
  try {
    inspector->list({});
    ADD_FAILURE() << "the plan was not stale";
  } catch (const Error& error) {
    EXPECT_EQ(Remedy::retry, error.remedy()) << error.what();
  }
  inspector->list({});
}

// The name stands in our SQL as it is, and roles and channels are called after it.
TEST_F(MigrateTest, Security19_ASchemasNameIsChecked) {
  for (const std::string& name : {std::string(), std::string("Way"), std::string("1a"), std::string("a b"),
                                  std::string("x; DROP SCHEMA waybill CASCADE; --"), std::string(41, 'a')})
    EXPECT_THROW(postgres_store({.url = url, .schema = name}), Error) << name;
  const std::string longest(40, 'a');
  const auto named = postgres_store({.url = url, .schema = longest});
  named->schema()->migrate();
  EXPECT_EQ("1", app("SELECT count(*) FROM pg_roles WHERE rolname = '" + longest + "_operator'"));
}

TEST_F(MigrateTest, Security31_AUrlThatCannotBeReadIsNotQuoted) {
  for (const char* bad : {"postgresql://u:50%secret@localhost/db", "postgresql://u:pa@secret@localhost/db",
                          "postgresql://u:pa/secret@localhost/db", "postgresql://u:1/secret@localhost/db",
                          "host=localhost password=a secret", "postgresql://u:p@a?secret=b@localhost/db",
                          "postgresql://u:p?secret=b%zz@localhost/db"}) {
    const auto away = postgres_store({.url = bad});
    EXPECT_THAT(away->describe(), testing::Not(HasSubstr("secret")));
    EXPECT_THAT(refusal(*away), testing::AllOf(HasSubstr("cannot be read"), testing::Not(HasSubstr("secret"))));
  }
  const auto mistyped = postgres_store({.url = "postgresql://localhost/db?sslmode=prefer&passwor=secret"});
  EXPECT_THAT(refusal(*mistyped), testing::AllOf(HasSubstr("'passwor'"), testing::Not(HasSubstr("secret"))));
}

// They share the cluster's roles.
TEST_F(MigrateTest, TwoDatabasesAtOnceDoNotHurtEachOther) {
  std::vector<std::string> urls{url};
  for (int i = 0; i < 3; ++i) urls.push_back(server.fresh_database());
  for (const char* schema : {"one", "two"}) {
    std::vector<std::future<void>> migrations;
    for (const std::string& each : urls)
      migrations.push_back(std::async(std::launch::async, [each, schema] {
        postgres_store({.url = each, .schema = schema})->schema()->migrate();
      }));
    for (auto& migration : migrations) EXPECT_NO_THROW(migration.get());
  }
}

TEST_F(MigrateTest, AnotherNameForTheSchema) {
  const auto other = postgres_store({.url = url, .schema = "outbox_2"});
  other->schema()->migrate();
  store->schema()->migrate();
  enqueue(app.raw(), make_event("a"), {.schema = "outbox_2"});
  enqueue(app.raw(), make_event("b"));
  EXPECT_EQ("a", Reader(*other).names());
  EXPECT_EQ("b", Reader(*store).names());
  EXPECT_EQ("outbox_2_relay", app("SELECT rolname FROM pg_roles WHERE rolname = 'outbox_2_relay'"));
  EXPECT_EQ("42501", Sql(server.url("postgres")).refusal("SET ROLE outbox_2_enqueue; CREATE TABLE public.x (n int)"));
}

TEST_F(MigrateTest, WhatIsPrintedIsWhatIsRun) {
  app(store->schema()->print());
  EXPECT_THAT(store->schema()->migrate(), IsEmpty());
  enqueue(app.raw(), make_event("a"));
  EXPECT_EQ("a", Reader(*store).names());
}

TEST_F(MigrateTest, Row11_AnOlderProgramRefusesANewerSchemaThatAsksForMore) {
  store->schema()->migrate();
  app("INSERT INTO waybill.migration (version, oldest_program) VALUES (998, 1)");
  EXPECT_EQ("", refusal(*store)) << "newer, but it does not mind us";
  app("INSERT INTO waybill.migration (version, oldest_program) VALUES (999, 999)");
  EXPECT_THAT(refusal(*store), testing::AllOf(HasSubstr("version 999"), HasSubstr("install a newer waybill")));
  EXPECT_THROW(store->writer(), Error);
  EXPECT_THROW(store->inspector(), Error);
  const SchemaState state = store->schema()->state();
  EXPECT_EQ(999, state.version);
  EXPECT_EQ(999, state.oldest_program);
  EXPECT_THAT(store->schema()->migrate(), IsEmpty());
}

TEST_F(MigrateTest, Row30_DoesNotWaitForALockForEver) {
  store->schema()->migrate();
  app("BEGIN; LOCK TABLE waybill.migration");
  auto migration = std::async(std::launch::async, [&] { store->schema()->migrate(); });
  const bool in_time = migration.wait_for(20s) == std::future_status::ready;
  app("ROLLBACK");
  ASSERT_TRUE(in_time);
  try {
    migration.get();
    ADD_FAILURE() << "went past a lock";
  } catch (const Error& error) {
    EXPECT_EQ(Remedy::retry, error.remedy());
  }
  EXPECT_NO_THROW(store->schema()->migrate());
}

TEST_F(MigrateTest, Row11_HalfAMigrationIsNone) {
  app("CREATE SCHEMA waybill; CREATE TABLE waybill.lease (mine int)");  // will be in the way, late
  EXPECT_THROW(store->schema()->migrate(), Error);
  EXPECT_EQ("lease", app("SELECT string_agg(tablename, ' ') FROM pg_tables WHERE schemaname = 'waybill'"));
  app("DROP TABLE waybill.lease");
  EXPECT_FALSE(store->schema()->migrate().empty());
}

class IdentityTest : public PostgresTest {
 protected:
  static void expect_refused(Store& copy) {
    EXPECT_THAT(refusal(copy), testing::AllOf(HasSubstr("made in another cluster or database"),
                                              HasSubstr("waybill anchor --dry-run")));
    EXPECT_THROW(copy.join({.id = "relay", .name = "relay"}), Error);
    EXPECT_THROW(copy.follow(), Error);
  }
};

TEST_F(IdentityTest, ACloneIsRefused) {
  put("a");
  const std::string name = app("SELECT current_database()");
  Sql other(server.url("postgres"));
  app = Sql(server.url("postgres"));  // Nobody may be connected to a template.
  ASSERT_TRUE(eventually([&] { return other.refusal("CREATE DATABASE clone TEMPLATE " + name) == ""; }));
  const auto clone = postgres_store({.url = server.url("clone")});
  expect_refused(*clone);
  EXPECT_EQ("a", Reader(*store).names());
}

TEST_F(IdentityTest, ARestoredDumpIsRefused) {
  put("a");
  TmpPostgres elsewhere;
  const std::string copy_url = elsewhere.fresh_database();
  run_command({"sh", "-c", "pg_dump --no-privileges '" + url + "' | psql -q -v ON_ERROR_STOP=1 '" + copy_url + "'"});
  EXPECT_EQ("1", Sql(copy_url)("SELECT count(*) FROM waybill.event"));
  const auto copy = postgres_store({.url = copy_url});
  expect_refused(*copy);
  EXPECT_THROW(copy->writer(), Error);
}

TEST_F(IdentityTest, ARestartOfTheSameServerIsFine) {
  put("a");
  {
    Reader reader(*store);
    EXPECT_EQ("a", reader.names());
    reader.settle_all();
    reader.leave();
  }
  server.restart();
  app = connect();
  put("b");
  EXPECT_EQ("b", Reader(*store).names());
}

}  // namespace
}  // namespace waybill
