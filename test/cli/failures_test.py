import json
import random
import subprocess
import time
import unittest

from postgres_test import LOG, PostgresTest
from waybill_cli import BINARY

BIN = "/usr/lib/postgresql/15/bin/"


class PoisonTest(PostgresTest):
    """Rows that an application can write and should not."""

    STRANGE_JSON = ['"\\u0000"', '"\\ud800"', '"\\ud800\\udc00"', "1e400", "-0", "1" * 400, '{"a":1,"a":2}', '{"":{}}',
                    ' [ 1 ,\n\t2 ] ', "[" * 300 + "]" * 300, '"' + "x" * 100_000 + '"', '"\\/\\b\\f\\n\\r\\t"', "null",
                    '"\u2028\u2029\ufeff"', '{"id":"x","payload":{}}']
    STRANGE_TEXT = ["", " ", "a\nb", "a\r\nb", '"', "\\", "'", "\x01", "\x7f", "é" * 100, "\u202e", "{}", "x" * 200, "*", "a/b"]

    def rows(self):
        dice = random.Random(80)
        literal = lambda text: "E'" + "".join(f"\\U{ord(c):08x}" for c in text) + "'"
        for _ in range(200):
            kind = dice.randrange(4)
            if kind == 0:
                data = bytes(dice.choice([0, 10, 13, 34, 92, 0x7f, 0x80, 0xc3, 0xff, 65]) for _ in range(dice.randrange(40)))
                yield "payload_bytes, content_type", f"'\\x{data.hex()}', {literal(dice.choice(self.STRANGE_TEXT))}"
            elif kind == 1:
                yield "payload", literal(dice.choice(self.STRANGE_JSON))
            elif kind == 2:
                headers = json.dumps({dice.choice(self.STRANGE_TEXT): dice.choice(self.STRANGE_TEXT)})
                yield "payload, headers", f"'1', {literal(headers)}"
            else:
                yield "payload, type, tenant", f"'1', {literal(dice.choice(self.STRANGE_TEXT))}, " \
                                               f"{literal(dice.choice(self.STRANGE_TEXT))}"

    def test_row80_what_gets_in_comes_out_and_holds_nobody_up(self):
        self.succeed("migrate")
        statements = []
        for number, (columns, values) in enumerate(self.rows()):
            key = f"k{number % 10}"
            statements.append(f"INSERT INTO waybill.event (topic, key, {columns}) VALUES ('poison', '{key}', {values});")
            statements.append(f"INSERT INTO waybill.event (topic, key, payload) VALUES ('good', '{key}', '{number}');")
        written = subprocess.run(["psql", "-X", "-q", self.url()], input="\n".join(statements).encode(),
                                 stderr=subprocess.PIPE, check=True)
        refused = written.stderr.count(b"ERROR:")
        self.assertLess(refused, 150, written.stderr[-2000:])
        self.succeed("run", "--once", timeout=100)
        events = [json.loads(line) for line in (self.folder / "out.jsonl").read_bytes().split(b"\n")[:-1]]
        dead = self.succeed("dead", "list", "--json", "--limit", "1000").json["events"]
        self.assertEqual(200 - refused, len(dead) + sum(event["topic"] == "poison" for event in events))
        for key in range(10):
            self.assertEqual([n for n in range(200) if n % 10 == key],
                             [event["payload"] for event in events
                              if event["topic"] == "good" and event["key"] == f"k{key}"])


class CloneTest(PostgresTest):
    """A copy of the database, and a relay that is pointed at it by mistake or on purpose."""

    def setUp(self):
        super().setUp()
        self.succeed("migrate")
        self.succeed("enqueue", stdin='{"topic":"a","key":"k","payload":1}\n' * 3)
        self.succeed("run", "--once")
        self.ids = self.succeed("enqueue", stdin='{"topic":"b","key":"k","payload":2}\n' * 3).out.split()
        self.sent = (self.folder / "out.jsonl").read_bytes()

    def by_template(self):
        self.server.psql("postgres", "-c", f"CREATE DATABASE {self.database}_copy TEMPLATE {self.database}")

    def by_dump(self):
        self.server.psql("postgres", "-c", f"CREATE DATABASE {self.database}_copy")
        dump = str(self.folder / "dump")
        subprocess.run([BIN + "pg_dump", "-Fc", "-f", dump, self.url()], check=True)
        subprocess.run([BIN + "pg_restore", "--exit-on-error", "-d", self.url(database=self.database + "_copy"), dump],
                       check=True)

    def assert_relay_refuses(self, *flags):
        result = self.run_cli("run", *flags)
        self.assertEqual(2, result.code, result)
        self.assertIn("Nothing is sent; 'waybill anchor --dry-run' shows how to go on", result.err)

    def assert_sends_nothing_by_itself(self):
        self.configure(self.url(database=self.database + "_copy"))
        self.assert_relay_refuses()
        self.assert_relay_refuses("--once")
        self.assertTrue(self.succeed("anchor", "--dry-run", "--json").json["needed"])
        self.assert_relay_refuses("--once")
        self.succeed("anchor", "--yes")
        relay = subprocess.Popen([BINARY, "run"], cwd=self.folder, env=self.environment(), stderr=subprocess.PIPE)
        self.addCleanup(relay.kill)
        while b"relay started" not in relay.stderr.readline():
            self.assertIsNone(relay.poll())
        self.succeed("enqueue", stdin='{"topic":"c","key":"k","payload":3}\n')
        time.sleep(2)  # Nothing tells that nothing happens.
        self.assertEqual(self.sent, (self.folder / "out.jsonl").read_bytes())
        self.succeed("resume", "log")
        deadline = time.monotonic() + 60
        more = []
        while len(more) < 4 and time.monotonic() < deadline:
            time.sleep(0.05)
            lines = (self.folder / "out.jsonl").read_bytes()[len(self.sent):].split(b"\n")[:-1]
            more = [json.loads(line) for line in lines]
        relay.terminate()
        relay.communicate(timeout=60)
        self.assertEqual(self.ids, [event["id"] for event in more[:3]])
        self.assertEqual([2, 2, 2, 3], [event["payload"] for event in more])

    def test_row33_a_copy_by_template(self):
        self.by_template()
        self.assert_sends_nothing_by_itself()

    def test_row33_a_copy_by_dump_and_restore(self):
        self.by_dump()
        self.assert_sends_nothing_by_itself()


if __name__ == "__main__":
    unittest.main()
