"""examples/tenants: events collected by themselves, two tenants, and what MassTransit reads."""
import os
import subprocess
import unittest

import servers
from example import ExampleCase, backlog


class Tenants(ExampleCase):
    def test_its_page_and_what_is_in_the_queue(self):
        broker = servers.Rabbitmq()
        self.addCleanup(broker.close)
        as_service = self.server.url.replace("postgres@", "tenants_service@")
        self.walk("tenants", {"AMQP_URL": broker.url, "TENANTS_URL": as_service},
                  {"tenants": os.environ["WAYBILL_EXAMPLE"]})

        lines = backlog(broker.url, "tenants", "masstransit", 6)
        events = [line["event"] for line in lines]
        self.assertCountEqual(
            [("north.tenant.created", "TenantCreated"), ("south.tenant.created", "TenantCreated"),
             ("north.api-key.issued", "ApiKeyIssued"), ("south.api-key.issued", "ApiKeyIssued"),
             ("north.tenant.closed", "TenantClosed"), ("north.api-key.revoked", "ApiKeyRevoked")],
            [(line["transport"]["address"], line["event"]["message_type"][0].removeprefix("urn:message:Tenants.Events:"))
             for line in lines])
        by_type = {(event["message_type"][0].rpartition(":")[2], event["payload"]["tenantId"]): event for event in events}
        issued = by_type["ApiKeyIssued", "south"]
        self.assertEqual({"tenantId", "apiKeyId", "name"}, set(issued["payload"]), "and no secret")
        self.assertEqual(self.query("SELECT id FROM api_key WHERE tenant = 'south'"), [issued["payload"]["apiKeyId"]])
        self.assertEqual("tenants", issued["metadata"]["source"])
        closed, revoked = by_type["TenantClosed", "north"], by_type["ApiKeyRevoked", "north"]
        self.assertEqual(closed["correlation_id"], revoked["correlation_id"], "one transaction, one cause")

        # Two at once: one of them is second, and finds nothing to do.
        process = [subprocess.Popen([os.environ["WAYBILL_EXAMPLE"], "close", "south"], stdout=subprocess.DEVNULL,
                                    env={**os.environ, "TENANTS_URL": as_service}) for _ in range(4)]
        self.assertEqual([0] * 4, [one.wait(60) for one in process])
        self.assertEqual(["1"], self.query("SELECT count(*) FROM waybill.event WHERE topic = 'tenant.closed'"
                                           " AND tenant = 'south'"))
        self.assertEqual(["f|2"], self.query("SELECT open, version FROM tenant WHERE id = 'south'"))


if __name__ == "__main__":
    unittest.main()
