import json
import unittest

from waybill_cli import CliTest

ID = "018f3c1e-7b1a-7c3d-9e2f-0123456789ab"


class EnqueueCase(CliTest):
    def setUp(self):
        super().setUp()
        self.embedded()

    def events(self):
        """Oldest first, with payloads as they are written."""
        lines = self.succeed("events", "list", "--jsonl", "--payload", "--limit", "10000").out.splitlines()
        return [json.loads(line) for line in reversed(lines)]


class EnqueueFlagsTest(EnqueueCase):
    def test_flags(self):
        result = self.succeed("enqueue", "--topic", "order.paid", "--type", "Paid", "--aggregate", "order/o/7",
                              "--aggregate-version", "3", "--tenant", "t", "--id", ID, "--payload", '{"a":1}',
                              "--header", "x=1=2", "--header", "y=", "--metadata", '{"m":1}', "--routing-key", "r",
                              "--schema-id", "s", "--schema-version", "2", "--dedup-key", "d", "--attempts-max", "5",
                              "--occurred-at", "2026-02-19T09:30:00+01:00", "--expires-at", "2h")
        self.assertEqual(ID + "\n", result.out)
        [event] = self.events()
        expected = {"id": ID, "tenant": "t", "topic": "order.paid", "type": "Paid", "aggregate_type": "order",
                    "aggregate_id": "o/7", "version": 3, "payload": {"a": 1}, "headers": {"x": "1=2", "y": ""},
                    "metadata": {"m": 1}, "routing_key": "r", "schema_id": "s", "schema_version": 2, "dedup_key": "d",
                    "attempts_max": 5, "occurred_at": "2026-02-19T08:30:00.000000Z"}
        self.assertEqual(expected, {name: event.get(name) for name in expected})

    def test_payloads_from_files(self):
        self.write("p.json", '{ "z" : 1.0 }')
        self.write("p.bin", b"\x00\xff")
        self.succeed("enqueue", "--topic", "a", "--payload-file", "p.json")
        self.succeed("enqueue", "--topic", "b", "--payload-file", "-", stdin='[ 1 ]')
        self.succeed("enqueue", "--topic", "c", "--payload-bytes-file", "p.bin", "--content-type", "image/x")
        out = self.succeed("events", "list", "--jsonl", "--payload").out
        self.assertIn('"payload":{ "z" : 1.0 }', out)
        self.assertIn('"payload":[ 1 ]', out)
        self.assertIn('"payload_base64":"AP8="', out)

    def test_a_dedup_key_counts_once(self):
        args = ["enqueue", "--topic", "a", "--payload", "1", "--dedup-key", "d"]
        first = self.succeed(*args)
        again = self.succeed(*args)
        self.assertEqual("", first.err)
        self.assertEqual(first.out, again.out)
        self.assertEqual(f"waybill: event 1 was not written: dedup key 'd' was used before, by event {first.out.strip()}\n",
                         again.err)
        self.assertEqual({"ids": [first.out.strip()], "repeated": [{"place": 0, "dedup_key": "d"}]},
                         self.succeed(*args, "--json").json)
        self.assertEqual(1, len(self.events()))

    def test_dedup_keys_among_many(self):
        lines = "".join(json.dumps({"topic": "a", "payload": 1} | ({"dedup_key": key} if key else {})) + "\n"
                        for key in ["x", None, "y", "x"])
        done = self.succeed("enqueue", "--json", stdin=lines).json
        self.assertEqual([{"place": 3, "dedup_key": "x"}], done["repeated"])
        self.assertEqual(done["ids"][0], done["ids"][3])
        self.assertEqual(3, len(self.events()))

    def test_the_size_of_a_payload_that_is_too_large(self):
        self.write("large", '"' + "x" * 800_000 + '"')
        self.assertIn("the payload from 'large' has 800002 bytes; at most 786432 are allowed",
                      self.refused("enqueue", "--topic", "t", "--payload-file", "large"))
        self.assertIn("has more than ", self.refused("enqueue", "--topic", "t", "--payload-bytes-file", "/dev/zero"))

    def test_wrong_flags(self):
        for args, expected in [
            ([], "give one of --payload, --payload-file and --payload-bytes-file"),
            (["--payload", "1", "--payload-file", "x"], "give one of --payload"),
            (["--payload", "{canary"], "payload is not JSON"),
            (["--payload", ""], "payload is not JSON"),
            (["--payload-file", "gone"], "cannot read the payload from 'gone': No such file"),
            (["--payload-file", "."], "cannot read the payload from '.'"),
            (["--payload", "1", "--aggregate", "order"], "--aggregate 'order' must read TYPE/ID"),
            (["--payload", "1", "--header", "x"], "--header 'x' must read NAME=VALUE"),
            (["--payload", "1", "--header", "a=1\r\nb: 2"], "headers contains a control character"),
            (["--payload", "1", "--metadata", "[]"], "metadata is not a JSON object"),
            (["--payload", "1", "--id", "7"], "--id '7' is no UUID"),
            (["--payload", "1", "--not-before", "soon"], "--not-before 'soon' is no time"),
            (["--payload", "1", "--key", b"\xff"], "key is not UTF-8"),
            (["--payload", b'"\xff"'], "payload is not JSON"),
            (["--payload", "1", "--key", "k" * 513], "key has 513 bytes; at most 512"),
            (["--payload", "1", "--attempts-max", "0"], "attempts_max must be between 1 and 1000"),
            (["--payload", "1", "--schema-version", "99999999999"], "--schema-version"),
        ]:
            with self.subTest(args):
                said = self.refused("enqueue", "--topic", "t", *args)
                self.assertIn(expected, said)
                self.assertNotIn("canary", said)
        self.assertEqual([], self.events())


