#include "server.h"

#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include <libpq-fe.h>
#include <unistd.h>

#include "waybill/postgres.h"

namespace waybill::bench {
namespace {

using Result = std::unique_ptr<PGresult, decltype(&PQclear)>;

Connection::Rows rows_of(PGconn* connection, PGresult* raw) {
  const Result result(raw, &PQclear);
  const ExecStatusType status = PQresultStatus(raw);
  if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
    throw std::runtime_error(std::string("PostgreSQL: ") + PQerrorMessage(connection));
  Connection::Rows rows(static_cast<std::size_t>(PQntuples(raw)));
  for (int row = 0; row < PQntuples(raw); ++row)
    for (int column = 0; column < PQnfields(raw); ++column)
      rows[static_cast<std::size_t>(row)].emplace_back(PQgetvalue(raw, row, column));
  return rows;
}

// The fields of /proc/PID/stat from the state on: [0] state, [1] parent, [11] utime, [12] stime, [13] cutime,
// [14] cstime. Empty if the process is gone.
std::vector<std::string> stat_fields(const std::string& process) {
  std::ifstream file("/proc/" + process + "/stat");
  std::string line;
  if (!std::getline(file, line)) return {};
  std::istringstream rest(line.substr(line.rfind(')') + 1));
  std::vector<std::string> fields;
  for (std::string field; rest >> field;) fields.push_back(field);
  return fields;
}

double ticks(const std::string& field) {
  static const auto per_second = static_cast<double>(::sysconf(_SC_CLK_TCK));
  return std::stod(field) / per_second;
}

// Nanoseconds on the processor: finer than the ticks of stat.
double thread_seconds(const std::filesystem::path& thread) {
  std::ifstream file(thread / "schedstat");
  double nanoseconds = 0;
  file >> nanoseconds;
  return nanoseconds / 1e9;
}

}  // namespace

Connection::Connection(const std::string& url) : connection_(PQconnectdb(url.c_str()), &PQfinish) {
  if (PQstatus(connection_.get()) != CONNECTION_OK)
    throw std::runtime_error(std::string("PostgreSQL: ") + PQerrorMessage(connection_.get()));
  PQsetNoticeProcessor(
      connection_.get(), [](void*, const char*) {}, nullptr);
}

Connection::Rows Connection::query(const std::string& sql) {
  return rows_of(connection_.get(), PQexec(connection_.get(), sql.c_str()));
}

double Connection::number(const std::string& sql) {
  return std::stod(query(sql).at(0).at(0));
}

void Connection::prepare(const std::string& name, const std::string& sql) {
  rows_of(connection_.get(), PQprepare(connection_.get(), name.c_str(), sql.c_str(), 0, nullptr));
}

Connection::Rows Connection::run(const std::string& name, const Parameters& parameters) {
  std::vector<const char*> values;
  values.reserve(parameters.size());
  for (const auto& parameter : parameters) values.push_back(parameter ? parameter->c_str() : nullptr);
  return rows_of(connection_.get(), PQexecPrepared(connection_.get(), name.c_str(), static_cast<int>(values.size()),
                                                   values.data(), nullptr, nullptr, 0));
}

Connection::Rows Connection::run_once(const std::string& sql, const Parameters& parameters) {
  std::vector<const char*> values;
  values.reserve(parameters.size());
  for (const auto& parameter : parameters) values.push_back(parameter ? parameter->c_str() : nullptr);
  return rows_of(connection_.get(), PQexecParams(connection_.get(), sql.c_str(), static_cast<int>(values.size()),
                                                 nullptr, values.data(), nullptr, nullptr, 0));
}

void Connection::copy_in(const std::string& sql, std::string_view data) {
  const Result begun(PQexec(connection_.get(), sql.c_str()), &PQclear);
  if (PQresultStatus(begun.get()) != PGRES_COPY_IN ||
      PQputCopyData(connection_.get(), data.data(), static_cast<int>(data.size())) != 1 ||
      PQputCopyEnd(connection_.get(), nullptr) != 1)
    throw std::runtime_error(std::string("PostgreSQL: ") + PQerrorMessage(connection_.get()));
  rows_of(connection_.get(), PQgetResult(connection_.get()));
  while (PGresult* rest = PQgetResult(connection_.get())) PQclear(rest);
}

long Connection::copy_out(const std::string& sql) {
  const Result begun(PQexec(connection_.get(), sql.c_str()), &PQclear);
  if (PQresultStatus(begun.get()) != PGRES_COPY_OUT)
    throw std::runtime_error(std::string("PostgreSQL: ") + PQerrorMessage(connection_.get()));
  long rows = 0;
  char* row = nullptr;
  while (PQgetCopyData(connection_.get(), &row, 0) > 0) {
    ++rows;
    PQfreemem(row);
  }
  rows_of(connection_.get(), PQgetResult(connection_.get()));
  while (PGresult* rest = PQgetResult(connection_.get())) PQclear(rest);
  return rows - 1;  // The last message is the format's trailer.
}

double cpu_seconds(pid_t process) {
  double sum = 0;
  const std::filesystem::path threads = "/proc/" + std::to_string(process) + "/task";
  for (const auto& thread : std::filesystem::directory_iterator(threads)) sum += thread_seconds(thread.path());
  return sum;
}

double own_cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

double rss_mib(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/statm");
  double size = 0;
  double resident = 0;
  file >> size >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE)) / (1024 * 1024);
}

Server::Server(std::vector<std::string> settings)
    : postgres_(/*durable=*/true, [&] {
        settings.insert(settings.begin(), {"shared_buffers=1GB", "max_wal_size=8GB"});
        return std::move(settings);
      }()) {
  // Its first process is the parent of the one that serves us.
  Connection connection(postgres_.url("postgres"));
  const auto fields = stat_fields(connection.query("SELECT pg_backend_pid()").at(0).at(0));
  postmaster_ = std::stoi(fields.at(1));
}

std::string Server::migrated_database(int shards) {
  const std::string url = postgres_.fresh_database();
  postgres_store({.url = url, .shards = shards})->schema()->migrate();
  return url;
}

void Server::drop(const std::string& url) {
  const std::string name = url.substr(url.rfind('/') + 1);
  Connection(postgres_.url("postgres")).query("DROP DATABASE " + name + " WITH (FORCE)");
}

double Server::cpu() const {
  const std::string parent = std::to_string(postmaster_);
  double sum = 0;
  // Those that have ended are counted by their parent.
  const auto own = stat_fields(parent);
  for (const std::size_t field : {11, 12, 13, 14}) sum += ticks(own.at(field));
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto fields = stat_fields(name);
    if (fields.size() > 14 && fields[1] == parent) sum += thread_seconds(entry.path());
  }
  return sum;
}

}  // namespace waybill::bench
