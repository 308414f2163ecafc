#include "database/database_error.h"

#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

namespace waybill {
namespace {

TEST(DatabaseError, Row17_19_WhatALaterTryMayPassIsRetried) {
  for (const char* state : {"08006", "40001", "40P01", "53100", "53300", "55P03", "57P01", "57014", "58030", "25006",
                            "25P02", "25P03", "25P04", "26000", "XX000"})
    EXPECT_EQ(Remedy::retry, postgres_remedy(state)) << state;
  for (const char* state : {"21000", "22P02", "23514", "23505", "44000", "54000", "P0001"})
    EXPECT_EQ(Remedy::fix_input, postgres_remedy(state)) << state;
  for (const char* state : {"42P01", "42501", "3F000", "28P01", "0A000", "XX001", ""})
    EXPECT_EQ(Remedy::fix_config, postgres_remedy(state)) << state;
  for (const int code : {SQLITE_BUSY, SQLITE_BUSY_SNAPSHOT, SQLITE_LOCKED, SQLITE_FULL, SQLITE_IOERR_FSYNC,
                         SQLITE_NOMEM, SQLITE_PROTOCOL})
    EXPECT_EQ(Remedy::retry, sqlite_remedy(code)) << code;
  EXPECT_EQ(Remedy::fix_input, sqlite_remedy(SQLITE_CONSTRAINT_CHECK));
  EXPECT_EQ(Remedy::fix_config, sqlite_remedy(SQLITE_NOTADB));
}

TEST(DatabaseError, Security32_DataAreNotQuoted) {
  const auto says = [](const char* state, const char* message) {
    return std::string(postgres_refusal("db", state, message).what());
  };
  EXPECT_EQ("db: invalid input syntax for type integer: '…'",
            says("22P02", R"(invalid input syntax for type integer: "4111 "1111"")"));
  EXPECT_EQ("db: value '…' is out of range for type integer",
            says("22003", R"(value "99999999999" is out of range for type integer)"));
  EXPECT_EQ("db: la valeur '…' est hors limites", says("22003", "la valeur « 99999999999 » est hors limites"));
  EXPECT_EQ("db: division by zero", says("22012", "division by zero"));
  EXPECT_EQ(R"(db: say "all")", says("22023", R"(say "all")")) << "our own";
  EXPECT_EQ(R"(db: invalid byte sequence for encoding "UTF8": 0xff)",
            says("22021", R"(invalid byte sequence for encoding "UTF8": 0xff)"));
  EXPECT_EQ(R"(db: violates check constraint "c")", says("23514", R"(violates check constraint "c")"));
}

TEST(DatabaseError, ARefusalNamesTheRoleThatIsMissing) {
  const auto says = [](const char* message) {
    return std::string(postgres_refusal("db", "42501", message).what()).substr(std::string("db: ").size());
  };
  EXPECT_EQ("permission denied for table event; grant this user the role waybill_enqueue",
            says("permission denied for table event"));
  EXPECT_EQ("permission denied for function enqueue; grant this user the role waybill_enqueue",
            says("permission denied for function enqueue"));
  EXPECT_THAT(says("permission denied for table stream_event"), testing::HasSubstr("the role waybill_service"));
  EXPECT_THAT(says(R"(new row violates row-level security policy for table "inbox")"),
              testing::HasSubstr("or name the transaction's tenant (waybill.tenant)"));
  EXPECT_THAT(
      says("permission denied for schema waybill"),
      testing::AllOf(testing::HasSubstr("waybill_enqueue to write events"), testing::HasSubstr("waybill_service")));
  EXPECT_EQ("this is a transaction of tenant 'a' (waybill.tenant)",
            says("this is a transaction of tenant 'a' (waybill.tenant)"));
}

TEST(DatabaseError, Row19_AFullDiskHasAWayOut) {
  sqlite3* raw = nullptr;
  ASSERT_EQ(SQLITE_OK, sqlite3_open(":memory:", &raw));
  const std::unique_ptr<sqlite3, decltype(&sqlite3_close)> connection(raw, &sqlite3_close);
  sqlite3_exec(raw, "PRAGMA max_page_count = 2; CREATE TABLE t (x)", nullptr, nullptr, nullptr);
  ASSERT_EQ(SQLITE_FULL, sqlite3_exec(raw, "INSERT INTO t VALUES (zeroblob(100000))", nullptr, nullptr, nullptr));
  const Error error = sqlite_error("enqueue", raw);
  EXPECT_EQ(Remedy::retry, error.remedy());
  EXPECT_STREQ("enqueue: database or disk is full; make room on the disk", error.what());
}

}  // namespace
}  // namespace waybill
