"""Every envelope through every broker: enqueued by the binary, read by others' libraries, compared field by field."""
import base64
import datetime
import json
import os
import subprocess
import threading
import unittest

import servers
from waybill_cli import BINARY, CliTest

CONSUMERS = os.environ["WAYBILL_CONSUMERS"]
BROKERS = os.environ["WAYBILL_BROKERS"].split(",")
MESSAGE_TYPE = "urn:message:Clinic.Events:{type:pascal}"
ENVELOPES = ["cloudevents", "cloudevents-structured", "waybill", "raw", "masstransit"]

# A JSON payload as the application wrote it, spaces and all.
SPACED = '{ "visit":"v-7",  "name":"Jörg \\u00e9 \\\\", "n":1.50, "list":[ ] }'
EVENTS = [
    {"topic": "patients", "type": "patient.checked-in", "tenant": "north", "aggregate_type": "visit",
     "aggregate_id": "v-7 Zürich 100 %", "version": 3, "payload": SPACED,
     "headers": {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "shop=7,other=x",
                 "correlation-id": "6f1c3f0e-2f0b-4c8e-9d55-000000000001", "priority": "high", "none": "",
                 "note": "Jörg, 100 % \"sicher\"", "edge": " spaces ", "plain": "50 % as it is"},
     "metadata": {"user": "reception", "note": "Jörg"}, "schema_id": "https://example.org/schemas/check-in",
     "schema_version": 2, "occurred_at": "2026-02-19T08:30:00.125000Z"},
    {"topic": "patients", "type": "patient.checked-in", "payload": "{}", "occurred_at": "2026-02-19T08:30:01Z"},
    {"topic": "scans", "key": "scan/ü", "payload_base64": base64.b64encode(bytes(range(256))).decode(),
     "schema_id": "scan", "schema_version": 1, "occurred_at": "2026-02-19T08:30:02Z"},
    {"topic": "notes", "type": "note.taken", "payload_base64": base64.b64encode("grün".encode()).decode(),
     "content_type": "text/plain; charset=utf-8", "occurred_at": "2026-02-19T08:30:03Z"},
    {"topic": "numbers", "payload": " 7 ", "content_type": "application/vnd.clinic+json",
     "occurred_at": "2026-02-19T08:30:04Z"},
]


def line_of(event):
    """A JSON payload goes in as it is."""
    rest = json.dumps({name: value for name, value in event.items() if name != "payload"})
    return f'{rest[:-1]}, "payload": {event["payload"]}}}' if "payload" in event else rest


def payload_of(event):
    return event["payload"].strip().encode() if "payload" in event else base64.b64decode(event["payload_base64"])


def content_type_of(event):
    return event.get("content_type", "application/json" if "payload" in event else "application/octet-stream")


