// Processes are killed in the middle of their transactions: what a client asks is done once and answered the same to
// all, and what a consumer handles takes effect once.

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <list>
#include <map>
#include <numeric>
#include <random>
#include <sstream>
#include <thread>

#include "service/databases.h"
#include "service/progress.h"
#include "support/child_process.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;

constexpr int killed = 128 + SIGKILL;

class KilledSuite : public DatabaseTest {
 protected:
  KilledSuite() {
    db->script("CREATE TABLE placed (id text NOT NULL)");
    db->script("CREATE TABLE effect (message text NOT NULL)");
  }

  ChildProcess start(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), WAYBILL_KILLED_CLIENT);
    return {arguments, log};
  }
  // What the processes have said: "PID word ANSWER".
  struct Line {
    pid_t pid = 0;
    std::string word{};
    std::string answer{};
  };
  std::vector<Line> said() const {
    std::vector<Line> lines;
    std::ifstream file(log);
    for (std::string text; std::getline(file, text);) {
      std::istringstream parts(text);
      Line& line = lines.emplace_back();
      parts >> line.pid >> line.word;
      std::getline(parts >> std::ws, line.answer);
      if (line.word == "failed:") ADD_FAILURE() << text;
    }
    return lines;
  }
  int count_said(const std::string& word) const {
    const auto lines = said();
    return static_cast<int>(
        std::count_if(lines.begin(), lines.end(), [&](const Line& line) { return line.word == word; }));
  }

  const TmpFolder folder;
  const std::string log = folder.path() + "/log";
  // As long as it is not there, processes stand still now and then, in the middle of their work.
  const std::string gate = folder.path() + "/gate";
};

// --- Idempotency keys

class KilledClients : public KilledSuite {
 protected:
  static constexpr int clients = 64;

  void ask(int stage) { processes.push_back(start({"ask", url, std::to_string(stage), gate})); }
  // Kills the one that has begun and stands still at its stage. False: nobody has, in time.
  bool kill_one() {
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (std::chrono::steady_clock::now() < deadline) {
      for (const Line& line : said()) {
        const auto process = std::find_if(processes.begin(), processes.end(),
                                          [&](const ChildProcess& one) { return one.pid() == line.pid; });
        if (line.word != "began" || process == processes.end()) continue;
        process->signal(SIGKILL);
        EXPECT_EQ(killed, process->wait());
        processes.erase(process);
        return true;
      }
      std::this_thread::sleep_for(5ms);
    }
    return false;
  }
  // From now on nobody stands still. All of them get one answer.
  std::string answer_of_all() {
    std::ofstream(gate) << "open";
    for (ChildProcess& process : processes) EXPECT_EQ(0, process.wait());
    std::map<std::string, int> answers;
    for (const Line& line : said())
      if (line.word != "began") ++answers[line.answer];
    EXPECT_EQ(1U, answers.size());
    EXPECT_EQ(std::ssize(processes), answers.begin()->second);
    return answers.begin()->first;
  }

  std::list<ChildProcess> processes;
};

INSTANTIATE_TEST_SUITE_P(Databases, KilledClients, every_database, database_name);

TEST_P(KilledClients, Row83_ManyAskUnderOneKeyAndItIsDoneOnceAndAnsweredTheSame) {
  constexpr int kills = 12;
  constexpr int stages = 4;  // as the work begins; with its state, its event, its answer written
  for (int i = 0; i < clients; ++i) ask(i % stages);
  for (int i = 0; i < kills; ++i) {
    ASSERT_TRUE(kill_one()) << i;
    EXPECT_EQ(0, count("placed") + count(table("event")) + count(table("idempotency"))) << "nothing was left behind";
    ask(i % stages);
  }
  const std::string answer = answer_of_all();
  EXPECT_EQ(clients, std::ssize(processes));
  EXPECT_EQ(1, count_said("done"));
  EXPECT_EQ(clients - 1, count_said("again"));
  EXPECT_LE(kills, count_said("began")) << "so many executions were interrupted";
  EXPECT_EQ(answer, value("SELECT id FROM placed"));
  EXPECT_EQ(1, count("placed"));
  EXPECT_EQ(1, count(table("event")));
  EXPECT_EQ(1, count(table("idempotency")));
}

