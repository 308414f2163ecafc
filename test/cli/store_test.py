import json
import os
import pty
import resource
import select
import signal
import sqlite3
import subprocess
import time
import unittest

from waybill_cli import BINARY, CliTest

NULL = '[destinations.null]\ntype = "null"\n'


class MissingStoreTest(CliTest):
    READS = [["status"], ["events", "list"], ["events", "show", "018f3c1e-7b1a-7c3d-9e2f-0123456789ab"],
             ["enqueue", "--topic", "a", "--payload", "1"]]

    def test_missing_tables(self):
        self.write("waybill.toml", 'store = "sqlite:test.db"\n' + NULL)
        for command in self.READS:
            with self.subTest(command):
                self.assertIn("the tables are not there; run 'waybill migrate'", self.refused(*command))
        result = self.run_cli("doctor")
        self.assertEqual(4, result.code, result)
        self.assertIn("run 'waybill migrate'", result.out)
        self.assertEqual(["waybill.toml"], os.listdir(self.folder))

    def test_a_file_that_is_not_a_database(self):
        self.write("waybill.toml", 'store = "sqlite:test.db"\n' + NULL)
        path = self.write("test.db", "this is a text, and a long one at that\n" * 100)
        before = path.read_bytes()
        for command in self.READS + [["migrate"], ["run", "--once"]]:
            with self.subTest(command):
                said = self.refused(*command)
                self.assertIn("test.db", said)
                self.assertIn("not a database", said)
        self.assertEqual(before, path.read_bytes())

    def test_row38_a_folder_that_is_not_there(self):
        for command in [["migrate"], ["run", "--once"]]:
            self.write("waybill.toml", 'store = "sqlite:gone/test.db"\n' + NULL)
            self.assertIn("gone/test.db", self.refused(*command))

    def test_migrate_on_tables_of_a_newer_program(self):
        self.embedded(NULL)
        store = sqlite3.connect(self.folder / "test.db")
        store.execute("INSERT INTO waybill_schema (version, oldest_program) VALUES (998, 1)")
        store.commit()
        result = self.succeed("migrate")
        self.assertIn("the tables have version 998, newer than this program's", result.err)
        store.execute("INSERT INTO waybill_schema (version, oldest_program) VALUES (999, 999)")
        store.commit()
        store.close()
        for command in [["migrate"], ["status"], ["run", "--once"]]:
            with self.subTest(command):
                said = self.refused(*command)
                self.assertIn("the tables have version 999", said)
                self.assertIn("install a newer waybill", said)

    def test_row38_a_full_disk_leaves_nothing_behind(self):
        def small_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))

        result = subprocess.run([BINARY, "init"], cwd=self.folder, env=self.environment(), capture_output=True,
                                preexec_fn=small_files, restore_signals=False, check=False)
        self.assertEqual(2, result.returncode)
        self.assertIn(b"waybill.toml: cannot write: ", result.stderr)
        self.assertEqual([], os.listdir(self.folder))


