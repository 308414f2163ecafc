// A stranger's application: it knows PostgreSQL and the SQL contract, and nothing of Waybill's code. Many
// writers keep accounts in tables of their own and write an event for every change; some transactions are
// long, some roll back, some only to a savepoint. What each was told is logged for the checker
// (test/checker/README.md).
//
// Transaction t of writer w is the same in every run with the same --seed; how they interleave is not.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <libpq-fe.h>
#include <unistd.h>

namespace {

using namespace std::chrono_literals;

constexpr int accounts = 2'000;          // Of two tenants, with the same keys.
constexpr int hot_accounts = 4;          // The last ones: whoever waits for a quiet one does not hold a hot one.
constexpr auto patience = 60s;           // Until the server must be back.
constexpr std::size_t text_bytes = 430;  // Makes a payload of about 512.

struct Options {
  std::string store{}, log{}, sync_commit = "on";
  std::uint64_t seed = 1;
  long events = 10'000;  // Stops when so many are committed.
  long rate = 0;         // Events a second, of all writers together; 0: as fast as it goes.
  int writers = 64;
};

class Random {
 public:
  Random(std::uint64_t seed, int writer, long tx) {
    std::seed_seq sequence{seed, seed >> 32, static_cast<std::uint64_t>(writer), static_cast<std::uint64_t>(tx)};
    engine_.seed(sequence);
  }
  int below(int limit) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(limit)); }
  bool chance(int per_thousand) { return below(1000) < per_thousand; }
  std::uint64_t bits() { return engine_(); }

 private:
  std::mt19937_64 engine_;
};

std::uint32_t crc32(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0xEDB88320 & (0U - (crc & 1U)));
  }
  return ~crc;
}

std::string make_id(Random& random) {
  const std::uint64_t high = (random.bits() & ~0xF000ULL) | 0x4000ULL;  // A version 4 UUID.
  const std::uint64_t low = (random.bits() & ~(3ULL << 62)) | (2ULL << 62);
  return fmt::format("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", high >> 32, high >> 16 & 0xFFFF, high & 0xFFFF, low >> 48,
                     low & 0xFFFFFFFFFFFF);
}

// JSON that whoever parses and prints it again will not print the same.
std::string make_payload(const std::string& key, long n, Random& random) {
  static constexpr std::array pieces = {"a", "b ", "7", "\\\\", "\\u00e9", "é", "\\/", "{", "'", "€"};
  std::string text;
  while (text.size() < text_bytes) text += pieces[static_cast<std::size_t>(random.below(pieces.size()))];
  return fmt::format(R"({{"n":{},  "key":"{}","amount":1.50,"check":"{:08x}" ,"text":"{}"}})", n, key, crc32(text),
                     text);
}

// Lines go out whole: one write, appended.
class Log {
 public:
  explicit Log(const std::string& path) : fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
    if (fd_ < 0) throw std::runtime_error("cannot write " + path);
  }
  ~Log() { ::close(fd_); }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  void append(const std::string& lines) {
    if (::write(fd_, lines.data(), lines.size()) != static_cast<ssize_t>(lines.size()))
      throw std::runtime_error("the log is full");
  }

 private:
  const int fd_;
};

// A statement did; if the connection lives, the server rolled the transaction back.
struct Failed : std::runtime_error {
  using runtime_error::runtime_error;
};

// A session of one writer's. Every call but connect() throws Failed.
class Session {
 public:
  explicit Session(const Options& options) : options_(options) {}

  void connect() {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (true) {
      connection_.reset(PQconnectdb(options_.store.c_str()));
      if (PQstatus(connection_.get()) == CONNECTION_OK) {
        const Answer set(PQexec(connection_.get(), ("SET synchronous_commit = " + options_.sync_commit).c_str()));
        if (PQresultStatus(set.get()) == PGRES_COMMAND_OK) return;
      }
      if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error(PQerrorMessage(connection_.get()));
      std::this_thread::sleep_for(50ms);
    }
  }

  bool alive() const { return PQstatus(connection_.get()) == CONNECTION_OK; }

  // Returns the first value, if there is one.
  std::string run(const char* sql, std::initializer_list<std::string> values = {}) {
    std::vector<const char*> pointers;
    for (const auto& value : values) pointers.push_back(value.c_str());
    const Answer answer(PQexecParams(connection_.get(), sql, static_cast<int>(pointers.size()), nullptr,
                                     pointers.data(), nullptr, nullptr, 0));
    const auto status = PQresultStatus(answer.get());
    if (status == PGRES_COMMAND_OK) return {};
    if (status == PGRES_TUPLES_OK) return PQntuples(answer.get()) > 0 ? PQgetvalue(answer.get(), 0, 0) : "";
    refuse_mistakes(answer.get());
    throw Failed(PQerrorMessage(connection_.get()));
  }

