#include "support/tmp_postgres.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include <libpq-fe.h>
#include <signal.h>
#include <unistd.h>

namespace waybill {
namespace {

// The newest version that is installed.
std::string binaries() {
  std::string newest;
  for (const auto& entry : std::filesystem::directory_iterator("/usr/lib/postgresql"))
    newest = std::max(newest, entry.path().string() + "/bin/");
  if (newest.empty()) throw std::runtime_error("PostgreSQL's server is not installed: apt-get install postgresql-15");
  return newest;
}

struct ProcessState {
  char state = 'X';  // As /proc says; X: there is no such process.
  pid_t parent = 0;
};

ProcessState state_of(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  std::string text;
  std::getline(file, text);
  std::istringstream rest(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  ProcessState state;
  rest >> state.state >> state.parent;
  return state;
}

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") == std::string::npos && state_of(name).parent == parent)
      children.push_back(std::stoi(name));
  }
  return children;
}

bool gone(pid_t pid) {
  const char state = state_of(std::to_string(pid)).state;
  return state == 'X' || state == 'Z';
}

}  // namespace

TmpPostgres::TmpPostgres(bool durable, std::vector<std::string> settings)
    : durable_(durable), settings_(std::move(settings)), folder_("postgres"), port_(free_port()) {
  init();
  start();
}

void TmpPostgres::init() {
  run_command({binaries() + "initdb", "-D", folder_.path() + "/data", "-U", "postgres", "-A", "trust", "--no-sync",
               "-E", "UTF8", "--locale=C"},
              "postgres");
}

TmpPostgres::TmpPostgres(Upgrade upgrade) : durable_(false), folder_("postgres"), port_(free_port()) {
  init();
  upgrade.of.stop();
  const std::string programs = binaries();
  run_command({"sh", "-c",
               "cd " + folder_.path() + " && " + programs + "pg_upgrade -U postgres -b " + programs + " -B " +
                   programs + " -d " + upgrade.of.folder_.path() + "/data -D " + folder_.path() + "/data -p " +
                   std::to_string(upgrade.of.port_) + " -P " + std::to_string(port_) + " 2>&1"},
              "postgres");
  start();
}

TmpPostgres::TmpPostgres(Standby standby) : durable_(false), folder_("postgres"), port_(free_port()) {
  copy(standby.of, "standby");
}

TmpPostgres::TmpPostgres(Backup backup)
    : durable_(false),
      settings_{"restore_command=false", "recovery_target=immediate", "recovery_target_action=promote"},
      folder_("postgres"),
      port_(free_port()) {
  copy(backup.of, "recovery");
}

void TmpPostgres::copy(const TmpPostgres& other, const std::string& as) {
  run_command({binaries() + "pg_basebackup", "-D", folder_.path() + "/data", "-h", "127.0.0.1", "-p",
               std::to_string(other.port_), "-U", "postgres", "-c", "fast", "-R", "--no-sync"},
              "postgres");
  const std::string signal = folder_.path() + "/data/standby.signal";
  if (as != "standby") std::filesystem::rename(signal, folder_.path() + "/data/" + as + ".signal");
}

TmpPostgres::~TmpPostgres() {
  if (server_) crash();
}

std::string TmpPostgres::program(const std::string& name) {
  return binaries() + name;
}

TmpPostgres& TmpPostgres::shared() {
  static TmpPostgres server;
  return server;
}

void TmpPostgres::start() {
  std::vector<std::string> command{binaries() + "postgres",
                                   "-D",
                                   folder_.path() + "/data",
                                   "-p",
                                   std::to_string(port_),
                                   "-c",
                                   "listen_addresses=127.0.0.1",
                                   "-c",
                                   "unix_socket_directories=" + folder_.path(),
                                   "-c",
                                   "shared_buffers=64MB",
                                   "-c",
                                   "max_connections=200"};
  // After a crash a durable one syncs its files, one by one unless told otherwise.
  const std::vector<std::string> safety = durable_ ? std::vector<std::string>{"recovery_init_sync_method=syncfs"}
                                                   : std::vector<std::string>{"fsync=off", "full_page_writes=off"};
  for (const std::string& setting : safety) command.insert(command.end(), {"-c", setting});
  for (const std::string& setting : settings_) command.insert(command.end(), {"-c", setting});
  server_ = std::make_unique<ChildProcess>(command, folder_.path() + "/log", "postgres");
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (PQping(url("postgres").c_str()) != PQPING_OK) {
    if (!server_->running() || std::chrono::steady_clock::now() > deadline) {
      std::ifstream file(folder_.path() + "/log");
      std::stringstream text;
      text << file.rdbuf();
      throw std::runtime_error("PostgreSQL did not start: " + text.str());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void TmpPostgres::crash() {
  // Stopped first, so that the postmaster sees none of its children die before it dies itself.
  server_->signal(SIGSTOP);
  const auto children = children_of(server_->pid());
  for (const pid_t child : children) ::kill(child, SIGKILL);
  server_->signal(SIGKILL);
  server_->wait();
  server_.reset();
  for (const pid_t child : children)
    while (!gone(child)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::filesystem::remove(folder_.path() + "/data/postmaster.pid");
}

void TmpPostgres::stop_wal_writer() {
  while (true) {
    for (const pid_t child : children_of(server_->pid())) {
      std::ifstream file("/proc/" + std::to_string(child) + "/cmdline");
      std::string name;
      std::getline(file, name);
      if (name.find("walwriter") == std::string::npos) continue;
      ::kill(child, SIGSTOP);
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void TmpPostgres::stop() {
  server_->signal(SIGINT);
  server_->wait();
  server_.reset();
}

void TmpPostgres::restart() {
  stop();
  start();
}

std::string TmpPostgres::url(const std::string& database, const std::string& user) const {
  return "postgresql://" + user + "@127.0.0.1:" + std::to_string(port_) + "/" + database;
}

std::string TmpPostgres::fresh_database() {
  const std::string name = "t_" + std::to_string(++databases_);
  PGconn* connection = PQconnectdb(url("postgres").c_str());
  PGresult* result = PQexec(connection, ("CREATE DATABASE " + name).c_str());
  const bool good = PQresultStatus(result) == PGRES_COMMAND_OK;
  const std::string message = PQerrorMessage(connection);
  PQclear(result);
  PQfinish(connection);
  if (!good) throw std::runtime_error(message);
  return url(name);
}

}  // namespace waybill
