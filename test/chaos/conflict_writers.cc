// conflict_writers --store URL [--seed N] [--writers N] [--aggregates N] [--log FILE]: many writers, few aggregates.
// Each reads an aggregate's version and appends to its stream; whoever is late reads again. Ends when it is asked to,
// by SIGTERM. Prints "committed C" now and then, C being the conflicts so far. Some transactions are rolled back, and
// some append whatever the version is.
#include <atomic>
#include <csignal>
#include <cstdio>
#include <exception>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "waybill/event_store.h"

namespace {

using namespace std::chrono_literals;

struct Options {
  std::string store{};
  std::string log{};  // As every producer of a chaos run has it; nothing is written.
  unsigned seed = 1;
  int writers = 32;
  unsigned aggregates = 4;
};

struct Progress {
  std::atomic<long> conflicts = 0;
  std::atomic<long> transactions = 0;
  std::atomic<long> events = 0;
  std::atomic<long> interruptions = 0;  // The server was away.
  std::atomic<bool> failed = false;
};

std::atomic<bool> asked_to_end = false;
static_assert(std::atomic<bool>::is_always_lock_free);

class Writer {
 public:
  Writer(const Options& options, Progress& progress, unsigned number)
      : options_(options), progress_(progress), random_(options.seed * 1'000 + number) {}

  void write() {
    while (!asked_to_end && !progress_.failed) {
      try {
        if (!db_) db_ = waybill::connect(options_.store);
        append();
      } catch (const waybill::Conflict& conflict) {
        ++progress_.conflicts;
        if (conflict.actual() <= conflict.expected()) fail(conflict);
      } catch (const waybill::Error& error) {
        if (error.remedy() != waybill::Remedy::retry && error.remedy() != waybill::Remedy::unknown) fail(error);
        ++progress_.interruptions;
        std::this_thread::sleep_for(20ms);
      }
    }
  }

 private:
  void append() {
    const waybill::StreamId stream{.type = "account", .id = fmt::format("a-{}", random_() % options_.aggregates)};
    const bool rolls_back = random_() % 10 == 0;
    const bool anyhow = random_() % 20 == 0;
    waybill::Transaction transaction(*db_);
    const std::int64_t seen = events_.version(*db_, stream);
    const std::vector made(1 + random_() % 3, waybill::Event{.topic = "account.changed", .payload = "{}"});
    const auto expected = anyhow ? waybill::Expected::any() : waybill::Expected::version(seen);
    events_.append(*db_, stream, expected, made);
    if (rolls_back) return;
    transaction.commit();
    ++progress_.transactions;
    progress_.events += std::ssize(made);
  }

  void fail(const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    progress_.failed = true;
  }

  const Options& options_;
  Progress& progress_;
  std::mt19937 random_;
  std::unique_ptr<waybill::Connection> db_;
  const waybill::EventStore events_;
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Many writers, few aggregates.");
  app.add_option("--store", options.store)->required();
  app.add_option("--log", options.log);
  app.add_option("--seed", options.seed);
  app.add_option("--writers", options.writers);
  app.add_option("--aggregates", options.aggregates);
  CLI11_PARSE(app, argc, argv);

  std::signal(SIGTERM, [](int) { asked_to_end = true; });
  Progress progress;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < options.writers; ++i)
      threads.emplace_back([&, i] { Writer(options, progress, static_cast<unsigned>(i)).write(); });
    while (!asked_to_end && !progress.failed) {
      std::this_thread::sleep_for(50ms);
      std::printf("committed %ld\n", progress.conflicts.load());
      std::fflush(stdout);
    }
  }
  std::printf("%ld conflicts, %ld transactions, %ld events, %ld interruptions\n", progress.conflicts.load(),
              progress.transactions.load(), progress.events.load(), progress.interruptions.load());
  return progress.failed ? 1 : 0;
}