  // "ok", "rolled_back", or "info" if nobody can tell.
  const char* commit() {
    const Answer answer(PQexec(connection_.get(), "COMMIT"));
    if (PQresultStatus(answer.get()) == PGRES_COMMAND_OK)
      return std::string_view(PQcmdStatus(answer.get())) == "COMMIT" ? "ok" : "rolled_back";
    return alive() ? "rolled_back" : "info";
  }

 private:
  using Answer = std::unique_ptr<PGresult, decltype([](PGresult* result) { PQclear(result); })>;

  // A deadlock, a server that goes away or a standby is to be expected; another error would only come again.
  void refuse_mistakes(const PGresult* answer) const {
    const char* field = PQresultErrorField(answer, PG_DIAG_SQLSTATE);
    const std::string_view state = field == nullptr ? "57000" : field;
    const std::string_view group = state.substr(0, 2);
    if (alive() && group != "40" && group != "57" && group != "08" && state != "25006")
      throw std::runtime_error(PQresultErrorMessage(answer));
  }

  const Options& options_;
  std::unique_ptr<PGconn, decltype([](PGconn* connection) { PQfinish(connection); })> connection_;
};

struct Account {
  int number = 0;
  std::string tenant{}, key{};
  long n = 0;  // Events of this key so far; known once it is locked.

  explicit Account(int which)
      : number(which), tenant(which % 2 == 0 ? "default" : "north"), key(fmt::format("key-{:04}", which / 2)) {}
};

struct Totals {
  std::atomic<long> committed{0}, rolled_back{0}, unknown{0}, transactions{0}, reconnects{0};
};

class Writer {
 public:
  Writer(const Options& options, int number, Log& log, Totals& totals)
      : options_(options), number_(number), log_(log), totals_(totals), session_(options) {}

  void run() {
    session_.connect();
    for (tx_ = 1; totals_.committed < options_.events; ++tx_) {
      transaction();
      if (options_.rate > 0) std::this_thread::sleep_for(events_ * options_.writers * 1'000'000us / options_.rate);
    }
  }

 private:
  void transaction() {
    Random random(options_.seed, number_, tx_);
    lines_.clear();
    events_ = 0;
    const char* outcome = "rolled_back";
    try {
      session_.run("BEGIN");
      if (work(random)) {
        log_.append(lines_);  // On file before anybody can see the events.
        lines_.clear();
        outcome = session_.commit();
      } else {
        session_.run("ROLLBACK");
      }
    } catch (const Failed&) {
      recover();
    }
    end(outcome);
    if (!session_.alive()) recover();
  }

  void recover() {
    try {
      if (session_.alive()) session_.run("ROLLBACK");
    } catch (const Failed&) {
    }
    if (session_.alive()) return;
    ++totals_.reconnects;
    session_.connect();
  }

  void end(std::string_view outcome) {
    ++totals_.transactions;
    (outcome == "ok" ? totals_.committed : outcome == "info" ? totals_.unknown : totals_.rolled_back) += events_;
    if (events_ > 0) log_.append(lines_ + line(outcome) + "}\n");
  }