def moment(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def set_only(**members):
    return {name: value for name, value in members.items() if value is not None}


def expected(envelope, event):
    """What a consumer finds, as far as the envelope carries it."""
    aggregate = f"{event['aggregate_type']}/{event['aggregate_id']}" if "aggregate_type" in event else None
    type_ = event.get("type", event["topic"])
    schema = set_only(schema_id=event.get("schema_id"), schema_version=event.get("schema_version"))
    common = {"id": event["id"], "headers": event.get("headers", {}), **schema}
    common |= ({"payload": json.loads(event["payload"])} if "payload" in event else
               {"payload_base64": event["payload_base64"]})
    if envelope == "raw":
        return common | {"content_type": content_type_of(event)}
    if envelope == "masstransit":
        return common | {"message_type": ["urn:message:Clinic.Events:PatientCheckedIn"]} | set_only(
            metadata=event.get("metadata"), correlation_id=event.get("headers", {}).get("correlation-id"))
    common |= {"type": type_, "occurred_at": moment(event["occurred_at"])}
    if envelope == "waybill":
        return common | {"aggregate_type": event.get("aggregate_type", ""),
                         "aggregate_id": event.get("aggregate_id", ""), "version": event.get("version", 1),
                         "metadata": event.get("metadata", {})} | set_only(key=event.get("key"))
    return common | set_only(
        source="/clinic", aggregate_type=event.get("aggregate_type"), aggregate_id=event.get("aggregate_id"),
        version=event.get("version"), key=event.get("key", aggregate), tenant=event.get("tenant"),
        topic=event["topic"] if event["topic"] != type_ else None, metadata=event.get("metadata"),
        dataschema=event["schema_id"] if ":" in event.get("schema_id", "") else None,
        content_type=content_type_of(event))


class Consumer:
    """One of test/consumers; what it has read, in order."""

    def __init__(self, test, script, count, **options):
        arguments = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
        self.process = subprocess.Popen(["node", f"{CONSUMERS}/{script}", *arguments, "--count", str(count)],
                                        stdout=subprocess.PIPE, text=True)
        test.addCleanup(self.process.stdout.close)
        test.addCleanup(self.process.wait)
        test.addCleanup(self.process.kill)
        self.late = threading.Timer(90, self.process.kill)
        self.late.start()
        test.addCleanup(self.late.cancel)
        test.assertEqual("ready\n", self.process.stdout.readline())

    def lines(self):
        return [json.loads(line) for line in self.process.stdout]


class EnvelopesTest(CliTest):
    def check(self, broker, destination, consumer, check_transport):
        """`destination(envelope)`: the keys of a destination; `consumer(envelope, count)`: who reads it."""
        topics = {envelope: None for envelope in ENVELOPES} | {"masstransit": "patients"}
        parts = ['store = "sqlite:test.db"\n']
        for envelope, topic in topics.items():
            more = {"source": "/clinic"} if envelope.startswith("cloudevents") else {}
            more |= {"message_type": MESSAGE_TYPE} if envelope == "masstransit" else {}
            keys = {"type": broker, "envelope": envelope, **destination(envelope), **more}
            parts.append(f"[destinations.{envelope}]\n" +
                         "".join(f"{name} = {json.dumps(value)}\n" for name, value in keys.items()) +
                         (f'match = {{ topic = "{topic}" }}\n' if topic else ""))
        self.write("waybill.toml", "".join(parts))
        self.succeed("migrate")

        ids = self.succeed("enqueue", stdin="".join(line_of(event) + "\n" for event in EVENTS)).out.split()
        events = [event | {"id": event_id} for event, event_id in zip(EVENTS, ids)]
        due = {envelope: [event for event in events if topic in (None, event["topic"])]
               for envelope, topic in topics.items()}
        consumers = {envelope: consumer(envelope, len(due[envelope])) for envelope in ENVELOPES}
        previews = {event["id"]: self.previews(event["id"]) for event in events}
        relay = subprocess.Popen([BINARY, "run"], cwd=self.folder, env=self.environment(),
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(relay.stderr.close)
        self.addCleanup(relay.wait)
        self.addCleanup(relay.kill)
        read = {envelope: consumers[envelope].lines() for envelope in ENVELOPES}
        relay.terminate()
        said = relay.stderr.read()
        self.assertEqual(0, relay.wait(), said)

        for envelope in ENVELOPES:
            by_id = {line["transport"]["id"]: line for line in read[envelope]}
            self.assertEqual({event["id"] for event in due[envelope]}, set(by_id), f"{envelope}\n{said}")
            for event in due[envelope]:
                with self.subTest(envelope=envelope, topic=event["topic"]):
                    self.compare(envelope, event, by_id[event["id"]], previews[event["id"]][envelope])
                    check_transport(envelope, event, by_id[event["id"]]["transport"])

    def previews(self, event_id):
        shown = self.succeed("route", "test", "--event", event_id, "--body", "--json").json
        return {route["destination"]: route["message"] for route in shown["destinations"]}

    def compare(self, envelope, event, line, preview):
        self.assertNotIn("problem", line, line.get("problem"))
        found = line["event"]
        if envelope.startswith("cloudevents"):
            self.assertRegex(found.pop("sequence"), r"^\d{19}$")
        if "occurred_at" in found:
            found["occurred_at"] = moment(found["occurred_at"])
        self.assertEqual(expected(envelope, event), found)

        body = base64.b64decode(line["body_base64"])
        if envelope in ("cloudevents", "raw"):
            self.assertEqual(payload_of(event), body, "byte for byte")
        elif "payload" in event and content_type_of(event).endswith("json"):
            self.assertIn(payload_of(event), body, "byte for byte")
        shown = preview["body"].encode() if preview["body"] is not None else base64.b64decode(preview["body_base64"])
        self.assertEqual(shown, body, "route test has shown what is sent")


@unittest.skipUnless("rabbitmq" in BROKERS, "built without it")
class RabbitmqEnvelopesTest(EnvelopesTest):
    def test_every_envelope(self):
        broker = servers.Rabbitmq()
        self.addCleanup(broker.close)

        def destination(envelope):
            exchange = "Clinic.Events:{type:pascal}" if envelope == "masstransit" else envelope
            return {"url": broker.url, "exchange": exchange, "routing_key": "{aggregate_type|topic}.{type}"}

        def consumer(envelope, count):
            native = envelope == "masstransit"
            return Consumer(self, "rabbitmq.mjs", count, url=broker.url, envelope=envelope,
                            exchange="Clinic.Events:PatientCheckedIn" if native else envelope,
                            exchange_type="fanout" if native else "topic", key="" if native else "#")

        self.check("rabbitmq", destination, consumer, self.check_transport)

    def check_transport(self, _, event, transport):
        type_ = event.get("type", event["topic"])
        self.assertEqual(2, transport["delivery_mode"], "persistent")
        self.assertEqual(type_, transport["type"])
        self.assertEqual(f"{event.get('aggregate_type', event['topic'])}.{type_}", transport["address"])
        self.assertEqual(int(moment(event["occurred_at"]).timestamp()), transport["timestamp"])
        self.assertEqual(event.get("headers", {}).get("correlation-id"), transport.get("correlation_id"))


@unittest.skipUnless("nats" in BROKERS, "built without it")
class NatsEnvelopesTest(EnvelopesTest):
    def test_every_envelope(self):
        broker = servers.Nats()
        self.addCleanup(broker.close)

        def destination(envelope):
            return {"servers": broker.url, "stream": envelope,
                    "subject": f"{envelope}.{{aggregate_type|topic}}.{{type}}"}

        def consumer(envelope, count):
            return Consumer(self, "nats.mjs", count, url=broker.url, envelope=envelope, stream=envelope,
                            subject=f"{envelope}.>")

        self.check("nats", destination, consumer, self.check_transport)

    def check_transport(self, envelope, event, transport):
        self.assertEqual(envelope, transport["stream"])
        place = f"{event.get('aggregate_type', event['topic'])}.{event.get('type', event['topic'])}"
        self.assertEqual(f"{envelope}.{place}", transport["address"])


if __name__ == "__main__":
    unittest.main()
