#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <libpq-fe.h>

namespace waybill {

// A connection as an application has one. What the server refuses is thrown as its message, "SQLSTATE: text".
class Sql {
 public:
  explicit Sql(const std::string& url) : connection_(PQconnectdb(url.c_str()), &PQfinish) {
    if (PQstatus(raw()) != CONNECTION_OK) throw std::runtime_error(PQerrorMessage(raw()));
    PQsetNoticeProcessor(
        raw(), [](void*, const char*) {}, nullptr);
  }

  // Runs it; the first value of the last result, empty if there is none.
  std::string operator()(const std::string& sql) {
    const auto rows = column(sql);
    return rows.empty() ? "" : rows.front();
  }

  // The first column of the last result.
  std::vector<std::string> column(const std::string& sql) {
    const std::unique_ptr<PGresult, decltype(&PQclear)> result(PQexec(raw(), sql.c_str()), &PQclear);
    const ExecStatusType status = PQresultStatus(result.get());
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK && status != PGRES_EMPTY_QUERY) {
      const char* state = PQresultErrorField(result.get(), PG_DIAG_SQLSTATE);
      throw std::runtime_error(std::string(state ? state : "lost") + ": " + PQresultErrorMessage(result.get()));
    }
    std::vector<std::string> values;
    for (int row = 0; row < PQntuples(result.get()); ++row) values.emplace_back(PQgetvalue(result.get(), row, 0));
    return values;
  }

  std::int64_t number(const std::string& sql) { return std::stoll((*this)(sql)); }

  // The SQLSTATE with which the server refuses it; empty if it does not.
  std::string refusal(const std::string& sql) {
    try {
      (*this)(sql);
      return "";
    } catch (const std::runtime_error& error) {
      return std::string(error.what()).substr(0, 5);
    }
  }

  // Uses up transaction numbers that leave no trace.
  void burn(int transactions) {
    (*this)("DO $$ BEGIN FOR i IN 1.." + std::to_string(transactions) +
            " LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$");
  }

  PGconn* raw() const { return connection_.get(); }

 private:
  std::unique_ptr<PGconn, decltype(&PQfinish)> connection_;
};

}  // namespace waybill