class EnqueueLinesTest(EnqueueCase):
    def test_lines_in_one_transaction_byte_for_byte(self):
        payloads = ['{ "b":1.0, "a":1e2,"a":"\\u00e9\\/" }', '"x"', "null", "12345678901234567890", "[ ]"]
        lines = [f'{{"topic":"t{i}" , "payload":  {payload} , "key":"k"}}' for i, payload in enumerate(payloads)]
        result = self.succeed("enqueue", stdin="\n".join(lines))
        self.assertEqual(len(payloads), len(result.out.splitlines()))
        out = self.succeed("events", "list", "--jsonl", "--payload").out
        for payload in payloads:
            self.assertIn(f'"payload":{payload}', out)

    def test_empty_input_and_empty_lines(self):
        self.assertEqual("", self.succeed("enqueue", stdin="").out)
        self.assertEqual({"ids": [], "repeated": []}, self.succeed("enqueue", "--json", stdin="\n \n").json)
        result = self.succeed("enqueue", "--json", stdin='\r\n{"topic":"a","payload":1}\r\n\n')
        self.assertEqual(1, len(result.json["ids"]))

    def test_a_wrong_line_is_named_and_nothing_is_written(self):
        good = '{"topic":"a","payload":1}\n'
        for line, expected in [
            ("nonsense", "it is not a JSON object in UTF-8"),
            ('{"topic":"a","payload":1', "it is not a JSON object"),
            ("[1]", "it is not a JSON object"),
            (b'{"topic":"a","payload":"\xff"}', "it is not a JSON object in UTF-8"),
            (b'{"topic":"a\x00","payload":1}', "it is not a JSON object in UTF-8"),
            ('{"topic":"a\\u0000","payload":1}', "not UTF-8 text without NUL"),
            ('{"topic":"\\ud800","payload":1}', "topic is not a text, or spells half a character"),
            ('{"topic":"a"}', "payload must be given once"),
            ('{"payload":1}', "topic is missing"),
            ('{"topic":"a","payload":1,"payload_base64":"AA=="}', "payload must be given once"),
            ('{"topic":"a","payload_base64":"canary"}', "payload_base64 must be base64 with padding"),
            ('{"topic":7,"payload":1}', "topic must be a text, not a number"),
            ('{"topic":"a","payload":1,"version":"1"}', "version must be a whole number"),
            ('{"topic":"a","payload":1,"hedaers":{}}', "'hedaers' is unknown; did you mean 'headers'?"),
            ('{"topic":"a","topic":"b","payload":1}', "topic is there twice"),
            ('{"topic":"a","payload":1,"id":"x"}', "id must be a UUID"),
            ('{"topic":"a","payload":1,"not_before":"x"}', "not_before must be a time"),
            ('{"topic":"a","payload":"' + "x" * 786431 + '"}', "payload has 786433 bytes"),
            ('{"topic":"' + "x" * 5_000_000 + '"}', "it is over 4194304 bytes"),
            ('{"topic":"a","payload":' + "[" * 1000 + "]" * 1000 + "}", "it is not a JSON object"),
        ]:
            with self.subTest(line[:60]):
                line = line if isinstance(line, bytes) else line.encode()
                said = self.refused("enqueue", stdin=good.encode() * 2 + line + b"\n" + good.encode())
                self.assertIn("standard input, line 3: ", said)
                self.assertIn(expected, said)
                self.assertIn("nothing was written", said)
                self.assertNotIn("canary", said)
        self.assertEqual([], self.events())

    def test_many_lines_all_or_nothing(self):
        lines = "".join(f'{{"topic":"t","payload":{i}}}\n' for i in range(5000))
        self.assertIn("line 5001", self.refused("enqueue", stdin=lines + "x\n"))
        self.assertEqual([], self.events())
        self.assertEqual(5000, len(self.succeed("enqueue", stdin=lines).out.splitlines()))
        self.assertEqual(list(range(5000)), [event["payload"] for event in self.events()])


if __name__ == "__main__":
    unittest.main()
