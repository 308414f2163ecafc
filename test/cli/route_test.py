import json
import unittest

from waybill_cli import CliTest

ID = "018f3c1e-7b1a-7c3d-9e2f-0123456789ab"
DESTINATIONS = """
[destinations.orders]
type = "file"
path = "orders.jsonl"
match = { topic = ["order.*", "stock"] }
[destinations.rest]
type = "stdout"
match = { tenant = "north" }
[destinations.nothing]
type = "null"
match = { topic = "never" }
"""


class RouteTest(CliTest):
    def setUp(self):
        super().setUp()
        self.write("waybill.toml", f'store = "sqlite:test.db"\n{DESTINATIONS}')

    def test_shows_where_an_event_goes_and_why_not(self):
        out = self.succeed("route", "test", "--topic", "order.paid", "--id", ID, "--payload", '{"a":1}').out
        self.assertIn("orders (file): yes: orders.jsonl\n", out)
        self.assertIn('"payload":{"a":1}', out)
        self.assertIn("rest (stdout): no: tenant 'default' is none of 'north'\n", out)
        self.assertIn("nothing (null): no: topic 'order.paid' is none of 'never'\n", out)
        self.assertFalse((self.folder / "test.db").exists(), "nothing is written, no store is opened")
        self.assertFalse((self.folder / "orders.jsonl").exists())

    def test_json(self):
        line = json.dumps({"topic": "stock", "id": ID, "payload": {"text": "x" * 300}})
        brief = self.succeed("route", "test", "--json", stdin=line).json
        self.assertEqual(ID, brief["event"])
        by_name = {route["destination"]: route for route in brief["destinations"]}
        orders = by_name["orders"]
        self.assertEqual(("file", True, None, None, "orders.jsonl"),
                         tuple(orders[key] for key in ("type", "matches", "why_not", "rejected", "address")))
        self.assertIsNone(orders["message"]["body"])
        self.assertGreater(orders["message"]["body_bytes"], 300)
        self.assertEqual((False, "tenant 'default' is none of 'north'", None),
                         tuple(by_name["rest"][key] for key in ("matches", "why_not", "message")))
        whole = self.succeed("route", "test", "--json", "--body", stdin=line).json
        [body] = [r["message"]["body"] for r in whole["destinations"] if r["message"]]
        self.assertEqual("x" * 300, json.loads(body)["payload"]["text"])

    def test_a_long_body_is_cut_between_characters(self):
        args = ["route", "test", "--topic", "stock", "--payload", json.dumps("ü" * 600, ensure_ascii=False)]
        out = self.succeed(*args).out
        self.assertIn("bytes; --body shows them all)", out)
        self.assertNotIn("\ufffd", out)
        self.assertIn("ü" * 600, self.succeed(*args, "--body").out)

    def test_an_own_routing_key(self):
        def route(**keys):
            extra = "".join(f"{name} = {value}\n" for name, value in keys.items())
            self.write("waybill.toml", f'store = "sqlite:test.db"\n[destinations.q]\ntype = "rabbitmq"\n'
                       f'url = "amqp://h"\nexchange = "x"\n{extra}')
            line = json.dumps({"topic": "t", "tenant": "north", "routing_key": "south.t", "payload": 1})
            result = self.run_cli("route", "test", "--json", stdin=line)
            [only] = result.json["destinations"]
            return only["rejected"] or only["address"], only["note"]

        self.assertEqual(("exchange 'x', routing key 'south.t'", None), route())
        named = '"{tenant}.{topic}"'
        address, note = route(routing_key=named)
        self.assertEqual("exchange 'x', routing key 'north.t'", address)
        self.assertIn("own_routing_key = false", note)
        refused, _ = route(routing_key=named, own_routing_key="true")
        self.assertIn("does not fit the destination's template '{tenant}.{topic}'", refused)
        self.assertEqual("exchange 'x', routing key 't'", route(own_routing_key="false")[0])

    def test_an_event_of_the_store(self):
        self.succeed("migrate")
        self.succeed("enqueue", "--topic", "order.paid", "--id", ID, "--payload", "7")
        out = self.succeed("route", "test", "--event", ID).out
        self.assertIn('"seq":1', out)
        self.assertIn("no event", self.refused("route", "test", "--event", ID.replace("0", "1"), code=1))

    def test_an_event_that_goes_nowhere(self):
        result = self.run_cli("route", "test", "--topic", "lost", "--payload", "1")
        self.assertEqual(4, result.code, result)
        self.assertIn("no destination gets this event", result.err)

    def test_wrong_input(self):
        for stdin, expected in [("", "not a JSON object"), ("{}\n{}\n", "more than one line"),
                                ('{"topic":"t"}', "payload must be given once"), ('{"tpic":"t"}', "did you mean 'topic'")]:
            with self.subTest(stdin):
                self.assertIn(expected, self.refused("route", "test", stdin=stdin))
        self.refused("route", "test", "--topic", "t", "--event", ID)
        self.write("waybill.toml", 'store = "sqlite:test.db"\n')
        self.assertIn("there is no destination", self.refused("route", "test", "--topic", "t", "--payload", "1"))

    def test_help_has_examples(self):
        out = self.succeed("route", "test", "--help").out
        self.assertIn("Examples:", out)
        self.assertIn("--event", out)


if __name__ == "__main__":
    unittest.main()
