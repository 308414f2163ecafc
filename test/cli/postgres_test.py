import json
import shutil
import signal
import subprocess
import tempfile
import unittest

from processes import Postgres, free_port
from waybill_cli import BINARY, CliTest

LOG = '[destinations.log]\ntype = "file"\npath = "out.jsonl"\n'


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


class TroubleTest(PostgresTest):
    def test_a_server_that_is_gone(self):
        self.configure(self.url(port=free_port(), password="canary"))
        for command in [["status"], ["events", "list"], ["migrate"], ["run"], ["enqueue", "--topic", "a", "--payload", "1"]]:
            with self.subTest(command):
                said = self.refused(*command, code=3)
                self.assertIn("127.0.0.1", said)
                self.assertNotIn("canary", said)
        result = self.run_cli("doctor")
        self.assertEqual(4, result.code, result)
        self.assertNotIn("canary", result.out + result.err)

    def test_a_host_that_is_none(self):
        self.configure("postgresql://relay@no-such-host.invalid/x")
        self.assertIn("no-such-host.invalid", self.refused("status", code=3))

    def test_a_database_or_user_that_is_none(self):
        self.configure(self.url(database="nowhere"))
        self.assertIn('"nowhere" does not exist', self.refused("status"))
        self.configure(self.url(user="nobody"))
        self.assertIn('"nobody" does not exist', self.refused("status"))

    def test_no_privileges(self):
        self.succeed("migrate")
        self.server.psql("postgres", "-c", f"CREATE ROLE guest_{self.database} LOGIN")
        self.configure(self.url(user=f"guest_{self.database}"))
        for command in [["status"], ["run", "--once"], ["migrate"], ["events", "list"],
                        ["enqueue", "--topic", "a", "--payload", "1"]]:
            with self.subTest(command):
                self.assertIn("permission denied", self.refused(*command))
        self.assertEqual(4, self.run_cli("doctor").code)

    def test_a_url_that_is_none(self):
        self.configure("postgresql://relay@db/x?colour=red")
        self.assertIn("colour", self.refused("status"))

    def test_a_schema_of_that_name_which_is_not_ours(self):
        self.sql("CREATE SCHEMA waybill")
        self.sql("CREATE TABLE waybill.event (mine int)")
        self.assertIn("waybill", self.refused("status"))


if __name__ == "__main__":
    unittest.main()