  // The rule: an account is locked before its events are written; several are locked in their order.
  // Returns whether to commit.
  bool work(Random& random) {
    const bool is_long = random.chance(1);
    auto mine = choose(random, is_long ? accounts - hot_accounts : accounts);
    const bool all_at_once = random.chance(500);
    if (all_at_once) {
      for (auto& account : mine) lock(account);
    }
    for (auto& account : mine) {
      if (!all_at_once) lock(account);
      for (int left = 1 + random.below(3); left > 0; --left) write(account, random);
      session_.run("UPDATE app.account SET n = $2 WHERE number = $1",
                   {std::to_string(account.number), std::to_string(account.n)});
      std::this_thread::sleep_for(std::chrono::microseconds(random.below(is_long ? 2'000'000 : 10'000)));
    }
    return !random.chance(200);
  }

  static std::vector<Account> choose(Random& random, int limit) {
    std::vector<int> numbers;
    for (int left = 1 + random.below(3); left > 0; --left)
      numbers.push_back(random.chance(100) ? limit - 1 - random.below(hot_accounts) : random.below(limit));
    std::sort(numbers.begin(), numbers.end());
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    return {numbers.begin(), numbers.end()};
  }

  void lock(Account& account) {
    account.n = std::stol(
        session_.run("SELECT n FROM app.account WHERE number = $1 FOR UPDATE", {std::to_string(account.number)}));
  }

  void write(Account& account, Random& random) {
    const int way = random.below(10);
    if (way > 1) return enqueue(account, random);
    session_.run("SAVEPOINT detour");
    enqueue(account, random);
    if (way == 0) {
      session_.run("RELEASE SAVEPOINT detour");
      return;
    }
    session_.run("ROLLBACK TO SAVEPOINT detour");
    lines_ += fmt::format("{},\"id\":\"{}\"}}\n", line("rolled_back"), last_id_);
    --account.n;
    --events_;
    enqueue(account, random);
  }

  void enqueue(Account& account, Random& random) {
    const long n = ++account.n;
    last_id_ = make_id(random);
    const std::string payload = make_payload(account.key, n, random);
    lines_ += fmt::format(R"({},"tenant":"{}","key":"{}","n":{},"id":"{}","crc32":{}}})", line("attempt"),
                          account.tenant, account.key, n, last_id_, crc32(payload)) +
              '\n';
    ++events_;
    const auto* sql = random.chance(700)
                          ? "INSERT INTO waybill.event (topic, payload, id, tenant, key) VALUES ($1, $2, $3, $4, $5)"
                          : "SELECT waybill.enqueue($1, $2::json, id => $3::uuid, tenant => $4, key => $5)";
    session_.run(sql, {"account.changed", payload, last_id_, account.tenant, account.key});
  }

  // Without the closing brace.
  std::string line(std::string_view op) const {
    return fmt::format(R"({{"op":"{}","run":"{}","writer":{},"tx":{})", op, options_.seed, number_, tx_);
  }

  const Options& options_;
  const int number_;
  Log& log_;
  Totals& totals_;
  Session session_;
  long tx_ = 0;
  std::string lines_{};  // Not yet on file.
  int events_ = 0;       // Of this transaction, savepoints that were rolled back not counted.
  std::string last_id_{};
};

// The first of several producers makes them.
void make_tables(const Options& options) {
  for (int tries = 0;; ++tries) try {
      Session session(options);
      session.connect();
      session.run("SET synchronous_commit = on");
      session.run("CREATE SCHEMA IF NOT EXISTS app");
      session.run("CREATE TABLE IF NOT EXISTS app.account (number int PRIMARY KEY, n bigint NOT NULL)");
      session.run("INSERT INTO app.account SELECT i, 0 FROM generate_series(0, $1::int - 1) i ON CONFLICT DO NOTHING",
                  {std::to_string(accounts)});
      return;
    } catch (const Failed&) {
      if (tries == 10) throw;
    }
}

void write_all(const Options& options, Log& log, Totals& totals) {
  std::vector<std::jthread> threads;
  threads.reserve(static_cast<std::size_t>(options.writers));
  for (int number = 0; number < options.writers; ++number)
    threads.emplace_back([&options, &log, &totals, number] {
      try {
        Writer(options, number, log, totals).run();
      } catch (const std::exception& error) {
        fmt::print(stderr, "producer: writer {}: {}\n", number, error.what());
        std::_Exit(1);
      }
    });
  while (totals.committed < options.events) {
    fmt::print("committed {}\n", totals.committed.load());
    std::fflush(stdout);
    std::this_thread::sleep_for(50ms);
  }
}

Options parse(int argc, char** argv) {
  Options options;
  const std::map<std::string_view, std::function<void(const std::string&)>> known = {
      {"--store", [&](const std::string& value) { options.store = value; }},
      {"--log", [&](const std::string& value) { options.log = value; }},
      {"--sync-commit", [&](const std::string& value) { options.sync_commit = value; }},
      {"--seed", [&](const std::string& value) { options.seed = std::stoull(value); }},
      {"--events", [&](const std::string& value) { options.events = std::stol(value); }},
      {"--writers", [&](const std::string& value) { options.writers = std::stoi(value); }},
      {"--rate", [&](const std::string& value) { options.rate = std::stol(value); }}};
  for (int at = 1; at < argc; at += 2) {
    const auto found = known.find(argv[at]);
    if (found == known.end() || at + 1 == argc) throw std::invalid_argument(argv[at]);
    found->second(argv[at + 1]);
  }
  if (options.sync_commit != "on" && options.sync_commit != "off") throw std::invalid_argument("--sync-commit");
  return options;
}

}  // namespace

int main(int argc, char** argv) try {
  const Options options = parse(argc, argv);
  fmt::print("seed {}\n", options.seed);
  Log log(options.log);
  log.append(fmt::format(R"({{"op":"run","run":"{}","sync_commit":"{}"}})", options.seed, options.sync_commit) + '\n');
  make_tables(options);
  Totals totals;
  write_all(options, log, totals);
  fmt::print("committed {}, rolled back {}, unknown {}, in {} transactions; reconnected {} times\n",
             totals.committed.load(), totals.rolled_back.load(), totals.unknown.load(), totals.transactions.load(),
             totals.reconnects.load());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "producer: %s\n", error.what());
  return 2;
}