TEST_P(KilledClients, Row83_WhoIsKilledBeforeHeAnswersHasDoneIt) {
  constexpr int committed = 4;
  for (int i = 0; i < clients / 4; ++i) ask(committed);
  ASSERT_TRUE(kill_one());
  EXPECT_EQ(value("SELECT id FROM placed"), answer_of_all());
  EXPECT_EQ(0, count_said("done"));
  EXPECT_EQ(1, count(table("event")));
}

// --- The inbox

class KilledConsumers : public KilledSuite {
 protected:
  static constexpr int consumers = 4;

  // As many as are worth the time of a test; for a proof, as many as one likes.
  int messages() const {
    const char* wanted = std::getenv("WAYBILL_TEST_MESSAGES");
    if (wanted) return std::stoi(wanted);
    return GetParam() == "postgres" ? 10'000 : 1'000;
  }
  std::string path(int consumer, const std::string& name) const {
    return folder.path() + '/' + name + std::to_string(consumer);
  }
  // Every message to two of them, out of order, at about the same time.
  void deliver_twice() {
    std::vector<std::multimap<int, int>> deliveries(consumers);
    for (int message = 0; message < messages(); ++message) {
      const auto one = random() % consumers;
      for (const auto consumer : {one, (one + 1 + random() % (consumers - 1)) % consumers})
        deliveries[consumer].emplace(message + static_cast<int>(random() % 50), message);
    }
    for (int consumer = 0; consumer < consumers; ++consumer) {
      std::ofstream file(path(consumer, "deliveries"));
      for (const auto& [place, message] : deliveries[static_cast<std::size_t>(consumer)])
        file << "m-" << message << '\n';
    }
  }
  ChildProcess consume(int consumer) {
    return start(
        {"consume", url, path(consumer, "deliveries"), path(consumer, "progress"), std::to_string(random()), gate});
  }
  int sum(std::atomic<int> Progress::*counter) {
    return std::accumulate(progress.begin(), progress.end(), 0,
                           [&](int before, const Progress* one) { return before + (one->*counter).load(); });
  }

  std::mt19937 random{20261116};
  std::vector<Progress*> progress;
};

INSTANTIATE_TEST_SUITE_P(Databases, KilledConsumers, every_database, database_name);

TEST_P(KilledConsumers, Row84_WhatIsDeliveredTwiceAndOutOfOrderTakesEffectOnce) {
  constexpr int interruptions = 40;
  deliver_twice();
  std::vector<std::unique_ptr<ChildProcess>> processes;
  for (int consumer = 0; consumer < consumers; ++consumer) {
    progress.push_back(&map_progress(path(consumer, "progress")));
    processes.push_back(std::make_unique<ChildProcess>(consume(consumer)));
  }
  int kills = 0;
  int interrupted = 0;
  while (interrupted < interruptions && sum(&Progress::acknowledged) < 2 * messages()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1 + random() % 10));
    const auto consumer = random() % consumers;
    Progress& its = *progress[consumer];
    // A look first, so that they are hit where it hurts; what counts is what it was at when it died.
    if (its.state != Progress::inside) continue;
    processes[consumer]->signal(SIGKILL);
    if (processes[consumer]->wait() != killed) continue;
    ++kills;
    if (its.state == Progress::inside) ++interrupted;
    its.state = Progress::outside;
    processes[consumer] = std::make_unique<ChildProcess>(consume(static_cast<int>(consumer)));
  }
  std::ofstream(gate) << "open";
  for (const auto& process : processes) EXPECT_EQ(0, process->wait());
  said();
  EXPECT_EQ(interruptions, interrupted) << "of " << kills;
  EXPECT_EQ(messages(), count("effect"));
  EXPECT_EQ(messages(), count("(SELECT DISTINCT message FROM effect) d"));
  EXPECT_EQ(messages(), count(table("inbox")));
  EXPECT_EQ(messages(), count(table("event")));
  EXPECT_GE(sum(&Progress::duplicates), messages() - kills);
  EXPECT_GT(sum(&Progress::rolled_back), 0);
  RecordProperty("kills", kills);
  RecordProperty("duplicates", sum(&Progress::duplicates));
}

}  // namespace
}  // namespace waybill