class RunTest(CliTest):
    def start(self, *args):
        process = subprocess.Popen([BINARY, "run", *args], cwd=self.folder, env=self.environment(),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        line = process.stderr.readline()
        while line and b"relay started" not in line:
            line = process.stderr.readline()
        self.assertTrue(line, "it ended before it began")
        return process

    def wait_for(self, path, lines):
        path = self.folder / path
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            if path.exists() and len(path.read_text().splitlines()) >= lines:
                return path.read_text().splitlines()
            time.sleep(0.02)
        self.fail(f"{path} never had {lines} lines")

    def test_once_delivers_what_is_there(self):
        self.embedded('[destinations.all]\ntype = "file"\npath = "all.jsonl"\n'
                      '[destinations.some]\ntype = "file"\npath = "some.jsonl"\nmatch = { topic = ["b.*", "c"] }\n')
        payload = '{ "x" : 1.0, "x":"\\u00e9" }'
        for topic in ["a", "b.1", "c", "bb"]:
            self.succeed("enqueue", "--topic", topic, "--key", "k", "--payload", payload)
        self.succeed("run", "--once")
        everything = (self.folder / "all.jsonl").read_text().splitlines()
        self.assertEqual(["a", "b.1", "c", "bb"], [json.loads(line)["topic"] for line in everything])
        self.assertIn(f'"payload":{payload}}}', everything[0])
        some = (self.folder / "some.jsonl").read_text().splitlines()
        self.assertEqual(["b.1", "c"], [json.loads(line)["topic"] for line in some])
        self.succeed("run", "--once")
        self.assertEqual(4, len((self.folder / "all.jsonl").read_text().splitlines()))

    def test_standard_output_carries_events_only(self):
        self.embedded('[destinations.out]\ntype = "stdout"\n')
        self.succeed("enqueue", "--topic", "a", "--payload", "1")
        result = self.succeed("run", "--once")
        self.assertEqual(1, json.loads(result.out)["payload"])

    def test_makes_the_tables_of_an_embedded_store(self):
        self.write("waybill.toml", 'store = "sqlite:test.db"\n' + NULL)
        self.succeed("run", "--once")
        self.assertEqual(0, self.succeed("status", "--json").json["events"]["value"])

    def test_no_destination(self):
        self.embedded("")
        self.assertIn("there is no destination; add a [destinations.NAME]", self.refused("run"))

    def test_row85_a_signal_stops_it_and_that_is_a_good_end(self):
        self.embedded()
        for number in [signal.SIGTERM, signal.SIGINT]:
            process = self.start()
            process.send_signal(number)
            process.communicate(timeout=20)
            self.assertEqual(0, process.returncode)

    def test_events_flow_while_it_runs(self):
        self.embedded()
        process = self.start()
        self.succeed("enqueue", stdin='{"topic":"a","payload":1}\n{"topic":"b","payload":2}\n')
        self.wait_for("out.jsonl", 2)
        status = self.succeed("status", "--json").json
        self.assertEqual([True], [relay["alive"] for relay in status["relays"]])
        self.assertEqual(["log"], status["relays"][0]["destinations"])
        self.succeed("status", "--check")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
        self.assertEqual(0, process.returncode)

    def test_once_leaves_a_paused_destination_to_a_person(self):
        self.embedded('[destinations.a]\ntype = "file"\npath = "a.jsonl"\n[destinations.b]\ntype = "file"\npath = "b.jsonl"\n')
        self.succeed("run", "--once")
        self.succeed("pause", "a")
        self.succeed("enqueue", stdin='{"topic":"x","payload":1}\n{"topic":"y","payload":2}\n')
        result = self.run_cli("run", "--once")
        self.assertEqual(4, result.code, result)
        self.assertIn("waybill: left at 'a': 2 pending; it is paused: 'waybill resume a' lets it go on\n", result.err)
        self.assertNotIn("left at 'b'", result.err)
        self.assertEqual(2, len((self.folder / "b.jsonl").read_text().splitlines()))
        self.succeed("resume", "a")
        self.assertNotIn("left at", self.succeed("run", "--once").err)

    def test_once_says_what_it_waits_for_and_ends_in_time(self):
        self.embedded('[destinations.full]\ntype = "file"\npath = "/dev/full"\n')
        self.succeed("enqueue", "--topic", "a", "--payload", "1")
        result = self.run_cli("run", "--once", "--timeout", "5s", "--set", "grace=100ms")
        self.assertEqual(4, result.code, result)
        self.assertIn("waybill: waiting for 'full': it is away: ", result.err)
        self.assertIn("waybill: not done within --timeout 5s\n", result.err)
        self.assertRegex(result.err, "waybill: left at 'full': 1 pending; it is away: .*No space left on device")

    def test_once_shows_progress_on_a_terminal(self):
        self.embedded()
        self.succeed("run", "--once")
        self.succeed("enqueue", stdin='{"topic":"a","payload":1}\n' * 7)
        code, shown = self.on_a_terminal("run", "--once")
        self.assertEqual(0, code)
        self.assertRegex(shown, r"\[[#.]+\] \d/7")

    def test_flags_of_once(self):
        self.embedded()
        self.assertIn("--timeout 'soon' must be a duration", self.refused("run", "--once", "--timeout", "soon"))
        self.assertIn("--once", self.refused("run", "--timeout", "5s"))

    def test_once_that_is_stopped_has_not_done_its_work(self):
        self.embedded('[destinations.full]\ntype = "file"\npath = "/dev/full"\n')
        self.succeed("enqueue", "--topic", "a", "--payload", "1")
        process = self.start("--once", "--set", "grace=100ms")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
        self.assertEqual(143, process.returncode)
        result = self.run_cli("status", "--check", "--json")
        self.assertEqual(4, result.code, result)
        self.assertEqual(["no-relay"], [alert["alert"] for alert in result.json["alerts"]])

    def test_row85_a_stop_does_not_wait_for_a_reader_of_stdout(self):
        self.embedded('[destinations.out]\ntype = "stdout"\n')
        self.succeed("enqueue", "--topic", "a", "--payload", '"' + "x" * 120_000 + '"')  # More than a pipe holds.
        process = self.start("--set", "grace=100ms")
        select.select([process.stdout], [], [], 20)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(0, process.wait(20))

    def test_row85_the_second_signal_ends_it_at_once(self):
        os.mkfifo(self.folder / "pipe")
        pipe = os.open(self.folder / "pipe", os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, pipe)
        self.embedded('[destinations.stuck]\ntype = "file"\npath = "pipe"\n')
        self.succeed("enqueue", "--topic", "a", "--payload", '"' + "x" * 120_000 + '"')  # More than a pipe holds.
        process = self.start()
        select.select([pipe], [], [], 20)  # It has begun to write, and can only go on if we read.
        process.send_signal(signal.SIGTERM)
        while b"stopping; " not in process.stderr.readline():
            pass
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
        self.assertEqual(143, process.returncode)

    def test_a_second_relay_on_the_file_is_refused(self):
        self.embedded()
        process = self.start()
        result = self.run_cli("run", "--once")
        self.assertEqual(2, result.code, result)
        self.assertIn("test.db", result.err)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)


