import json
import shutil
import signal
import sqlite3
import subprocess
import time
import unittest

from waybill_cli import BINARY, CliTest

NOWHERE = "018f3c1e-7b1a-7c3d-9e2f-0123456789ab"
EVENTS = '[destinations.events]\ntype = "file"\npath = "out.jsonl"\n'
MAIL = '[destinations.mail]\ntype = "file"\npath = "mail.jsonl"\n'


class OperatorCase(CliTest):
    def setUp(self):
        super().setUp()
        self.embedded(EVENTS)

    def enqueue(self, count=1):
        return self.succeed("enqueue", stdin='{"topic":"a","payload":1}\n' * count).out.split()

    def arrived(self):
        path = self.folder / "out.jsonl"
        return [json.loads(line)["id"] for line in path.read_text().splitlines()] if path.exists() else []

    def operations(self):
        return [(operation["kind"], operation["destination"], operation["events"])
                for operation in self.succeed("operations", "--json").json["operations"]]

    def start(self):
        process = subprocess.Popen([BINARY, "run"], cwd=self.folder, env=self.environment(), stderr=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        while b"relay started" not in process.stderr.readline():
            self.assertIsNone(process.poll())
        return process

    def wait_until(self, condition):
        deadline = time.monotonic() + 20
        while not condition():
            self.assertLess(time.monotonic(), deadline, "it never came to that")
            time.sleep(0.02)


class PauseTest(OperatorCase):
    def paused(self):
        return [at["name"] for at in self.succeed("status", "--json").json["destinations"] if at["paused"]]

    def check(self):
        result = self.run_cli("status", "--check", "--json")
        return result.code, [alert["alert"] for alert in result.json["alerts"]]

    def test_nothing_goes_until_it_is_resumed(self):
        self.succeed("run", "--once")
        self.assertEqual("would pause 'events'\n", self.succeed("pause", "events", "--dry-run").out)
        self.assertEqual([], self.paused())
        self.assertIn("'events' is paused; events wait for 'waybill resume events'", self.succeed("pause", "events").err)
        self.assertEqual(["events"], self.paused())
        ids = self.enqueue()
        process = self.start()
        self.wait_until(lambda: self.check() == (4, ["paused"]))  # "no-relay" until its first heartbeat
        self.succeed("status", "--check", "--set", "alerts.paused=false")
        time.sleep(0.5)
        self.assertEqual([], self.arrived())
        done = self.succeed("resume", "events", "--json", "--by", "ada").json
        self.assertEqual(("resume", "events", False), (done["kind"], done["destination"], done["dry_run"]))
        self.wait_until(lambda: self.arrived() == ids)
        process.send_signal(signal.SIGTERM)
        process.wait(20)
        self.assertEqual([("resume", "events", 0), ("pause", "events", 0)], self.operations())

    def test_only_what_the_store_knows(self):
        for verb in ["pause", "resume"]:
            self.assertIn("it has none before a relay has run", self.refused(verb, "events"))
        self.succeed("run", "--once")
        for verb in ["pause", "resume"]:
            self.assertIn("the store knows no destination 'event'; did you mean 'events'?", self.refused(verb, "event"))


class RewindTest(OperatorCase):
    def setUp(self):
        super().setUp()
        self.ids = self.enqueue(3)
        self.succeed("run", "--once")

    def test_preview_then_rewind(self):
        self.assertEqual("would rewind 'events', so that about 3 events are sent again\n",
                         self.succeed("rewind", "events", "--beginning", "--dry-run").out)
        self.assertEqual({"kind": "rewind", "operation": None, "destination": "events", "dry_run": True,
                          "events": {"value": 2, "exact": True}},
                         self.succeed("rewind", "events", "--event", self.ids[1], "--dry-run", "--json").json)
        self.assertIn("add --yes to do it", self.refused("rewind", "events", "--beginning"))
        self.succeed("run", "--once")
        self.assertEqual(self.ids, self.arrived())
        self.succeed("rewind", "events", "--event", self.ids[1], "--yes")
        self.succeed("run", "--once")
        self.assertEqual(self.ids + self.ids[1:], self.arrived())
        self.assertEqual(3, self.succeed("rewind", "events", "--to", "1h", "--yes", "--json").json["events"]["value"])
        self.succeed("run", "--once")
        self.assertEqual(self.ids + self.ids[1:] + self.ids, self.arrived())
        self.assertEqual([("rewind", "events", 3), ("rewind", "events", 2)], self.operations())

    def test_asks_on_a_terminal(self):
        code, shown = self.on_a_terminal("rewind", "events", "--beginning", typed="n\n")
        self.assertEqual(1, code, shown)
        self.assertIn("rewind 'events', so that about 3 events are sent again? [y/N]", shown)
        code, shown = self.on_a_terminal("rewind", "events", "--beginning", typed="yes\n")
        self.assertEqual(0, code, shown)

    def test_wrong_input(self):
        for args, expected in [
            ([], "give one of --to, --event and --beginning"),
            (["--beginning", "--to", "1h"], "give one of --to, --event and --beginning"),
            (["--to", "then"], "--to 'then' is no time"),
            (["--event", "7"], "'7' is no event id"),
            (["--event", NOWHERE], NOWHERE),
        ]:
            with self.subTest(args):
                self.assertIn(expected, self.refused("rewind", "events", "--yes", *args))
        self.assertIn("did you mean 'events'?", self.refused("rewind", "event", "--beginning", "--yes"))
        self.assertEqual([], self.operations())


class DestinationsTest(OperatorCase):
    def names(self):
        return [(at["name"], at["configured"], at["relays"], at["paused"])
                for at in self.succeed("destinations", "list", "--json").json["destinations"]]

    def test_list_and_forget(self):
        self.assertEqual([], self.names())
        self.embedded(EVENTS + MAIL)
        self.succeed("run", "--once")
        self.embedded(EVENTS)
        self.enqueue(2)
        self.assertEqual([("events", True, 0, False), ("mail", False, 0, False)], self.names())
        self.assertRegex(self.succeed("destinations", "list").out, r"mail +no +0 +no +2 ")
        self.assertEqual("would forget 'mail', which would still have been sent 2 events\n",
                         self.succeed("destinations", "forget", "mail", "--dry-run").out)
        self.assertIn("add --yes to do it", self.refused("destinations", "forget", "mail"))
        self.assertEqual(2, len(self.names()))
        done = self.succeed("destinations", "forget", "mail", "--yes", "--json").json
        self.assertEqual(("forget", "mail", 2), (done["kind"], done["destination"], done["events"]["value"]))
        self.assertEqual([("events", True, 0, False)], self.names())
        self.assertEqual([("forget", "mail", 2)], self.operations())
        self.assertIn("known here: events", self.refused("destinations", "forget", "mail", "--yes"))

    def test_what_is_served_is_not_forgotten(self):
        self.start()
        self.wait_until(lambda: self.names() == [("events", True, 1, False)])
        self.assertIn("a relay serves 'events'", self.refused("destinations", "forget", "events", "--yes"))
        self.assertEqual(1, len(self.names()))


class OperationsTest(OperatorCase):
    def test_newest_first_up_to_the_limit(self):
        self.succeed("run", "--once")
        self.assertEqual([], self.operations())
        for verb in ["pause", "resume", "pause"]:
            self.succeed(verb, "events", "--by", "ada")
        self.assertEqual(["pause", "resume"],
                         [at["kind"] for at in self.succeed("operations", "--json", "--limit", "2").json["operations"]])
        [newest, *_] = self.succeed("operations", "--json").json["operations"]
        self.assertEqual({"id", "kind", "by", "destination", "details", "events", "at"}, set(newest))
        self.assertRegex(self.succeed("operations").out, r"^AT +WHAT +DESTINATION +EVENTS +BY\n.* pause +events")


class CleanTest(OperatorCase):
    def setUp(self):
        super().setUp()
        self.enqueue(3)
        self.succeed("run", "--once")

    def age(self):
        with sqlite3.connect(self.folder / "test.db") as database:
            database.execute("UPDATE waybill_event SET created_at = '2020-01-01T00:00:00.000000Z'")
        database.close()

    def left(self):
        return len(self.succeed("events", "list", "--json").json["events"])

    def test_what_is_old_and_delivered_goes(self):
        self.assertEqual("removed 0 events, 0 dead letters, 0 dedup keys, 0 inbox messages, 0 idempotency keys\n",
                         self.succeed("clean").out)
        self.age()
        self.assertEqual("would remove 3 events, 0 dead letters, 0 dedup keys, 0 inbox messages, 0 idempotency keys\n",
                         self.succeed("clean", "--dry-run").out)
        self.assertEqual(3, self.left())
        cleaned = self.succeed("clean", "--json").json
        self.assertEqual({"dry_run", "events", "dead", "dedup", "inbox", "idempotency", "held_back", "more"}, set(cleaned))
        self.assertEqual((3, [], False), (cleaned["events"]["value"], cleaned["held_back"], cleaned["more"]))
        self.assertEqual(0, self.left())

    def test_says_who_holds_the_log_back(self):
        self.embedded(EVENTS + MAIL)
        self.succeed("run", "--once")
        self.enqueue(2)
        self.embedded(EVENTS)
        self.succeed("run", "--once")
        self.age()
        self.assertRegex(self.succeed("clean").out, r"held back: .*mail")
        self.assertEqual(2, self.left())
        alerts = {(alert["destination"], alert["alert"]) for alert in self.succeed("status", "--json").json["alerts"]}
        self.assertIn(("mail", "held-back"), alerts)
        self.succeed("destinations", "forget", "mail", "--yes")
        self.assertEqual(2, self.succeed("clean", "--json").json["events"]["value"])

    def test_an_archive_gets_them_first(self):
        self.age()
        (self.folder / "archive").mkdir()
        self.succeed("clean", "--set", "archive=archive")
        lines = [line for path in (self.folder / "archive").iterdir() for line in path.read_text().splitlines()]
        self.assertEqual(3, len(lines))

    def test_retention_is_a_setting(self):
        self.age()
        self.assertEqual(0, self.succeed("clean", "--json", "--set", "retention=3650d").json["events"]["value"])
        self.assertIn("retention: must be a duration", self.refused("clean", "--set", "retention=x"))

    def test_row84_the_inbox_knows_what_can_be_sent_again(self):
        def kept(*settings):
            flags = [part for setting in settings for part in ("--set", setting)]
            return self.succeed("config", "show", *flags).out
        self.assertIn('retention_inbox = "90d"', kept())
        self.assertIn('retention_inbox = "100d"', kept("retention_dead=100d"))
        self.assertIn('retention_inbox = "off"', kept("retention=off"))
        self.assertIn('retention_inbox = "30d"', kept("retention_dead=30d", "retention_inbox=30d"))
        for settings in (["retention_inbox=89d"], ["retention_inbox=90d", "retention=off"],
                         ["retention_inbox=7d", "retention_dead=1d", "retention=8d"]):
            flags = [part for setting in settings for part in ("--set", setting)]
            self.assertIn("retention_inbox: must not be shorter than retention and retention_dead",
                          self.refused("clean", *flags))

    def test_what_applications_were_kept(self):
        self.age()
        with sqlite3.connect(self.folder / "test.db") as log:
            log.execute("INSERT INTO waybill_inbox VALUES ('t', 'c', 'm', '2020-01-01T00:00:00.000Z')")
            log.execute("INSERT INTO waybill_idempotency (tenant, key, fingerprint, status, content_type, body, expires_at) "
                        "VALUES ('t', 'k', 'f', 200, '', '', '2020-01-01T00:00:00.000Z')")
        log.close()
        cleaned = self.succeed("clean", "--json").json
        self.assertEqual((1, 1), (cleaned["inbox"]["value"], cleaned["idempotency"]["value"]))


class AnchorTest(OperatorCase):
    def test_a_copy_is_trusted_only_when_a_person_says_so(self):
        self.enqueue()
        self.succeed("run", "--once")
        self.assertIn("is the store that relays know; nothing to do", self.succeed("anchor").out)
        for name in ["test.db", "test.db-waybill"]:
            shutil.copy(self.folder / name, self.folder / name.replace("test", "copy"))
        copy = ["--store", "sqlite:copy.db"]
        found = self.succeed("anchor", "--dry-run", "--json", *copy).json
        self.assertEqual({"kind", "operation", "dry_run", "needed", "found", "to_be_sent"}, set(found))
        self.assertEqual((True, None), (found["needed"], found["operation"]))
        self.assertIn("would pause every destination", self.succeed("anchor", "--dry-run", *copy).out)
        self.assertIn("add --yes to do it", self.refused("anchor", *copy))
        self.assertTrue(self.succeed("anchor", "--dry-run", "--json", *copy).json["needed"])
        self.assertIn("its destinations are paused", self.succeed("anchor", "--yes", *copy).err)
        self.assertFalse(self.succeed("anchor", "--dry-run", "--json", *copy).json["needed"])
        [at] = self.succeed("status", "--json", *copy).json["destinations"]
        self.assertTrue(at["paused"])


class NoStoreTest(CliTest):
    def test_tables_that_are_not_there(self):
        self.write("waybill.toml", 'store = "sqlite:test.db"\n' + EVENTS)
        for command in [["dead", "list"], ["dead", "show", NOWHERE], ["dead", "edit", NOWHERE, "--payload", "1"],
                        ["dead", "redrive", "--all", "--yes"], ["dead", "dismiss", "--all", "--yes"], ["blocked"],
                        ["pause", "x"], ["resume", "x"], ["rewind", "x", "--beginning"], ["destinations", "list"],
                        ["destinations", "forget", "x"], ["operations"], ["clean"], ["anchor"]]:
            with self.subTest(command):
                self.assertIn("the tables are not there; run 'waybill migrate'", self.refused(*command))


if __name__ == "__main__":
    unittest.main()
