"""`waybill run` as a service: metrics, life, reloads, cleaning, systemd."""
import http.client
import json
import os
import re
import resource
import signal
import socket
import sqlite3
import subprocess
import threading
import time
import unittest

import prometheus_text
from waybill_cli import BINARY, CliTest

FAMILIES = {"waybill_build_info", "waybill_events_published_total", "waybill_events_dead_total",
            "waybill_events_repeated_total", "waybill_events_skipped_total", "waybill_events_unmatched_total",
            "waybill_attempts_failed_total", "waybill_publish_seconds",
            "waybill_lag_seconds", "waybill_breaker_open", "waybill_relay_leases", "waybill_store_up",
            "waybill_figures_age_seconds", "waybill_pending", "waybill_oldest_pending_age_seconds",
            "waybill_undelivered", "waybill_blocked_keys", "waybill_clean_failing"}


class CheckerTest(unittest.TestCase):
    def test_refuses_what_is_wrong(self):
        head = "# HELP a_total A.\n# TYPE a_total counter\n"
        prometheus_text.parse(head + 'a_total{b="x\\"}\\n"} 1\na_total 2e3\n')
        for text in ["a_total 1\n", head + "a_total 1", head + "a_total  1\n", head + "a_total{b=x} 1\n",
                     head + 'a_total{b="x",} 1\n', head + "a_total 1\na_total 1\n", head + "a_total -1\n",
                     head + head, head + "b 1\n", head + 'a_total{b="\\x"} 1\n', "# TYPE a_total counter\na_total 1\n",
                     "# HELP h H.\n# TYPE h histogram\nh_bucket{le=\"+Inf\"} 2\nh_sum 1\nh_count 3\n",
                     "# HELP h H.\n# TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_sum 1\nh_count 2\n"]:
            with self.subTest(text), self.assertRaises(prometheus_text.Wrong):
                prometheus_text.parse(text)


