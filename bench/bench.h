#pragma once

#include <chrono>
#include <map>
#include <string>
#include <utility>

#include "report.h"
#include "server.h"
#include "workload.h"

// The benches, a file each. A bench measures figures and adds them to the report; see README.md for what they are.
namespace waybill::bench {

struct Scale {
  bool quick = false;  // To see whether the bench itself works: the figures mean little.
  bool full = false;   // Ten million events where three are the default.
  // 0: as the figure is defined, or less if quick.
  int flaky_seconds = 0;
  long followers = 0;
  int window_seconds = 0;

  int pairs() const { return quick ? 2 : 5; }
  int many_pairs() const { return quick ? 3 : 11; }
  long backlog() const { return quick ? 50'000 : 1'000'000; }
  long broker_backlog() const { return quick ? 30'000 : 100'000; }
  std::chrono::milliseconds round() const { return std::chrono::milliseconds(quick ? 1'000 : 4'000); }
};

struct Run {
  Server& server;
  Report& report;
  Scale scale{};
  std::string waybill{};  // the program

  // A database with that many shards and a backlog of that many events; made at the first call.
  const std::string& backlog(int shards, long events);
  // A name no destination of this run has had: it begins at the beginning of the log.
  std::string fresh_name() { return "d" + std::to_string(++names); }

  std::map<std::pair<int, long>, std::string> backlogs{};
  int names = 0;
};

void drain_vs_copy(Run& run);
void drain_16_shards_vs_1(Run& run);
void drain_vs_seed(Run& run);
void drain_vs_skip_locked(Run& run);
void enqueue_vs_second_insert(Run& run);
void wake_commits_32_writers(Run& run);
void long_drain(Run& run);
void pinned_xmin(Run& run);
void idle(Run& run);
void commit_to_publish(Run& run);
void takeover(Run& run);

void flaky_destination(Run& run);
void hot_key(Run& run);
void dump_beside_cleaning(Run& run);

void append_vs_two_inserts(Run& run);
void batch_enqueue_vs_copy(Run& run);

void rabbitmq_vs_ceiling(Run& run);
void rabbitmq_classic_vs_ceiling(Run& run);
void nats_vs_ceiling(Run& run);
void rabbitmq_commit_to_confirm(Run& run);
void nats_commit_to_confirm(Run& run);
void rabbitmq_hot_key(Run& run);
void nats_hot_key(Run& run);
void rabbitmq_beside_down(Run& run);
void nats_beside_down(Run& run);

}  // namespace waybill::bench
