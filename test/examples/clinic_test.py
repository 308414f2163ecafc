"""examples/clinic: an event-sourced queue, its way to RabbitMQ, and the board."""
import os
import unittest

import servers
from example import ExampleCase, backlog


class Clinic(ExampleCase):
    def test_its_page_and_what_is_in_the_queue(self):
        broker = servers.Rabbitmq()
        self.addCleanup(broker.close)
        ports = {name: str(servers.free_port()) for name in ("DESK_PORT", "BOARD_PORT")}
        self.walk("clinic", {"AMQP_URL": broker.url, **ports}, {"clinic": os.environ["WAYBILL_EXAMPLE"]})

        events = [line["event"] for line in backlog(broker.url, "audit", "cloudevents", 23)]
        self.assertEqual(list(range(1, 24)), [event["version"] for event in events], "in the stream's order")
        stored = self.query("SELECT version, type FROM waybill.stream_event ORDER BY version")
        self.assertEqual(stored, [f"{event['version']}|{event['type']}" for event in events])
        self.assertEqual({"patient": "p-2", "reason": "absent"}, events[15]["payload"])


if __name__ == "__main__":
    unittest.main()
