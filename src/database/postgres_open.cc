#include "database/postgres_open.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <libpq-fe.h>
#include <poll.h>

#include "waybill/error.h"

#include "database/database_error.h"

namespace waybill {
namespace {

using UrlOptions = std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)>;

// An @ or / that was left as it is in a password ends it too early: the rest of it would be taken for a host, which is
// shown.
bool password_strays(std::string_view url) {
  const auto begin = url.find("://");
  if (begin == std::string_view::npos) return false;
  const std::string_view place = url.substr(begin + 3, url.find('?', begin) - begin - 3);
  const auto at = place.find('@');
  return at != std::string_view::npos && (place.rfind('@') != at || place.find('/') < at);
}

// What the URL says; nothing if it cannot be read.
UrlOptions read_url(const std::string& url) {
  char* error = nullptr;
  UrlOptions options(PQconninfoParse(url.c_str(), &error), &PQconninfoFree);
  if (error) PQfreemem(error);
  if (options && (url.starts_with("postgres://") || url.starts_with("postgresql://")) && password_strays(url))
    options.reset();
  return options;
}

// What is wrong with it, in none of libpq's own words: they quote the URL, and there is a password in it. A parameter
// is named if it can be no part of one.
std::string why_unreadable(std::string_view url) {
  const UrlOptions known(PQconndefaults(), &PQconninfoFree);
  const auto is_known = [&](std::string_view name) {
    for (const PQconninfoOption* option = known.get(); option && option->keyword; ++option)
      if (name == option->keyword) return true;
    return false;
  };
  const auto query = url.find('?');
  if (query != std::string_view::npos && url.find('@', query) == std::string_view::npos) {
    for (std::string_view rest = url.substr(query); !rest.empty();
         rest = rest.substr(std::min(rest.find('&'), rest.size()))) {
      rest.remove_prefix(1);
      const std::string_view name = rest.substr(0, rest.find_first_of("=&"));
      if (!is_known(name))
        return fmt::format("postgresql: the URL has a parameter '{}', which libpq does not know", name);
    }
  }
  return "postgresql: the URL cannot be read; it is postgresql://USER:PASSWORD@HOST:PORT/DATABASE, and in the password "
         ": / "
         "@ % and the like are written as %3A %2F %40 %25";
}

// What the server says when it turns a connection down for good; libpq gives no code for it.
bool turned_down(std::string_view message) {
  for (const std::string_view sign :
       {"password authentication failed", "no password supplied", "does not exist", "no pg_hba.conf entry",
        "permission denied", "invalid connection option", "invalid port number", "certificate verify failed",
        "missing \"=\"", "invalid URI", "invalid sslmode"})
    if (message.find(sign) != std::string_view::npos) return true;
  return false;
}

PgHandle checked(PGconn* raw) {
  PgHandle connection(raw);
  if (PQstatus(raw) != CONNECTION_OK) {
    const std::string message = one_line(PQerrorMessage(raw));
    throw Error(turned_down(message) ? Remedy::fix_config : Remedy::retry, "postgresql: " + message);
  }
  if (PQserverVersion(raw) < 130000)
    throw Error(Remedy::fix_config, "postgresql: the server is older than version 13, which is the least that will do");
  PQsetNoticeProcessor(
      raw, [](void*, const char*) {}, nullptr);
  return connection;
}

// What libpq goes by, a pooler may have heard from the server long ago, before it was promoted or set free.
bool is_writable(PGconn* connection) {
  const std::unique_ptr<PGresult, decltype(&PQclear)> answer(
      PQexec(connection, "SELECT pg_catalog.pg_is_in_recovery(), pg_catalog.current_setting('transaction_read_only')"),
      &PQclear);
  return PQntuples(answer.get()) == 1 && std::string_view(PQgetvalue(answer.get(), 0, 0)) == "f" &&
         std::string_view(PQgetvalue(answer.get(), 0, 1)) == "off";
}

PgHandle connect_to(const std::string& url, const std::string& application_name, const char* session_attributes) {
  // What stands before dbname can be overridden by the URL; what stands after it cannot.
  const std::array<const char*, 10> names{"connect_timeout",           "keepalives_idle",
                                          "keepalives_interval",       "keepalives_count",
                                          "tcp_user_timeout",          "target_session_attrs",
                                          "fallback_application_name", "dbname",
                                          "client_encoding",           nullptr};
  const std::array<const char*, 10> values{
      "10", "5", "2", "3", "10000", session_attributes, application_name.c_str(), url.c_str(), "UTF8", nullptr};
  return checked(PQconnectdbParams(names.data(), values.data(), 1));
}

}  // namespace

void PgFinish::operator()(pg_conn* connection) const {
  PQfinish(connection);
}

PgHandle open_postgres(const std::string& url, const std::string& application_name) {
  if (!read_url(url)) throw Error(Remedy::fix_config, why_unreadable(url));
  try {
    return connect_to(url, application_name, "read-write");
  } catch (const Error& error) {
    if (std::string_view(error.what()).find("session is read-only") == std::string_view::npos) throw;
    PgHandle connection = connect_to(url, application_name, "any");
    if (!is_writable(connection.get())) throw;
    return connection;
  }
}

bool wait_for(pg_conn* connection, short events, std::chrono::steady_clock::time_point deadline) {
  pollfd socket{.fd = PQsocket(connection), .events = events, .revents = 0};
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    const int ready = ::poll(&socket, 1, static_cast<int>(left.count()));
    if (ready > 0 || (ready < 0 && errno != EINTR)) return true;
  }
}

PgHandle open_beside(pg_conn* other, std::chrono::steady_clock::time_point deadline) {
  const UrlOptions options(PQconninfo(other), &PQconninfoFree);
  std::vector<const char*> names;
  std::vector<const char*> values;
  for (const PQconninfoOption* option = options.get(); option && option->keyword; ++option) {
    if (!option->val) continue;
    names.push_back(option->keyword);
    values.push_back(option->val);
  }
  names.push_back(nullptr);
  values.push_back(nullptr);
  PGconn* raw = PQconnectStartParams(names.data(), values.data(), 0);
  PgHandle connection(raw);
  PostgresPollingStatusType next = PQstatus(raw) == CONNECTION_BAD ? PGRES_POLLING_FAILED : PGRES_POLLING_WRITING;
  while (next == PGRES_POLLING_READING || next == PGRES_POLLING_WRITING) {
    if (!wait_for(raw, next == PGRES_POLLING_READING ? POLLIN : POLLOUT, deadline))
      throw Error(Remedy::retry, "postgresql: the server did not answer in time");
    next = PQconnectPoll(raw);
  }
  return checked(connection.release());
}

std::string describe_postgres(const std::string& url) {
  const UrlOptions options = read_url(url);
  if (!options) return "postgresql (its URL cannot be read)";
  std::string host = "localhost";
  std::string port;
  std::string database;
  for (const PQconninfoOption* option = options.get(); option->keyword; ++option) {
    if (!option->val) continue;
    if (std::string_view(option->keyword) == "host") host = option->val;
    if (std::string_view(option->keyword) == "port" && std::string_view(option->val) != "5432")
      port = fmt::format(":{}", option->val);
    if (std::string_view(option->keyword) == "dbname") database = option->val;
  }
  return fmt::format("postgresql://{}{}/{}", host, port, database);
}

}  // namespace waybill
