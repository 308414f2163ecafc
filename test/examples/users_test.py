"""examples/users: by hand, to NATS."""
import os
import unittest

import servers
from example import ExampleCase, backlog


class Users(ExampleCase):
    def test_its_page_and_what_is_in_the_stream(self):
        broker = servers.Nats()
        self.addCleanup(broker.close)
        self.walk("users", {"NATS_URL": broker.url, "USERS_URL": self.server.url.replace("postgres@", "users_service@")},
                  {"user-service": os.environ["WAYBILL_EXAMPLE"]})

        lines = backlog(broker.url, "USERS", "waybill", 3)
        self.assertEqual([f"events.user.user.{what}" for what in ("created", "updated", "deleted")],
                         [line["transport"]["address"] for line in lines], "in order")
        created, updated, deleted = (line["event"] for line in lines)
        ann = created["aggregate_id"]
        self.assertEqual({"email": "ann@example.org", "name": "Ann", "user_id": ann}, created["payload"])
        self.assertEqual({"changes": {"name": {"from": "Ann", "to": "Ann Lee"}}, "user_id": ann}, updated["payload"])
        self.assertEqual({"user_id": ann}, deleted["payload"])
        for number, event in enumerate((created, updated, deleted), 1):
            self.assertEqual(("user", ann, number), (event["aggregate_type"], event["aggregate_id"], event["version"]))
            self.assertEqual({"source": "user-service", "version": "1.0"}, event["metadata"])
        self.assertEqual([], self.query("SELECT * FROM users"))


if __name__ == "__main__":
    unittest.main()