class Service:
    """A `waybill run` whose lines are read as they come."""

    def __init__(self, test, *args, env=None):
        self.test = test
        self.process = subprocess.Popen([BINARY, "run", "--set", "listen=127.0.0.1:0", *args], cwd=test.folder,
                                        env=test.environment(env), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                        text=True)
        test.addCleanup(self.close)
        self.lines = []
        self.seen = 0
        self.changed = threading.Condition()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        self.port = int(re.search(r"127\.0\.0\.1:(\d+)/metrics", self.wait_for_line("serving metrics")).group(1))
        self.wait_for_line("relay started")

    def read(self):
        for line in self.process.stderr:
            with self.changed:
                self.lines.append(line)
                self.changed.notify_all()
        with self.changed:
            self.lines.append("")
            self.changed.notify_all()

    def wait_for_line(self, text):
        """The next line with this text, after the last one that was waited for."""
        deadline = time.monotonic() + 20
        with self.changed:
            while True:
                while self.seen < len(self.lines):
                    self.seen += 1
                    if text in self.lines[self.seen - 1]:
                        return self.lines[self.seen - 1]
                if not self.changed.wait(deadline - time.monotonic()):
                    self.test.fail(f"never said: {text}\n{''.join(self.lines)}")

    def ask(self, path, method="GET", host=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request(method, path, headers={"Host": host} if host else {})
        reply = connection.getresponse()
        body = reply.read().decode()
        connection.close()
        return reply, body

    def metrics(self):
        reply, body = self.ask("/metrics")
        self.test.assertEqual(200, reply.status)
        self.test.assertEqual("text/plain; version=0.0.4; charset=utf-8", reply.headers["Content-Type"])
        return prometheus_text.parse(body)

    def until(self, condition):
        """The metrics, as soon as they are as wished."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            metrics = self.metrics()
            try:
                if condition(metrics):
                    return metrics
            except KeyError:
                pass
            time.sleep(0.05)
        self.test.fail(f"the metrics never were as wished: {self.ask('/metrics')[1]}")

    def signal(self, number):
        self.process.send_signal(number)

    def stop(self):
        self.signal(signal.SIGTERM)
        self.test.assertEqual(0, self.process.wait(20), "".join(self.lines))
        self.reader.join()

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.reader.join()
        self.process.stderr.close()


class ServiceTest(CliTest):
    def destination(self, name, path=None):
        return f'[destinations.{name}]\ntype = "file"\npath = "{path or name + ".jsonl"}"\n'

    def configure(self, *destinations, before=""):
        self.write("waybill.toml", 'store = "sqlite:test.db"\n' + before + "".join(destinations))

    def start(self, *args, **options):
        return Service(self, *args, **options)

    def enqueue(self, *payloads, topic="t"):
        lines = "".join(json.dumps({"topic": topic, "payload": payload}) + "\n" for payload in payloads)
        return self.succeed("enqueue", stdin=lines).out.split()

    def delivered(self, name, count):
        path = self.folder / f"{name}.jsonl"
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            lines = path.read_text().splitlines() if path.exists() else []
            if len(lines) >= count:
                return [json.loads(line)["payload"] for line in lines]
            time.sleep(0.02)
        self.fail(f"{path} never had {count} lines")


class MetricsTest(ServiceTest):
    def test_a_relay_at_work(self):
        self.configure(self.destination("log"))
        service = self.start()
        self.enqueue(1, 2, 3)
        self.delivered("log", 3)
        metrics = service.until(lambda m: m["waybill_events_published_total"].value(destination="log") == 3
                                and m["waybill_pending"].value(destination="log") == 0)
        self.assertLessEqual(FAMILIES, set(metrics))
        self.assertEqual(1, metrics["waybill_store_up"].value())
        self.assertEqual(1, metrics["waybill_relay_leases"].value(destination="log"))
        self.assertEqual(0, metrics["waybill_breaker_open"].value(destination="log"))
        self.assertEqual(3, metrics["waybill_publish_seconds"].value("_count", destination="log"))
        self.assertEqual(0, metrics["waybill_undelivered"].value(destination="log", standing="dead"))
        reply, body = service.ask("/livez")
        self.assertEqual((200, "ok\n"), (reply.status, body))
        service.stop()

    def test_a_destination_that_is_away(self):
        self.configure(self.destination("full", "/dev/full"))
        service = self.start()
        self.enqueue("canary")
        service.until(lambda m: m["waybill_breaker_open"].value(destination="full") == 1
                      and m["waybill_attempts_failed_total"].value(destination="full", outcome="unavailable") > 0)
        deadline = time.monotonic() + 20
        alerts = []
        while not alerts and time.monotonic() < deadline:
            status = self.succeed("status", "--json").json
            alerts = [alert for alert in status["alerts"] if alert["alert"] == "away"]
        self.assertEqual(["full"], [alert["destination"] for alert in alerts])
        self.assertEqual(["full"], [trouble["destination"] for trouble in status["relays"][0]["troubles"]])
        self.assertIn("waits for it: ", self.succeed("status").out)
        doctor = self.run_cli("doctor", "--json")
        self.assertEqual((4, False), (doctor.code, doctor.json["healthy"]), doctor)
        self.assertIn(("problem", "alert away"), [(at["level"], at["what"]) for at in doctor.json["findings"]])
        self.assertIn("No space left on device", doctor.out)
        self.assertNotIn("canary", service.ask("/metrics")[1])
        self.assertEqual(200, service.ask("/livez")[0].status)
        service.signal(signal.SIGTERM)

    def test_a_cleaning_that_fails(self):
        self.write("in-the-way", "")
        self.configure(self.destination("log"), before='clean_interval = "1s"\narchive = "in-the-way/archive"\n')
        service = self.start()
        service.until(lambda m: m["waybill_clean_failing"].value() == 1)
        deadline = time.monotonic() + 60
        alerts = []
        while not alerts and time.monotonic() < deadline:
            alerts = [alert for alert in self.succeed("status", "--json").json["alerts"] if alert["alert"] == "upkeep"]
        self.assertIsNone(alerts[0]["destination"])
        self.assertRegex(alerts[0]["text"], r"relay .*: cannot clean: .*in-the-way/archive")
        self.assertRegex(self.succeed("status").out, r"alert: relay .*: cannot clean: ")
        self.assertEqual(4, self.run_cli("status", "--check").code)
        (self.folder / "in-the-way").unlink()
        service.until(lambda m: m["waybill_clean_failing"].value() == 0)
        while self.run_cli("status", "--check").code != 0 and time.monotonic() < deadline:
            time.sleep(0.05)
        self.succeed("status", "--check")
        service.stop()

    @unittest.skipIf(os.environ.get("WAYBILL_SANITIZE"), "sanitizers need descriptors themselves, and crash without")
    def test_row85_too_few_descriptors_are_an_error_and_no_crash(self):
        self.configure(self.destination("log"))
        self.succeed("migrate")
        for count in range(4, 48):
            few = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))
            process = subprocess.Popen([BINARY, "run", "--set", "listen=127.0.0.1:0"], cwd=self.folder, preexec_fn=few,
                                       env=self.environment(), stderr=subprocess.PIPE, text=True)
            self.addCleanup(process.kill)
            said = ""
            for line in process.stderr:
                said += line
                if "relay started" in line:
                    process.send_signal(signal.SIGTERM)
            code = process.wait(60)
            process.stderr.close()
            self.assertIn(code, [0, 2, 3, 127], (count, said))  # 127: not even its libraries could be opened.
            if code == 0:
                break
            self.assertNotEqual("", said)
        self.assertEqual(0, code, "it never had enough")

    def test_security2_who_may_ask_and_how(self):
        self.configure(self.destination("log"))
        service = self.start()
        for path in ["/metrics", "/livez"]:
            self.assertEqual(421, service.ask(path, host="evil.example")[0].status)
            self.assertEqual(405, service.ask(path, method="POST")[0].status)
            reply, body = service.ask(path, method="HEAD")
            self.assertEqual((200, ""), (reply.status, body))
        service.stop()

    def test_a_port_that_is_taken(self):
        with socket.create_server(("127.0.0.1", 0)) as other:
            listen = f"127.0.0.1:{other.getsockname()[1]}"
            self.configure(self.destination("log"))
            self.assertIn("cannot listen on 127.0.0.1", self.run_cli("run", "--set", f"listen={listen}").err)

    def test_off(self):
        self.configure(self.destination("log"), '[destinations.live]\ntype = "stream"\nopen = true\n',
                       before='listen = "off"\n')
        self.assertIn("listen: is off, but destination 'live' is a stream", self.refused("run"))


class ReloadTest(ServiceTest):
    def reload(self, service):
        service.signal(signal.SIGHUP)
        service.wait_for_line("the new configuration holds")
        service.wait_for_line("relay started")

    def test_another_destination(self):
        self.configure(self.destination("a"))
        service = self.start()
        self.enqueue(1)
        self.delivered("a", 1)
        self.configure(self.destination("a"), self.destination("b"))
        self.reload(service)
        self.enqueue(2)
        self.assertEqual([1, 2], self.delivered("a", 2))
        self.assertEqual([1, 2], self.delivered("b", 2))
        service.until(lambda m: m["waybill_events_published_total"].value(destination="a") == 2)
        service.stop()

    def test_under_load_nothing_is_lost_or_sent_twice(self):
        self.configure(self.destination("a"))
        service = self.start()
        count = 0
        for turn in range(4):
            self.enqueue(*range(count, count + 300))
            count += 300
            self.configure(self.destination("a"), before=f"batch = {turn + 10}\n")
            self.reload(service)
        self.assertEqual(list(range(count)), sorted(self.delivered("a", count)))
        service.stop()
        self.assertEqual(count, len((self.folder / "a.jsonl").read_text().splitlines()))

    def test_row85_a_bad_file_keeps_the_old_configuration(self):
        self.configure(self.destination("a"))
        service = self.start()
        for text, reason in [("batch = 0\n", "batch: must be a whole number"), ("batch =\n", "waybill.toml"),
                             ('store = "sqlite:test.db"\n', "there is no destination")]:
            self.write("waybill.toml", text)
            service.signal(signal.SIGHUP)
            line = service.wait_for_line("the new configuration is wrong: the old one stays")
            self.assertIn("level=error", line)
            self.assertIn(reason, line)
        self.enqueue_directly(1)
        self.delivered("a", 1)
        self.assertFalse(any("relay stopped" in line for line in service.lines))
        service.stop()

    def enqueue_directly(self, payload):
        """While the file is bad, no command of ours works."""
        with sqlite3.connect(self.folder / "test.db") as database:
            database.execute("INSERT INTO waybill_event (topic, payload) VALUES ('t', ?)", (json.dumps(payload),))

    def test_what_cannot_be_changed_stays(self):
        self.configure(self.destination("a"))
        service = self.start()
        self.write("waybill.toml", 'store = "sqlite:other.db"\nschema = "elsewhere"\n' + self.destination("b"))
        service.signal(signal.SIGHUP)
        for key in ["store", "schema"]:
            self.assertIn(f"key={key}", service.wait_for_line("a reload cannot change this key"))
        service.wait_for_line("relay started")
        self.assertFalse((self.folder / "other.db").exists())
        self.enqueue_directly(1)
        self.delivered("b", 1)
        service.stop()

    def test_row85_a_removed_destination_stays_visible(self):
        self.configure(self.destination("a"), self.destination("full", "/dev/full"))
        service = self.start()
        self.enqueue(1)
        service.until(lambda m: m["waybill_breaker_open"].value(destination="full") == 1)
        self.configure(self.destination("a"), before='grace = "100ms"\n')
        self.reload(service)
        self.enqueue(2)
        self.delivered("a", 2)
        status = self.succeed("status", "--json").json
        pending = {each["name"]: each["pending"]["value"] for each in status["destinations"]}
        self.assertEqual({"a": 0, "full": 2}, pending)
        self.assertIn(("no-relay", "full"), [(alert["alert"], alert["destination"]) for alert in status["alerts"]])
        metrics = service.until(lambda m: m["waybill_pending"].value(destination="full") == 2)
        self.assertEqual(0, metrics["waybill_breaker_open"].value(destination="full"))
        service.stop()

    def test_streams_come_and_go(self):
        self.configure(self.destination("a"))
        service = self.start()
        self.configure(self.destination("a"), '[destinations.live]\ntype = "stream"\nopen = true\n')
        self.reload(service)
        connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=10)
        connection.request("GET", "/stream/live?from=beginning")
        self.enqueue("hello")
        self.assertEqual(200, (reply := connection.getresponse()).status)
        while b"hello" not in reply.readline():
            pass
        connection.close()
        self.configure(self.destination("a"))
        self.reload(service)
        self.assertEqual(404, service.ask("/stream/live")[0].status)
        service.stop()

    def test_security3_4_a_stream_wants_its_token(self):
        def stream(keys):
            self.configure(self.destination("a"), f'[destinations.live]\ntype = "stream"\n{keys}\n')

        stream("")
        self.assertIn("destinations.live.token: is missing: every user of this machine could read", self.refused("run"))
        self.write("token", "short\n")
        (self.folder / "token").chmod(0o600)
        stream('token_file = "token"')
        self.assertIn("could be guessed", self.refused("run"))
        self.write("token", "0123456789abcdef\n")
        stream('token_file = "token"\nopen = true')
        self.assertIn("contradicts the token", self.refused("run"))
        stream('token_file = "token"')
        self.assertNotIn("0123456789abcdef", self.succeed("config", "show").out)
        service = self.start()
        for headers, status in [({}, 401), ({"Authorization": "Bearer wrong"}, 401),
                                ({"Authorization": "Bearer 0123456789abcdef", "Origin": "http://evil.example"}, 403),
                                ({"Authorization": "Bearer 0123456789abcdef"}, 200)]:
            connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=10)
            connection.request("GET", "/stream/live?from=beginning", headers=headers)
            self.assertEqual(status, connection.getresponse().status)
            connection.close()
        service.stop()

    def test_a_file_that_is_gone_and_a_signal_that_is_nothing(self):
        self.configure(self.destination("a"))
        service = self.start()
        service.signal(signal.SIGPIPE)
        (self.folder / "waybill.toml").unlink()
        service.signal(signal.SIGHUP)
        service.wait_for_line("the old one stays")
        self.enqueue_directly(1)
        self.delivered("a", 1)
        service.stop()

    def test_the_log_level_changes(self):
        self.configure(self.destination("a"))
        service = self.start()
        self.configure(self.destination("a"), before='[log]\nformat = "json"\n')
        service.signal(signal.SIGHUP)
        service.wait_for_line('"message":"the new configuration holds"')
        service.wait_for_line('"message":"relay started"')
        service.stop()


class UpkeepTest(ServiceTest):
    def test_old_events_go_and_are_archived(self):
        (self.folder / "archive").mkdir()
        self.configure(self.destination("a"), before='clean_interval = "1s"\nretention = "1h"\narchive = "archive"\n')
        self.succeed("migrate")
        ids = self.enqueue("old", "new")
        with sqlite3.connect(self.folder / "test.db") as database:
            database.execute("UPDATE waybill_event SET created_at = '2020-01-01T00:00:00.000000Z' WHERE id = ?",
                             (ids[0],))
        service = self.start()
        self.delivered("a", 2)
        service.wait_for_line("cleaned")
        with sqlite3.connect(self.folder / "test.db") as database:
            self.assertEqual([(ids[1],)], database.execute("SELECT id FROM waybill_event").fetchall())
        archived = "".join(path.read_text() for path in (self.folder / "archive").rglob("*") if path.is_file())
        self.assertIn(ids[0], archived)
        self.assertNotIn(ids[1], archived)
        self.assertEqual(0, service.until(lambda m: "waybill_log_held_back" in m)["waybill_log_held_back"].value())
        service.stop()

    def test_off_keeps_everything(self):
        self.configure(self.destination("a"), before='clean_interval = "1s"\nretention = "off"\n')
        self.succeed("migrate")
        self.enqueue("old")
        with sqlite3.connect(self.folder / "test.db") as database:
            database.execute("UPDATE waybill_event SET created_at = '1990-01-01T00:00:00.000000Z'")
        service = self.start()
        self.delivered("a", 1)
        service.until(lambda m: "waybill_log_held_back" in m)
        with sqlite3.connect(self.folder / "test.db") as database:
            self.assertEqual(1, database.execute("SELECT count(*) FROM waybill_event").fetchone()[0])
        service.stop()

    def test_an_archive_that_cannot_be_written_stops_nothing(self):
        self.write("archive", "a file, no folder")
        self.configure(self.destination("a"), before='clean_interval = "1s"\nretention = "1h"\narchive = "archive"\n')
        self.succeed("migrate")
        self.enqueue("old")
        with sqlite3.connect(self.folder / "test.db") as database:
            database.execute("UPDATE waybill_event SET created_at = '2020-01-01T00:00:00.000000Z'")
        service = self.start()
        service.wait_for_line("cannot clean; will try again")
        self.enqueue("new")
        self.delivered("a", 2)
        service.stop()
        self.assertEqual(1, sum("cannot clean" in line for line in service.lines))


class SystemdTest(ServiceTest):
    def notes(self, name):
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(listener.close)
        listener.bind(name)
        listener.settimeout(20)
        return listener

    def test_what_systemd_is_told(self):
        path = str(self.folder / "notify")
        abstract = f"waybill-test-{os.getpid()}"
        for bound, variable in [(path, path), ("\0" + abstract, "@" + abstract)]:
            notes = self.notes(bound)
            self.configure(self.destination("a"))
            service = self.start(env={"NOTIFY_SOCKET": variable})
            self.assertIn(b"READY=1", notes.recv(4096).split(b"\n"))
            service.signal(signal.SIGHUP)
            reloading = notes.recv(4096).split(b"\n")
            self.assertIn(b"RELOADING=1", reloading)
            stamp = [int(line[15:]) for line in reloading if line.startswith(b"MONOTONIC_USEC=")]
            self.assertLess(abs(stamp[0] / 1e6 - time.clock_gettime(time.CLOCK_MONOTONIC)), 20)
            self.assertIn(b"READY=1", notes.recv(4096).split(b"\n"))
            self.write("waybill.toml", "batch = 0\n")
            service.signal(signal.SIGHUP)
            self.assertIn(b"RELOADING=1", notes.recv(4096).split(b"\n"))
            self.assertIn(b"READY=1", notes.recv(4096).split(b"\n"))
            service.signal(signal.SIGTERM)
            self.assertIn(b"STOPPING=1", notes.recv(4096).split(b"\n"))
            self.assertEqual(0, service.process.wait(20))

    def test_nobody_listens(self):
        self.configure(self.destination("a"))
        for name in ["/nowhere/at/all", "x" * 200, ""]:
            self.start(env={"NOTIFY_SOCKET": name}).stop()


if __name__ == "__main__":
    unittest.main()
