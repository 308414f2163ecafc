"""examples/clinic: an event-sourced queue, its way to RabbitMQ, and the board."""
import json
import os
import subprocess
import time
import unittest
import urllib.error
import urllib.request

import servers
from example import BINARY, ExampleCase, backlog

EXAMPLE = os.environ["WAYBILL_EXAMPLE"]
PATIENCE_S = 90


class Clinic(ExampleCase):
    def setUp(self):
        super().setUp()
        self.broker = servers.Rabbitmq()
        self.addCleanup(self.broker.close)
        self.desk_port, self.board_port = str(servers.free_port()), str(servers.free_port())
        self.given = {"CLINIC_URL": self.server.url.replace("postgres@", "clinic_service@"), "AMQP_URL": self.broker.url,
                      "DESK_PORT": self.desk_port, "BOARD_PORT": self.board_port}

    def start(self, *command):
        process = subprocess.Popen(command, cwd=self.folder,
                                   env={**os.environ, "DATABASE_URL": self.server.url, **self.given})
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def ask(self, port, path, body=None):
        """(status, text), as soon as there is somebody who answers."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", body and json.dumps(body).encode(),
                                            timeout=30) as answer:
                    return answer.status, answer.read().decode()
            except urllib.error.HTTPError as error:
                return error.code, error.read().decode()
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def wait_for_page(self, text):
        deadline = time.monotonic() + PATIENCE_S
        while text not in (page := self.ask(self.board_port, "")[1]):
            self.assertLess(time.monotonic(), deadline, page)
            time.sleep(0.05)

    def test_its_page_and_what_is_in_the_queue(self):
        self.walk("clinic", self.given, {"clinic": EXAMPLE})

        events = [line["event"] for line in backlog(self.broker.url, "audit", "cloudevents", 23)]
        self.assertEqual(list(range(1, 24)), [event["version"] for event in events], "in the stream's order")
        stored = self.query("SELECT version, type FROM waybill.stream_event ORDER BY version")
        self.assertEqual(stored, [f"{event['version']}|{event['type']}" for event in events])
        self.assertEqual({"patient": "p-2", "reason": "absent"}, events[15]["payload"])

        self.go_on_with_a_board_that_is_killed()
        self.assertEqual([], backlog(self.broker.url, "waiting-room.dead", "cloudevents", 0))
        self.refuse_what_is_no_amount()
        self.end_if_the_broker_refuses()

    def go_on_with_a_board_that_is_killed(self):
        self.start(BINARY, "run")
        self.start(EXAMPLE, "desk", self.desk_port)
        board = self.start(EXAMPLE, "board", self.board_port)
        self.wait_for_page("Waiting room")
        for path, place in [("check-in", "waiting"), ("cashier/call", "cashier"), ("cashier/absent", "waiting"),
                            ("cashier/call", "cashier")]:
            self.assertEqual(200, self.ask(self.desk_port, path, {"patient": "p-9", "name": "<b>Ada</b>"})[0])
            board.kill()  # It has heard of it, or not yet, or is at it.
            board.wait()
            board = self.start(EXAMPLE, "board", self.board_port)
            self.wait_for_page(f"<td>&lt;b&gt;Ada&lt;/b&gt;<td>{place}<")

    def refuse_what_is_no_amount(self):
        for amount in (-1, 40.7, 2**64 - 1, "40"):
            self.assertEqual(409, self.ask(self.desk_port, "cashier/pay", {"patient": "p-9", "amount": amount})[0], amount)

    def end_if_the_broker_refuses(self):
        self.given["AMQP_URL"] = self.broker.url.replace("guest:guest", "guest:wrong")
        self.assertEqual(1, self.start(EXAMPLE, "board", self.board_port).wait(PATIENCE_S))


if __name__ == "__main__":
    unittest.main()
