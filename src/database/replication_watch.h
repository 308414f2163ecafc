#pragma once

struct pg_conn;  // libpq's PGconn

namespace waybill {

// Reads a connection's notices for one of them: a wait for the synchronous standby was cancelled, so a transaction is
// committed on this server only. The server reports that commit as a success all the same. No other notice is kept.
// REQUIRES: client_min_messages is `warning` or lower on the server. Outlives the connection's last call.
class ReplicationWatch {
 public:
  explicit ReplicationWatch(pg_conn* connection);
  ReplicationWatch(const ReplicationWatch&) = delete;
  ReplicationWatch& operator=(const ReplicationWatch&) = delete;

  // Was there one since the last call?
  bool missed();

 private:
  bool missed_ = false;
};

}  // namespace waybill
