#pragma once

#include <exception>

#include "waybill/database.h"

namespace waybill {

// What is done in its scope is undone unless it is released: all or none, whether or not a transaction is open. If none
// is, it is one by itself. For SQLite: on PostgreSQL there is no savepoint outside of a transaction.
class Savepoint {
 public:
  explicit Savepoint(Connection& connection) : connection_(connection), is_transaction_(!connection.in_transaction()) {
    connection_.script("SAVEPOINT waybill");
  }
  Savepoint(const Savepoint&) = delete;
  Savepoint& operator=(const Savepoint&) = delete;
  ~Savepoint() {
    if (!released_) undo();
  }

  void release() {
    connection_.script("RELEASE waybill");
    released_ = true;
  }

 private:
  void undo() noexcept {
    try {
      if (connection_.in_transaction())
        connection_.script(is_transaction_ ? "ROLLBACK" : "ROLLBACK TO waybill; RELEASE waybill");
    } catch (const std::exception&) {
      // A failure that has ended the whole transaction has undone it already.
    }
  }

  Connection& connection_;
  bool is_transaction_;
  bool released_ = false;
};

}  // namespace waybill
