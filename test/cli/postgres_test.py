import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request

from processes import Postgres, free_port
from service_test import Service
from waybill_cli import BINARY, CliTest

LOG = '[destinations.log]\ntype = "file"\npath = "out.jsonl"\n'


def forward(test, from_port, to_port):
    """From now on, connections to one port lead to the other."""
    def copy(source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def accept():
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", to_port))
            test.addCleanup(near.close)
            test.addCleanup(far.close)
            for pair in [(near, far), (far, near)]:
                threading.Thread(target=copy, args=pair, daemon=True).start()

    listener = socket.create_server(("127.0.0.1", from_port))
    test.addCleanup(listener.close)
    threading.Thread(target=accept, daemon=True).start()


class PostgresTest(CliTest):
    """One server for all; a database for each test."""

    databases = 0

    @classmethod
    def setUpClass(cls):
        folder = tempfile.mkdtemp(prefix="waybill-cli-pg-")
        cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
        cls.server = Postgres(folder, "clinic", lazy=False)
        cls.addClassCleanup(cls.server.crash)

    def setUp(self):
        super().setUp()
        PostgresTest.databases += 1
        self.database = f"t{PostgresTest.databases}"
        self.server.psql("postgres", "-c", f"CREATE DATABASE {self.database}")
        self.configure()

    def url(self, user="postgres", database=None, port=None, password=None):
        secret = f":{password}" if password else ""
        return f"postgresql://{user}{secret}@127.0.0.1:{port or self.server.port}/{database or self.database}"

    def configure(self, url=None, more=LOG):
        self.write("waybill.toml", f'store = "{url or self.url()}"\n{more}')

    def sql(self, text):
        self.server.psql(self.database, "-c", text)


class PathTest(PostgresTest):
    def test_from_migrate_to_delivered(self):
        self.assertIn("the tables are not there; run 'waybill migrate'", self.refused("status"))
        self.assertIn("the tables are not there", self.refused("run", "--once"))
        self.succeed("migrate")
        self.assertIn("nothing to do", self.succeed("migrate").err)
        payload = '{ "x" : 1.0, "x":"\\u00e9" }'
        line = '{"topic":"order.paid","aggregate_type":"order","aggregate_id":"o-7","payload":%s}\n' % payload
        ids = self.succeed("enqueue", stdin=line * 3).out.split()
        self.sql("INSERT INTO waybill.event (topic, payload) VALUES ('plain', '1')")
        result = self.run_cli("status", "--check")
        self.assertEqual(4, result.code, result)
        self.succeed("run", "--once")
        lines = (self.folder / "out.jsonl").read_text().splitlines()
        self.assertEqual(4, len(lines))
        self.assertEqual(ids, [json.loads(text)["id"] for text in lines if "order.paid" in text])
        self.assertEqual(3, sum(f'"payload":{payload}}}' in text for text in lines))
        self.succeed("status", "--check")
        story = self.succeed("events", "show", ids[0], "--json").json
        self.assertEqual([("log", "published")], [(at["destination"], at["state"]) for at in story["destinations"]])
        self.assertEqual(4, len(self.succeed("events", "list", "--json").json["events"]))
        self.assertTrue(self.succeed("doctor", "--json").json["healthy"])

    def test_run_migrates_when_told_to(self):
        self.succeed("run", "--once", "--migrate")
        self.assertEqual("postgresql", self.succeed("status", "--json").json["store"])

    def test_migrate_prints_what_it_would_do(self):
        sql = self.succeed("migrate", "--print").out
        self.assertIn("CREATE SCHEMA", sql)
        self.write("print.sql", sql)
        self.server.psql(self.database, "-f", str(self.folder / "print.sql"))
        self.assertIn("nothing to do", self.succeed("migrate").err)

    def test_a_wrong_line_leaves_nothing(self):
        self.succeed("migrate")
        good = '{"topic":"a","payload":1}\n'
        self.assertIn("line 2001", self.refused("enqueue", stdin=good * 2000 + "x\n"))
        self.assertEqual([], self.succeed("events", "list", "--json").json["events"])

    def test_a_signal_stops_the_relay(self):
        self.succeed("migrate")
        process = subprocess.Popen([BINARY, "run"], cwd=self.folder, env=self.environment(), stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        while b"relay started" not in process.stderr.readline():
            self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
        self.assertEqual(0, process.returncode)


class OperatorTest(PostgresTest):
    def setUp(self):
        super().setUp()
        self.succeed("migrate")

    def let_fail(self, *topics, destination="log", **members):
        return super().let_fail(*topics, destination=destination, store=self.url(), **members)

    def states(self, *ids):
        stories = [self.succeed("events", "show", event, "--json").json for event in ids]
        return [at["state"] for story in stories for at in story["destinations"]]

    def arrived(self):
        path = self.folder / "out.jsonl"
        return [json.loads(line)["id"] for line in path.read_text().splitlines()] if path.exists() else []

    def test_dead_letters_from_burial_to_delivery(self):
        dead, held, other, fine = ids = self.let_fail("dead.a", "held.b", "dead.c", "ok")
        self.assertEqual(["dead", "held", "dead", "published"], self.states(*ids))
        self.assertEqual([other, held, dead],
                         [item["event"]["id"] for item in self.succeed("dead", "list", "--json").json["events"]])
        [attempt] = self.succeed("dead", "show", dead, "--json").json["destinations"][0]["attempts"]
        self.assertEqual((1, "rejected", "no such exchange 'clinic'"),
                         (attempt["number"], attempt["outcome"], attempt["error"]))
        self.assertEqual("would redrive 2 dead letters of 'log'\n",
                         self.succeed("dead", "redrive", "--error", "exchange", "--dry-run").out)
        self.succeed("dead", "edit", dead, "--payload", '{ "mended" : 1.0 }')
        self.succeed("dead", "dismiss", other, "--yes")
        self.assertEqual(1, self.succeed("dead", "redrive", "--all", "--yes", "--json").json["changed"])
        self.succeed("run", "--once")
        self.assertEqual([dead], self.arrived())
        self.assertIn('"payload":{ "mended" : 1.0 }', (self.folder / "out.jsonl").read_text())
        self.assertEqual(["held", "dismissed", "published"], self.states(held, other, fine))
        self.assertEqual(["redrive", "dismiss", "edit"],
                         [operation["kind"] for operation in self.succeed("operations", "--json").json["operations"]])

    def test_row81_an_operation_goes_on_and_touches_nothing_twice(self):
        self.let_fail("dead.a", "dead.b")
        first = self.succeed("dead", "redrive", "--topic", "dead.a", "--yes", "--json").json["operation"]
        self.relay_moodily("log", self.url())  # It dies again.
        again = self.succeed("dead", "redrive", "--yes", "--json", "--operation", first)
        self.assertEqual(0, again.json["changed"])
        self.assertEqual(2, len(self.succeed("dead", "list", "--json").json["events"]))
        self.assertIn("--topic was 'dead.a', is not given",
                      self.refused("dead", "redrive", "--all", "--yes", "--operation", first))
        self.assertIn(f"operation {first} is no dismiss but a redrive of 'log'",
                      self.refused("dead", "dismiss", "--topic", "dead.a", "--yes", "--operation", first))

    def test_a_large_payload_is_shown_and_edited(self):
        [event] = self.let_fail("dead.a", payload="x" * 300_000)
        for command in [["dead", "show", event], ["events", "show", event]]:
            self.assertIn("x" * 300_000, self.succeed(*command, "--payload").out)
        for command in [["dead", "list"], ["events", "list"], ["events", "list", "--standing", "dead"]]:
            for style in ["--json", "--jsonl"]:
                self.assertIn('"payload":"' + "x" * 300_000, self.succeed(*command, "--payload", style).out)
        env = {"EDITOR": "sed -i s/xx/mended/", "TMPDIR": str(self.folder)}
        code, shown = self.on_a_terminal("dead", "edit", event, env=env)
        self.assertEqual(0, code, shown)
        [item] = self.succeed("dead", "list", "--json", "--payload").json["events"]
        self.assertEqual("x" * 300_000, item["event"]["payload"])
        self.assertEqual("mended" + "x" * 299_998, item["edit"]["payload"])
        self.assertIn("payload edited for log, sent instead:\n\"mendedx",
                      self.succeed("dead", "show", event, "--payload").out)
        self.succeed("dead", "redrive", event, "--yes")
        self.succeed("run", "--once")
        self.assertIn('"mendedxx', (self.folder / "out.jsonl").read_text())

    def test_a_destination_that_is_away(self):
        self.configure(more='listen = "off"\n[destinations.full]\ntype = "file"\npath = "/dev/full"\n')
        process = subprocess.Popen([BINARY, "run"], cwd=self.folder, env=self.environment(), stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.succeed("enqueue", "--topic", "a", "--payload", "1")
        deadline = time.monotonic() + 60
        alerts = []
        while not alerts and time.monotonic() < deadline:
            status = self.succeed("status", "--json").json
            alerts = [alert for alert in status["alerts"] if alert["alert"] == "away"]
        self.assertEqual(["full"], [alert["destination"] for alert in alerts])
        [trouble] = status["relays"][0]["troubles"]
        self.assertEqual("full", trouble["destination"])
        self.assertIn("waits for it: " + trouble["text"], self.succeed("status").out)

    def run_with_match(self, topic):
        """A relay with these rules, until the test ends; returns when it has said so."""
        self.configure(more=f'listen = "off"\nname = "{topic}"\n{LOG}match = {{ topic = "{topic}" }}\n')
        process = subprocess.Popen([BINARY, "run"], cwd=self.folder, env=self.environment(), stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        deadline = time.monotonic() + 60
        while topic not in [relay["name"] for relay in self.succeed("status", "--json").json["relays"]]:
            self.assertLess(time.monotonic(), deadline)

    def test_relays_that_disagree_about_the_rules(self):
        self.run_with_match("old.*")
        self.run_with_match("new.*")
        result = self.run_cli("status", "--check", "--json")
        [alert] = [alert for alert in result.json["alerts"] if alert["alert"] == "rules"]
        self.assertEqual((4, "log"), (result.code, alert["destination"]))
        self.assertIn("relay new.* by topic 'new.*'; relay old.* by topic 'old.*'", alert["text"])
        self.assertEqual({"new.*": {"log": {"topic": ["new.*"]}}, "old.*": {"log": {"topic": ["old.*"]}}},
                         {relay["name"]: relay["rules"] for relay in result.json["relays"]})
        doctor = self.run_cli("doctor")
        self.assertEqual(4, doctor.code, doctor)
        self.assertIn("problem  alert rules: log: live relays disagree", doctor.out)
        self.assertIn("warning  log: rules: relay old.* sends it topic 'old.*'; this configuration says topic 'new.*'\n",
                      doctor.out)

    def test_blocked_keys_and_status(self):
        first, *_ = self.let_fail("retry.a", "retry.b", key="k")
        [key] = self.succeed("blocked", "--json").json["keys"]
        self.assertEqual(("log", "k", 2, first, "retrying", "not now"),
                         (key["destination"], key["key"], key["events"]["value"], key["first"], key["standing"], key["error"]))
        [at] = self.succeed("status", "--json").json["destinations"]
        self.assertEqual((1, 1, 1), (at["undelivered"]["retrying"]["value"], at["undelivered"]["blocked"]["value"],
                                     at["blocked_keys"]["value"]))
        self.assertEqual(1, len(self.succeed("events", "list", "--standing", "blocked", "--json").json["events"]))

    def test_pause_rewind_forget(self):
        ids = self.succeed("enqueue", stdin='{"topic":"a","key":"k","payload":1}\n' * 3).out.split()
        self.succeed("run", "--once")
        self.assertEqual(ids, self.arrived())
        self.succeed("pause", "log")
        self.assertTrue(self.succeed("destinations", "list", "--json").json["destinations"][0]["paused"])
        self.succeed("resume", "log")
        self.assertIn("add --yes to do it", self.refused("rewind", "log", "--beginning"))
        self.assertIn("did you mean 'log'?", self.refused("rewind", "lgo", "--beginning"))
        self.succeed("rewind", "log", "--beginning", "--yes")
        self.succeed("run", "--once")
        self.assertEqual(ids + ids, self.arrived())
        self.succeed("destinations", "forget", "log", "--yes")
        self.assertEqual([], self.succeed("destinations", "list", "--json").json["destinations"])
        self.assertEqual(["forget", "rewind", "resume", "pause"],
                         [operation["kind"] for operation in self.succeed("operations", "--json").json["operations"]])

    def test_upkeep(self):
        self.succeed("enqueue", "--topic", "a", "--payload", "1")
        self.succeed("run", "--once")
        self.assertEqual(0, self.succeed("clean", "--json").json["events"]["value"])
        self.assertFalse(self.succeed("anchor", "--dry-run", "--json").json["needed"])


class RolesTest(PostgresTest):
    ROLES = {"enqueue": [["enqueue", "--topic", "a", "--payload", "1"]],
             "relay": [["run", "--once"]],
             "operator": [["pause", "log"], ["resume", "log"], ["dead", "redrive", "--all", "--yes"], ["clean"],
                          ["rewind", "log", "--beginning", "--yes"]],
             "reader": [["status"], ["events", "list"], ["blocked"], ["destinations", "list"]]}

    def setUp(self):
        super().setUp()
        self.succeed("migrate")

    def log_in(self, *roles, more=""):
        """As a user with these roles and nothing else."""
        user = f"{'_'.join(roles) or 'guest'}_{self.database}"
        self.sql(f"CREATE ROLE {user} LOGIN {more}" + "".join(f"; GRANT waybill_{role} TO {user}" for role in roles))
        self.configure(self.url(user=user))
        return user

    def test_each_role_is_enough_for_its_commands(self):
        for role, commands in self.ROLES.items():
            self.log_in(role)
            for command in commands:
                with self.subTest(command):
                    self.succeed(*command)
        self.succeed("operations")  # Reading is enough.
        self.assertEqual(1, len((self.folder / "out.jsonl").read_text().splitlines()))

    def said(self, *command):
        """Refused; 'run' has logged something before."""
        result = self.run_cli(*command)
        self.assertEqual((2, ""), (result.code, result.out), result)
        return result.err

    def test_a_refusal_names_the_role_that_is_missing(self):
        self.succeed("run", "--once")
        user = self.log_in()
        for role, commands in self.ROLES.items():
            for command in commands:
                with self.subTest(command):
                    self.assertIn(f"this takes the role waybill_{role}: GRANT waybill_{role} TO {user}",
                                  self.said(*command))
        for command in [["migrate"], ["anchor"]]:
            with self.subTest(command):
                self.assertIn("only the owner of schema 'waybill' may do this: log in as postgres", self.refused(*command))
        result = self.run_cli("doctor")
        self.assertEqual(4, result.code)
        self.assertIn(f"GRANT waybill_reader TO {user}", result.out)

    def test_another_role_is_not_enough(self):
        self.succeed("run", "--once")
        user = self.log_in("reader")
        for role, command in [("operator", ["pause", "log"]), ("relay", ["run", "--once"])]:
            self.assertIn(f"GRANT waybill_{role} TO {user}", self.said(*command))
        self.assertIn("waybill_enqueue", self.refused("enqueue", "--topic", "a", "--payload", "1"))

    def test_the_advice_is_never_to_grant_what_was_granted(self):
        user = self.log_in("relay", more="NOINHERIT")
        self.assertIn(f"user {user} has the role waybill_relay but does not inherit its rights", self.said("run", "--once"))
        user = self.log_in("reader")
        self.sql("REVOKE SELECT ON waybill.lease FROM waybill_reader")
        self.assertIn(f"user {user} has the role waybill_reader, but the role lacks this right: run 'waybill migrate' as "
                      "postgres", self.refused("status"))
        self.configure()
        self.succeed("migrate")
        self.configure(self.url(user=user))
        self.succeed("status")

    def test_an_owner_who_may_not_make_the_tables(self):
        self.server.psql("postgres", "-c", f"CREATE DATABASE other_{self.database}")
        user = self.log_in()
        self.configure(self.url(user=user, database=f"other_{self.database}"))
        self.assertIn(f"GRANT CREATE ON DATABASE other_{self.database} TO {user}", self.refused("migrate"))


class TroubleTest(PostgresTest):
    def test_a_server_that_is_gone(self):
        self.configure(self.url(port=free_port(), password="canary"))
        for command in [["status"], ["events", "list"], ["migrate"], ["run", "--no-wait", "--set", "listen=off"], ["enqueue", "--topic", "a", "--payload", "1"],
                        ["dead", "list"], ["dead", "redrive", "--all", "--yes"], ["blocked"], ["pause", "log"],
                        ["operations"], ["clean"], ["anchor"]]:
            with self.subTest(command):
                said = self.refused(*command, code=3)
                self.assertIn("127.0.0.1", said)
                self.assertNotIn("canary", said)
        result = self.run_cli("doctor")
        self.assertEqual(4, result.code, result)
        self.assertNotIn("canary", result.out + result.err)

    def test_once_waits_for_the_store_until_its_time_is_over(self):
        self.configure(self.url(port=free_port()))
        result = self.run_cli("run", "--once", "--timeout", "300ms")
        self.assertEqual(3, result.code, result)
        self.assertIn("the store is away; will try again", result.err)
        self.assertIn("the store was away until --timeout 300ms; nothing was delivered", result.err)

    def test_run_waits_for_the_store_at_its_start(self):
        self.succeed("migrate")
        port = free_port()
        self.configure(self.url(port=port))
        systemd = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(systemd.close)
        systemd.bind(str(self.folder / "notify"))
        systemd.settimeout(20)
        process = subprocess.Popen([BINARY, "run", "--set", "listen=127.0.0.1:0"], cwd=self.folder, text=True,
                                   env=self.environment({"NOTIFY_SOCKET": str(self.folder / "notify")}),
                                   stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        self.addCleanup(process.stderr.close)
        said = self.read_until(process, "serving metrics")
        url = re.search(r"http://127\.0\.0\.1:\d+/", said).group(0)
        self.read_until(process, "the store is away; will try again")
        told = systemd.recv(4096).decode()
        self.assertIn("STATUS=waiting for the store: ", told)
        self.assertIn("EXTEND_TIMEOUT_USEC=", told)
        self.assertNotIn("READY", told)
        with urllib.request.urlopen(url + "livez", timeout=10) as reply:
            self.assertEqual(200, reply.status)
        forward(self, port, self.server.port)
        self.read_until(process, "the store is back")
        self.read_until(process, "relay started")
        while "READY=1" not in told:
            told = systemd.recv(4096).decode()
        process.send_signal(signal.SIGTERM)
        self.assertEqual(0, process.wait(20))

    def test_a_run_that_waits_for_the_store_can_be_stopped(self):
        self.configure(self.url(port=free_port()))
        process = subprocess.Popen([BINARY, "run", "--set", "listen=off"], cwd=self.folder, env=self.environment(),
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        self.addCleanup(process.stderr.close)
        self.read_until(process, "the store is away; will try again")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(0, process.wait(20))

    def test_run_does_not_wait_for_what_waiting_does_not_mend(self):
        self.configure(self.url(database="nowhere"))
        self.assertIn('"nowhere" does not exist', self.run_cli("run", "--set", "listen=off").err)
        self.assertEqual(2, self.run_cli("run", "--set", "listen=off").code)

    def read_until(self, process, text):
        """The next line with this text."""
        for line in process.stderr:
            if text in line:
                return line
        return self.fail(f"never said: {text}")

    def test_a_host_that_is_none(self):
        self.configure("postgresql://relay@no-such-host.invalid/x")
        self.assertIn("no-such-host.invalid", self.refused("status", code=3))

    def test_a_database_or_user_that_is_none(self):
        self.configure(self.url(database="nowhere"))
        self.assertIn('"nowhere" does not exist', self.refused("status"))
        self.configure(self.url(user="nobody"))
        self.assertIn('"nobody" does not exist', self.refused("status"))

    def test_a_url_that_is_none(self):
        self.configure("postgresql://relay@db/x?colour=red")
        self.assertIn("colour", self.refused("status"))

    def test_a_schema_of_that_name_which_is_not_ours(self):
        self.sql("CREATE SCHEMA waybill")
        self.sql("CREATE TABLE waybill.event (mine int)")
        self.assertIn("waybill", self.refused("status"))


class ReloadTest(PostgresTest):
    def wait_for_lines(self, count):
        deadline = time.monotonic() + 10
        while len((self.folder / "out.jsonl").read_text().splitlines()) < count:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def test_row85_a_hanging_destination_keeps_no_other_waiting(self):
        os.mkfifo(self.folder / "pipe")
        pipe = os.open(self.folder / "pipe", os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, pipe)
        self.configure(more='grace = "60s"\n' + LOG + '[destinations.stuck]\ntype = "file"\npath = "pipe"\n')
        self.succeed("migrate")
        service = Service(self)
        self.succeed("enqueue", "--topic", "a", "--payload", '"' + "x" * 120_000 + '"')  # More than a pipe holds.
        select.select([pipe], [], [], 20)
        service.signal(signal.SIGHUP)
        service.wait_for_line("the new configuration holds")
        service.wait_for_line("relay started")
        self.succeed("enqueue", "--topic", "a", "--payload", "2")
        self.wait_for_lines(2)
        self.assertFalse(any("relay stopped" in line for line in service.lines))
        for payload in [3, 4]:  # However often it is reloaded.
            service.signal(signal.SIGHUP)
            service.wait_for_line("the new configuration holds")
            self.succeed("enqueue", "--topic", "a", "--payload", str(payload))
            self.wait_for_lines(payload)
        # What is read now was written by the one that leaves; the other one goes on after it.
        lines = []
        text = b""
        while len(lines) < 4:
            select.select([pipe], [], [], 20)
            text += os.read(pipe, 1 << 20)
            lines = [line for line in text.split(b"\n")[:-1] if line]
        first, *others = [json.loads(line)["payload"] for line in lines]
        self.assertEqual("x" * 120_000, first)
        self.assertEqual([2, 3, 4], sorted(others))
        service.wait_for_line("relay stopped")
        service.stop()


if __name__ == "__main__":
    unittest.main()