class StatusTest(CliTest):
    def test_alerts(self):
        self.embedded()
        self.assertEqual([], self.succeed("status", "--check", "--json").json["alerts"])
        self.succeed("enqueue", "--topic", "a", "--payload", "1")
        result = self.run_cli("status", "--check")
        self.assertEqual(4, result.code, result)
        self.assertIn("alert log: no relay has ever served it, and there are events", result.out)
        self.assertEqual(0, self.run_cli("status").code)
        self.succeed("run", "--once")
        self.succeed("status", "--check")
        self.succeed("enqueue", "--topic", "a", "--payload", "1")
        result = self.run_cli("status", "--check", "--max-age", "0s", "--max-pending", "0", "--json")
        self.assertEqual(4, result.code, result)
        self.assertEqual(["no-relay", "backlog", "late"], [alert["alert"] for alert in result.json["alerts"]])

    def test_json_has_every_field(self):
        self.embedded()
        self.succeed("run", "--once")
        status = self.succeed("status", "--json").json
        self.assertEqual({"store", "where", "schema_version", "now", "events", "destinations", "relays", "relays_not_shown",
                          "projections", "alerts"}, set(status))
        self.assertEqual({"name", "paused", "undelivered", "blocked_keys", "attempts_most", "pending", "oldest_pending", "oldest_pending_age_seconds", "last_settled",
                          "settled_last_minute", "shards", "shards_owned"}, set(status["destinations"][0]))

    def test_relays_that_died_long_ago_are_only_counted(self):
        self.embedded()
        self.succeed("run", "--once")
        with sqlite3.connect(self.folder / "test.db-waybill") as state:
            state.execute("INSERT INTO relay (one, id, name, last_seen, lease_ms, destinations) "
                          "VALUES (1, 'x', 'gone', '2020-01-01T00:00:00.000000Z', 5000, '[\"log\"]')")
        self.assertIn("no relay is at work\n1 relay not seen for 10m; --all shows it\n", self.succeed("status").out)
        status = self.succeed("status", "--json").json
        self.assertEqual(([], 1), (status["relays"], status["relays_not_shown"]))
        self.assertRegex(self.succeed("status", "--all").out, r"\ngone +no +\d+d +0 +log\n")
        status = self.succeed("status", "--all", "--json").json
        self.assertEqual((["gone"], 0), ([relay["name"] for relay in status["relays"]], status["relays_not_shown"]))

    def test_limits_come_from_the_configuration_unless_a_flag_says_otherwise(self):
        self.embedded()
        self.succeed("run", "--once")
        self.succeed("enqueue", stdin='{"topic":"a","payload":1}\n' * 3)

        def names(*args):
            alerts = self.run_cli("status", "--json", *args).json["alerts"]
            return [alert["alert"] for alert in alerts if alert["alert"] != "no-relay"]

        self.assertEqual([], names())
        self.assertEqual(["backlog"], names("--set", "alerts.pending_max=2"))
        self.assertEqual([], names("--set", "alerts.pending_max=2", "--max-pending", "3"))
        self.assertEqual(["late"], names("--set", "alerts.age_max=0s"))
        self.assertEqual(["lag"], names("--set", "alerts.lag_max=0s"))

    def test_wrong_limit(self):
        self.assertIn("--max-age 'x' is no duration", self.refused("status", "--max-age", "x"))

    def coloured(self, env):
        master, slave = pty.openpty()
        self.run_cli("status", stdout=slave, env=env)
        os.close(slave)
        shown = os.read(master, 65536)
        os.close(master)
        return b"\x1b[" in shown

    def test_colour_only_on_a_terminal_that_wants_it(self):
        self.embedded()
        self.succeed("enqueue", "--topic", "a", "--payload", "1")
        self.assertTrue(self.coloured({}))
        self.assertFalse(self.coloured({"NO_COLOR": "1"}))
        self.assertNotIn("\x1b", self.succeed("status").out)


