#include "support/tmp_pgbouncer.h"

#include <chrono>
#include <csignal>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include <libpq-fe.h>

namespace waybill {

TmpPgBouncer::TmpPgBouncer(int server_port, const std::string& user, int connections, const std::string& database)
    : user_(user), connections_(connections), database_(database), folder_("postgres"), port_(free_port()) {
  configure(server_port);
  process_ =
      std::make_unique<ChildProcess>(std::vector<std::string>{"/usr/sbin/pgbouncer", folder_.path() + "/pgbouncer.ini"},
                                     folder_.path() + "/log", "postgres");
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (PQping(url(database_ == "*" ? "postgres" : database_).c_str()) != PQPING_OK) {
    if (!process_->running() || std::chrono::steady_clock::now() > deadline) {
      std::stringstream text;
      text << std::ifstream(folder_.path() + "/log").rdbuf();
      throw std::runtime_error("PgBouncer did not start: " + text.str());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

// "any" logs everybody in as the user named here; the URL's is not looked at.
void TmpPgBouncer::configure(int server_port) const {
  std::ofstream(folder_.path() + "/pgbouncer.ini")
      << "[databases]\n"
      << database_ << " = host=127.0.0.1 user=" << user_ << " port=" << server_port
      << "\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = " << port_
      << "\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\nserver_login_retry = 1\ndefault_pool_size = "
      << connections_ << "\nmax_client_conn = 100\n";
}

void TmpPgBouncer::point_to(int server_port) {
  configure(server_port);
  process_->signal(SIGHUP);
}

std::string TmpPgBouncer::url(const std::string& database) const {
  return "postgresql://postgres@127.0.0.1:" + std::to_string(port_) + "/" + database;
}

}  // namespace waybill
