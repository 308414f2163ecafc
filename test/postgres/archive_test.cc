// The archive that gets events before they go: each event is in the log, or in a file that is whole.

#include <filesystem>
#include <fstream>
#include <future>
#include <random>
#include <set>

#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "postgres/clean_fixture.h"
#include "support/child_process.h"

namespace waybill {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class ArchiveTest : public CleanTest {
 protected:
  ArchiveTest() : CleanTest() {}
  explicit ArchiveTest(TmpPostgres& the_server) : CleanTest(the_server) {}

  std::vector<std::string> files() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
      names.push_back(entry.path().filename().string());
    return names;
  }
  std::vector<nlohmann::json> lines(const std::string& name) {
    std::ifstream file(folder.path() + "/" + name);
    std::vector<nlohmann::json> list;
    for (std::string line; std::getline(file, line);) list.push_back(nlohmann::json::parse(line));
    return list;
  }

  TmpFolder folder{""};
};

TEST_F(ArchiveTest, HasEveryEventAsALine) {
  app("INSERT INTO waybill.event (topic, key, payload, metadata) VALUES ('t', 'k', E'{\"a\":\\n [1, "
      "\"x\\\\n\"]\\r\\n}', '{\"b\":2}')");
  app("INSERT INTO waybill.event (topic, key, payload_bytes) VALUES ('u', 'k', decode(repeat('ff00', 100), 'hex'))");
  for (int i = 0; i < 2'500; ++i) put("x");
  // More than is read at once, though they are few.
  app("INSERT INTO waybill.event (topic, key, payload) SELECT 't', 'k', to_json(repeat('y', 700000)) FROM "
      "generate_series(1, 20)");
  publish();
  grow_old();
  EXPECT_EQ(2'522, clean(folder.path()).events.value);
  EXPECT_EQ("", log());
  ASSERT_THAT(files(), ElementsAre("waybill-0000000000000001-0000000000002522.jsonl"));
  const auto archived = lines(files().front());
  ASSERT_THAT(archived, SizeIs(2'522));
  for (std::size_t i = 0; i < archived.size(); ++i) ASSERT_EQ(i + 1, archived[i]["seq"].get<std::size_t>());
  EXPECT_EQ("{\"a\":[1,\"x\\n\"]}", archived[0]["payload"].dump());
  EXPECT_EQ(2, archived[0]["metadata"]["b"]);
  EXPECT_EQ("u", archived[1]["topic"]);
  EXPECT_EQ(268U, archived[1]["payload_base64"].get<std::string>().size());
}

TEST_F(ArchiveTest, IsNotThereIfTheSlotWasNotEmptied) {
  put("a");
  publish();
  grow_old();
  Sql person(url);
  person("BEGIN; UPDATE waybill.destination SET paused = paused");
  EXPECT_EQ(0, clean(folder.path()).events.value);
  EXPECT_THAT(files(), IsEmpty());
  person("COMMIT");
  EXPECT_EQ(1, clean(folder.path()).events.value);
  EXPECT_THAT(files(), SizeIs(1));
}

// The archive is a pipe here: whoever writes it waits for its reader, who asks for the stop in the middle.
TEST_F(ArchiveTest, AStopInTheMiddleLeavesEverythingAsItWas) {
  app("INSERT INTO waybill.event (topic, key, payload) SELECT 't', 'k', to_json(repeat('x', 1100)) "
      "FROM generate_series(1, 3000)");
  publish();
  grow_old();
  const std::string part = folder.path() + "/waybill-0000000000000001-0000000000003000.jsonl.part";
  ASSERT_EQ(0, ::mkfifo(part.c_str(), 0600));
  std::stop_source stop;
  const auto reading = std::async(std::launch::async, [&] {
    std::ifstream pipe(part);
    pipe.get();
    stop.request_stop();
    pipe.ignore(std::numeric_limits<std::streamsize>::max());
  });
  const Cleaned cleaned = store->upkeep()->clean({.archive_to = folder.path(), .stop = stop.get_token()});
  EXPECT_EQ(0, cleaned.events.value);
  EXPECT_TRUE(cleaned.more);
  EXPECT_THAT(files(), IsEmpty());
  EXPECT_EQ(3'000, app.number("SELECT count(*) FROM waybill.event"));
  EXPECT_EQ(3'000, clean(folder.path()).events.value);
}

// A pipe that nobody reads yet: as an archive that takes very long to write.
TEST_F(ArchiveTest, NobodyWaitsWhileItIsWritten) {
  put("a");
  publish();
  grow_old();
  const std::string pipe = folder.path() + "/waybill-0000000000000001-0000000000000001.jsonl.part";
  ASSERT_EQ(0, ::mkfifo(pipe.c_str(), 0600));
  auto cleaning = std::async(std::launch::async, [&] { EXPECT_THROW(clean(folder.path()), Error); });
  ASSERT_TRUE(eventually(
      [&] {
        return app("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'waybill upkeep' AND "
                   "state = 'idle in transaction' AND query LIKE '%pg_current_snapshot%'") == "1";
      },
      30s));
  app("SET lock_timeout = '5s'");
  EXPECT_EQ("", app.refusal("INSERT INTO waybill.event (topic, key, payload, slot) VALUES ('t', 'k', '\"b\"', " +
                            far_slot() + ")"));
  EXPECT_EQ("", app.refusal("SELECT waybill.pause('out')"));
  EXPECT_EQ("0", app("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'waybill upkeep' AND "
                     "backend_xid IS NOT NULL"))
      << "nor does it keep anything from being vacuumed";
  {
    std::ifstream reader(pipe);
    for (std::string line; std::getline(reader, line);) EXPECT_THAT(line, HasSubstr("\"a\""));
  }
  cleaning.wait();
  EXPECT_EQ("ab", log());
}

TEST_F(ArchiveTest, AFolderThatCannotBeWrittenToKeepsTheLogAsItIs) {
  put("a");
  publish();
  grow_old();
  const auto upkeep = store->upkeep();
  EXPECT_THROW(upkeep->clean({.archive_to = folder.path() + "/none"}), Error);
  EXPECT_EQ("a", log());
  EXPECT_EQ(1, upkeep->clean({.archive_to = folder.path()}).events.value);
}

class ArchiveCrashTest : public ArchiveTest {
 protected:
  ArchiveCrashTest() : ArchiveTest(durable()) {}
  static TmpPostgres& durable() {
    static TmpPostgres server(true);
    return server;
  }
};

// Whenever the server dies: each event is in the log, or in a file that is whole.
TEST_F(ArchiveCrashTest, Row10_NoEventIsLostWheneverTheServerDies) {
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  SCOPED_TRACE("seed " + std::to_string(seed));
  int emptied = 0;
  for (int round = 0; round < 6; ++round) {
    app("SELECT waybill.enqueue('t', to_json(repeat('x', 500)), key => 'k') FROM generate_series(1, 3000)");
    publish();
    grow_old();
    const auto in_log = app.number("SELECT count(*) FROM waybill.event");
    std::size_t archived_before = 0;
    for (const auto& name : files())
      if (name.ends_with(".jsonl")) archived_before += lines(name).size();
    auto cleaning = std::async(std::launch::async, [&] {
      try {
        clean(folder.path());
      } catch (const Error&) {
      }
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(std::uniform_int_distribution<>(5, 250)(random)));
    server.crash();
    cleaning.wait();
    server.start();
    app = Sql(url);
    const auto left = app.number("SELECT count(*) FROM waybill.event");
    ASSERT_TRUE(left == 0 || left == in_log) << left;
    std::set<std::int64_t> archived;
    for (const auto& name : files()) {
      if (!name.ends_with(".jsonl")) continue;
      for (const auto& line : lines(name)) archived.insert(line["seq"].get<std::int64_t>());
    }
    if (left == 0) {
      ++emptied;
      ASSERT_EQ(3'000U * static_cast<unsigned>(round + 1), archived.size());
    }
  }
  RecordProperty("emptied", emptied);
}

}  // namespace
}  // namespace waybill