class EventsTest(CliTest):
    def setUp(self):
        super().setUp()
        self.embedded()
        lines = [{"topic": f"t.{i % 2}", "type": f"T{i}", "tenant": "x" if i == 3 else "default",
                  "aggregate_type": "order", "aggregate_id": f"o-{i}", "payload": {"canary": i}} for i in range(5)]
        self.ids = self.succeed("enqueue", stdin="".join(json.dumps(line) + "\n" for line in lines)).out.split()

    def types(self, *args):
        return [event["type"] for event in self.succeed("events", "list", "--json", *args).json["events"]]

    def test_filters(self):
        self.assertEqual(["T4", "T3", "T2", "T1", "T0"], self.types())
        self.assertEqual(["T3", "T1"], self.types("--topic", "t.1"))
        self.assertEqual(["T4", "T3", "T2", "T1", "T0"], self.types("--topic", "t.*"))
        self.assertEqual(["T2"], self.types("--type", "T2"))
        self.assertEqual(["T3"], self.types("--tenant", "x"))
        self.assertEqual(["T1"], self.types("--aggregate", "order/o-1"))
        self.assertEqual([], self.types("--until", "1h"))
        self.assertEqual(5, len(self.types("--since", "1h")))
        self.assertEqual([], self.types("--since", "2100-01-01T00:00:00Z"))

    def test_pages(self):
        first = self.succeed("events", "list", "--json", "--limit", "2").json
        self.assertEqual(["T4", "T3"], [event["type"] for event in first["events"]])
        self.assertEqual(["T2", "T1"], self.types("--limit", "2", "--before", str(first["next_before"])))
        self.assertIsNone(self.succeed("events", "list", "--json", "--limit", "9").json["next_before"])

    def test_payloads_only_when_asked_for(self):
        for args in [["list"], ["list", "--json"], ["list", "--jsonl"], ["show", self.ids[0]],
                     ["show", self.ids[0], "--json"]]:
            self.assertNotIn("canary", self.succeed("events", *args).out)
        for args in [["list", "--json"], ["list", "--jsonl"], ["show", self.ids[0]], ["show", self.ids[0], "--json"]]:
            self.assertIn("canary", self.succeed("events", *args, "--payload").out)

    def test_the_story_of_an_event(self):
        def state():
            story = self.succeed("events", "show", self.ids[2], "--json").json
            self.assertEqual("T2", story["event"]["type"])
            return [(at["destination"], at["state"], at["settled_at"] is not None) for at in story["destinations"]]

        self.succeed("run", "--once")
        self.assertEqual([("log", "published", True)], state())
        self.assertRegex(self.succeed("events", "show", self.ids[2]).out, r"written\n.* published at log\n")

    def test_wrong_input(self):
        self.assertIn("'7' is no event id", self.refused("events", "show", "7"))
        self.assertIn("no event 018f3c1e", self.refused("events", "show", "018f3c1e-7b1a-7c3d-9e2f-0123456789ab", code=1))
        self.assertIn("--since 'x' is no time", self.refused("events", "list", "--since", "x"))
        self.assertIn("must read TYPE/ID", self.refused("events", "list", "--aggregate", "x"))

    def test_what_the_rules_skip(self):
        self.embedded('[destinations.log]\ntype = "file"\npath = "out.jsonl"\nmatch = { topic = "t.0" }\n'
                      '[destinations.all]\ntype = "file"\npath = "all.jsonl"\n'
                      '[destinations.late]\ntype = "file"\npath = "late.jsonl"\nstart = "now"\n')
        self.assertRegex(self.succeed("events", "list").out, rf"\d+s +{self.ids[4]} +t.0 +default +order/o-4 +pending\n")
        self.succeed("run", "--once")
        self.assertEqual([self.ids[0], self.ids[2], self.ids[4]],
                         [json.loads(line)["id"] for line in (self.folder / "out.jsonl").read_text().splitlines()])
        events = self.succeed("events", "list", "--json").json["events"]
        self.assertEqual([{"all": "published", "late": "skipped", "log": log}
                          for log in ["published", "skipped", "published", "skipped", "published"]],
                         [event["states"] for event in events])
        self.assertRegex(self.succeed("events", "list").out, self.ids[1] + r" .* 1 published…\n")
        self.assertRegex(self.succeed("events", "list", env={"COLUMNS": "99"}).out,
                         self.ids[1] + r" .* 1 published, 2 skipped\n")
        shown = self.succeed("events", "show", self.ids[1]).out
        self.assertRegex(shown, r"skipped at log\n +topic 't.1' is none of 't.0' \(rules since 20\S+\)\n")
        self.assertRegex(shown, r"skipped at late\n +the destination began after it \(start = \"now\"\)\n")
        story = self.succeed("events", "show", self.ids[1], "--json").json
        skipped = {at["destination"]: at["skipped"] for at in story["destinations"]}
        self.assertIsNone(skipped["all"])
        self.assertEqual(({"topic": ["t.0"]}, "topic 't.1' is none of 't.0'"),
                         (skipped["log"]["match"], skipped["log"]["why"].split(" (")[0]))
        self.assertEqual((None, None), (skipped["late"]["match"], skipped["late"]["since"]))

    def test_security9_what_would_move_a_terminal_is_shown_harmlessly(self):
        with sqlite3.connect(self.folder / "test.db") as database:
            database.execute("INSERT INTO waybill_event (topic, payload) VALUES (?, '1')", ("a\x1b[31mb",))
        self.assertNotIn("\x1b", self.succeed("events", "list").out)


class DoctorTest(CliTest):
    def test_alerts_are_problems(self):
        self.embedded()
        self.succeed("enqueue", "--topic", "a", "--payload", "1")
        result = self.run_cli("doctor")
        self.assertEqual(4, result.code, result)
        self.assertIn("problem  alert no-relay: log: no relay has ever served it, and there are events\n", result.out)

    def test_a_healthy_store(self):
        self.embedded()
        report = self.succeed("doctor", "--json").json
        self.assertTrue(report["healthy"])
        self.assertEqual({"level", "what", "text", "remedy"}, set(report["findings"][0]))

    def test_what_is_in_the_store_but_not_in_the_configuration(self):
        self.embedded()
        self.succeed("run", "--once")
        self.write("waybill.toml", 'store = "sqlite:test.db"\n')
        result = self.succeed("doctor")
        self.assertIn("none is configured", result.out)
        self.assertIn("'log' is in the store but not in this configuration", result.out)

    def test_migrate_prints_sql(self):
        self.write("waybill.toml", 'store = "sqlite:test.db"\n')
        self.assertIn("CREATE TABLE", self.succeed("migrate", "--print").out)
        self.assertEqual(["waybill.toml"], os.listdir(self.folder))


if __name__ == "__main__":
    unittest.main()
