import json
import os
import re
import signal
import subprocess
import time
import unittest

from waybill_cli import BINARY, CliTest

NOWHERE = "018f3c1e-7b1a-7c3d-9e2f-0123456789ab"
EVENTS = '[destinations.events]\ntype = "file"\npath = "out.jsonl"\n'
MAIL = '[destinations.mail]\ntype = "file"\npath = "mail.jsonl"\n'


class DeadCase(CliTest):
    def setUp(self):
        super().setUp()
        self.embedded(EVENTS)

    def listed(self, *args):
        return self.succeed("dead", "list", "--json", *args).json["events"]

    def ids(self, *args):
        return [item["event"]["id"] for item in self.listed(*args)]

    def standing(self, event):
        [at] = self.succeed("events", "show", event, "--json").json["destinations"]
        return at["state"]

    def delivered(self):
        path = self.folder / "out.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class ListTest(DeadCase):
    def test_newest_first_with_everything(self):
        dead, held, _ = self.let_fail("dead.a", "held.b", "ok")
        items = self.listed()
        self.assertEqual([held, dead], [item["event"]["id"] for item in items])
        self.assertEqual({"destination", "standing", "since", "due", "attempts", "redrives", "edited", "edit", "error",
                          "event"},
                         set(items[0]))
        self.assertEqual(("events", "dead", 1, 0, False, "no such exchange 'clinic'", None),
                         tuple(items[1][key] for key in ["destination", "standing", "attempts", "redrives", "edited",
                                                         "error", "due"]))
        text = self.succeed("dead", "list").out
        self.assertRegex(text, r"^ID +DESTINATION +STANDING +ATTEMPTS +SINCE\n")
        self.assertIn("\n  dead.a: no such exchange 'clinic'\n", text)

    def test_filters(self):
        [a] = self.let_fail("dead.a", tenant="t", aggregate_type="order", aggregate_id="o-1", type="A")
        [b] = self.let_fail("dead.b", key="k")
        [c] = self.let_fail("held.c")
        for args, expected in [
            ([], [c, b, a]), (["--topic", "dead.*"], [b, a]), (["--type", "A"], [a]), (["--tenant", "t"], [a]),
            (["--aggregate", "order/o-1"], [a]), (["--aggregate", "order/*"], [a]), (["--key", "k"], [b]),
            (["--error", "exchange"], [b, a]), (["--error", "no such*"], [b, a]), (["--error", "such*"], []),
            (["--standing", "held"], [c]), (["--standing", "dead"], [b, a]),
            (["--standing", "dead", "--standing", "held"], [c, b, a]), (["--since", "1h"], [c, b, a]),
            (["--until", "1h"], []), (["--destination", "events"], [c, b, a]), ([a, c], [c, a]), ([NOWHERE], []),
        ]:
            with self.subTest(args):
                self.assertEqual(expected, self.ids(*args))

    def test_pages(self):
        ids = self.let_fail(*[f"dead.{n}" for n in range(5)])[::-1]
        page = self.succeed("dead", "list", "--json", "--limit", "2").json
        self.assertEqual(ids[:2], [item["event"]["id"] for item in page["events"]])
        self.assertEqual(ids[2:4], self.ids("--limit", "2", "--before", str(page["next_before"])))
        self.assertIsNone(self.succeed("dead", "list", "--json", "--limit", "6").json["next_before"])
        self.assertIn(f"there may be more: --before {page['next_before']}", self.succeed("dead", "list", "--limit", "2").err)
        self.assertEqual("", self.succeed("dead", "list", "--limit", "2", "--quiet").err)

    def test_a_page_does_not_end_in_the_middle_of_an_event(self):
        self.embedded(EVENTS + MAIL)
        ids = self.let_fail("dead.a", "dead.b")[::-1]
        self.relay_moodily("mail")
        found, before = [], []
        for _ in range(2):
            page = self.succeed("dead", "list", "--json", "--limit", "1", *before).json
            found += [(item["event"]["id"], item["destination"]) for item in page["events"]]
            before = ["--before", str(page["next_before"])]
        self.assertEqual(sorted((event, name) for event in ids for name in ["events", "mail"]), sorted(found))

    def test_payloads_only_when_asked_for(self):
        [event] = self.let_fail("dead.a", metadata={})
        for args in [["list"], ["list", "--json"], ["list", "--jsonl"], ["show", event], ["show", event, "--json"]]:
            self.assertNotRegex(self.succeed("dead", *args).out, r'"n": ?0')
        for args in [["list", "--json"], ["list", "--jsonl"], ["show", event], ["show", event, "--json"]]:
            self.assertRegex(self.succeed("dead", *args, "--payload").out, r'"n": ?0')

    def test_errors_are_cut_to_the_terminal(self):
        self.let_fail("dead." + 70 * "a")
        _, wide = self.on_a_terminal("dead", "list", columns=200)
        self.assertIn("no such exchange 'clinic'\r\n", wide)
        columns = len(wide.splitlines()[2]) - 5
        _, narrow = self.on_a_terminal("dead", "list", columns=columns)
        self.assertIn("no such exchange 'c…\r\n", narrow)
        self.assertLessEqual(max(len(line) for line in narrow.splitlines()), columns)

    def test_wrong_input(self):
        self.let_fail("dead.a")
        for args, expected in [
            (["--destination", "evnts"], "the store knows no destination 'evnts'; did you mean 'events'?"),
            (["--destination", "zzz"], "the store knows no destination 'zzz'; known here: events"),
            (["--standing", "ded"], "--standing 'ded' is none; did you mean 'dead'?"),
            (["--standing", "retrying"], "--standing 'retrying' is none; known here: dead, held"),
            (["--aggregate", "x"], "--aggregate 'x' must read TYPE/ID"),
            (["--since", "x"], "--since 'x' is no time"),
            (["x"], "'x' is no event id"),
        ]:
            with self.subTest(args):
                self.assertIn(expected, self.refused("dead", "list", *args))

    def test_events_list_by_standing(self):
        self.let_fail("retry.a", "retry.b", "dead.c", key="k")
        listed = lambda *args: [(item["event"]["topic"], item["standing"])
                                for item in self.succeed("events", "list", "--json", *args).json["events"]]
        self.assertEqual([("retry.a", "retrying")], listed("--standing", "retrying"))
        self.assertEqual([("dead.c", "blocked"), ("retry.b", "blocked")], listed("--standing", "blocked"))
        self.assertEqual([("retry.b", "blocked")], listed("--standing", "blocked", "--topic", "retry.*"))
        self.assertIn("--standing 'pending' is none", self.refused("events", "list", "--standing", "pending"))


class ShowTest(DeadCase):
    def test_event_attempts_and_standing(self):
        [event] = self.let_fail("dead.a")
        text = self.succeed("dead", "show", event).out
        self.assertIn(f"id              {event}\n", text)
        self.assertRegex(text, r"dead at events\n +since \S+, 1 attempt\n +no such exchange 'clinic'\n"
                               r"\S+ +attempt 1: rejected: no such exchange 'clinic'\n")
        for command in ["dead", "events"]:
            [at] = self.succeed(command, "show", event, "--json").json["destinations"]
            self.assertEqual(("events", "dead"), (at["destination"], at["state"]))
            self.assertEqual((1, 0, False), tuple(at["undelivered"][key] for key in ["attempts", "redrives", "edited"]))
            [attempt] = at["attempts"]
            self.assertEqual((1, "rejected", "no such exchange 'clinic'"),
                             (attempt["number"], attempt["outcome"], attempt["error"]))

    def test_what_is_not_dead(self):
        [event] = self.let_fail("ok")
        self.assertIn(f"is nowhere dead, held or expired; see 'waybill events show {event}'",
                      self.refused("dead", "show", event, code=1))
        self.assertIn("is nowhere dead, held or expired", self.refused("dead", "show", NOWHERE, code=1))
        self.assertIn("'7' is no event id", self.refused("dead", "show", "7"))
        [at] = self.succeed("events", "show", event, "--json").json["destinations"]
        self.assertEqual(("published", None, []), (at["state"], at["undelivered"], at["attempts"]))


class RedriveTest(DeadCase):
    def test_once_tells_what_is_tried_again_later(self):
        self.let_fail("retry.a", "dead.b", "held.c")
        result = self.run_cli("run", "--once")
        self.assertEqual(4, result.code, result)
        self.assertRegex(result.err, r"waybill: left at 'events': 1 retrying \(the next attempt at 2\S+Z\)\n$")

    def test_security13_preview_then_redrive_then_delivered(self):
        dead = self.let_fail("dead.a", "dead.b", "held.c", "ok")
        self.assertEqual("would redrive 2 dead letters of 'events'\n",
                         self.succeed("dead", "redrive", "--destination", "events", "--dry-run").out)
        self.assertEqual("dead", self.standing(dead[0]))
        result = self.succeed("dead", "redrive", "--destination", "events", "--yes")
        self.assertEqual("", result.out)
        self.assertRegex(result.err, r"^waybill: operation (\S+); if it is interrupted, add --operation \1 to go on\n"
                                     r"waybill: 2 dead letters of 'events' are on the way again\n$")
        self.assertEqual(["retrying", "retrying", "held", "published"], [self.standing(event) for event in dead])
        self.succeed("run", "--once")
        self.assertEqual(["dead.a", "dead.b"], [event["topic"] for event in self.delivered()])
        self.assertEqual([dead[2]], self.ids())

    def test_json(self):
        self.let_fail("dead.a", "dead.b")
        args = ["dead", "redrive", "--topic", "dead.a", "--json"]
        self.assertEqual({"kind": "redrive", "operation": None, "destination": "events", "dry_run": True, "matched": 1,
                          "changed": 0}, self.succeed(*args, "--dry-run").json)
        done = self.succeed(*args, "--yes", "--quiet")
        self.assertEqual("", done.err)
        [operation] = self.succeed("operations", "--json").json["operations"]
        self.assertEqual({"kind": "redrive", "operation": operation["id"], "destination": "events", "dry_run": False,
                          "matched": 1, "changed": 1}, done.json)
        self.assertEqual({"kind": "redrive", "operation": None, "destination": None, "dry_run": False, "matched": 0,
                          "changed": 0}, self.succeed(*args, "--yes").json)

    def test_security13_without_a_terminal_it_wants_yes(self):
        [event] = self.let_fail("dead.a")
        for verb in ["redrive", "dismiss"]:
            said = self.refused("dead", verb, "--all")
            self.assertIn(f"{verb} 1 dead letter of 'events'? There is no terminal to ask on; add --yes", said)
        self.assertEqual("dead", self.standing(event))
        self.assertEqual([], self.succeed("operations", "--json").json["operations"])

    def test_on_a_terminal_it_asks(self):
        [event] = self.let_fail("dead.a")
        for typed in ["n\n", "\n", "what\n", "\x04"]:
            code, shown = self.on_a_terminal("dead", "redrive", event, typed=typed)
            self.assertEqual(1, code, shown)
            self.assertIn("redrive 1 event of 'events'? [y/N] ", shown)
            self.assertIn("nothing was changed", shown)
        self.assertEqual("dead", self.standing(event))
        code, shown = self.on_a_terminal("dead", "redrive", event, typed="y\n")
        self.assertEqual(0, code, shown)
        self.assertIn("[##############################] 1/1", shown)
        self.assertEqual("retrying", self.standing(event))

    def test_says_which(self):
        [event] = self.let_fail("dead.a")
        for verb in ["redrive", "dismiss"]:
            self.assertIn("say which: ids, or flags such as --destination and --topic, or --all",
                          self.refused("dead", verb, "--yes"))
        self.assertEqual("dead", self.standing(event))
        self.succeed("dead", "redrive", "--all", "--yes")
        self.assertEqual("retrying", self.standing(event))

    def test_held_events_are_not_swept_along(self):
        _, held = self.let_fail("dead.a", "held.b")
        self.succeed("dead", "dismiss", "--all", "--yes")
        self.assertEqual("held", self.standing(held))
        self.assertEqual("would redrive 1 held event of 'events'\n",
                         self.succeed("dead", "redrive", "--standing", "held", "--dry-run").out)
        self.succeed("dead", "redrive", held, "--yes")
        self.assertEqual("retrying", self.standing(held))

    def test_ids_that_are_not_there(self):
        dead, fine = self.let_fail("dead.a", "ok")
        said = self.refused("dead", "redrive", fine, "--yes", code=1)
        self.assertIn(f"event {fine} is not dead, held or expired: it is published at 'events'", said)
        self.assertIn("nothing to redrive", said)
        self.assertIn(f"there is no event {NOWHERE}", self.refused("dead", "dismiss", NOWHERE, "--yes", code=1))
        result = self.run_cli("dead", "redrive", dead, fine, NOWHERE, "--yes", "--json")
        self.assertEqual(4, result.code, result)
        self.assertEqual(1, result.json["changed"])
        self.assertIn(f"event {fine} is not dead, held or expired at 'events': it is published at 'events'", result.err)
        self.assertIn(f"there is no event {NOWHERE}", result.err)
        self.assertEqual("retrying", self.standing(dead))

    def test_a_slow_one_can_be_interrupted_and_goes_on(self):
        self.let_fail(*["dead.a"] * 3)
        process = subprocess.Popen([BINARY, "dead", "redrive", "--all", "--yes", "--rate", "1/s"], cwd=self.folder,
                                   env=self.environment(), stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        operation = process.stderr.readline().split()[-4]
        while not self.succeed("operations", "--json").json["operations"]:
            pass
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=30)[1]
        self.assertEqual(130, process.returncode)
        self.assertIn(f"interrupted; 1 dead letter of 'events' is on the way again, add --operation {operation}", said)
        done = self.succeed("dead", "redrive", "--all", "--yes", "--operation", operation, "--json").json
        self.assertEqual(2, done["changed"])

    def test_several_destinations(self):
        self.embedded(EVENTS + MAIL)
        [event] = self.let_fail("dead.a")
        self.relay_moodily("mail")
        said = self.refused("dead", "redrive", event, "--yes")
        self.assertIn("several destinations have such events: 'events' (1), 'mail' (1); choose one with --destination", said)
        self.succeed("dead", "redrive", event, "--destination", "mail", "--yes")
        states = {at["destination"]: at["state"]
                  for at in self.succeed("events", "show", event, "--json").json["destinations"]}
        self.assertEqual({"events": "dead", "mail": "retrying"}, states)

    def test_a_rate_spreads_them(self):
        self.let_fail(*["dead.a"] * 5)
        begun = time.monotonic()
        done = self.succeed("dead", "redrive", "--all", "--yes", "--rate", "2/s", "--json").json
        self.assertEqual(5, done["changed"])
        self.assertGreaterEqual(time.monotonic() - begun, 2)  # Two at once, two after a second, one after two.
        for wrong in ["0", "x", "5/m", "-1"]:
            self.assertIn("is no rate", self.refused("dead", "redrive", "--all", "--yes", f"--rate={wrong}"))

    def test_many_in_batches(self):
        self.let_fail(*["dead.a", "ok"] * 1204)  # Something is delivered in between, else the destination is to blame.
        self.assertEqual("would redrive 1,204 dead letters of 'events'\n",
                         self.succeed("dead", "redrive", "--destination", "events", "--dry-run").out)
        done = self.succeed("dead", "redrive", "--destination", "events", "--yes", "--json")
        self.assertEqual((1204, 1204), (done.json["matched"], done.json["changed"]))
        [operation] = self.succeed("operations", "--json").json["operations"]
        self.assertEqual(1204, operation["events"])

    def test_an_operation_goes_on_and_touches_nothing_twice(self):
        self.let_fail("dead.a", "dead.b")
        first = self.succeed("dead", "redrive", "--topic", "dead.a", "--yes", "--json").json["operation"]
        self.relay_moodily()  # It dies again.
        self.assertEqual(2, len(self.ids()))
        for flags in [[], ["--topic", "dead.a"]]:
            again = self.succeed("dead", "redrive", *flags, "--yes", "--json", "--operation", first)
            self.assertEqual(0, again.json["changed"])
            self.assertIn(f"there is nothing left to redrive for operation {first}", again.err)
        self.assertEqual(2, len(self.ids()))
        self.assertEqual(1, len(self.succeed("operations", "--json").json["operations"]))
        self.assertIn("--operation '7' is no operation's id", self.refused("dead", "redrive", "--all", "--operation", "7"))
        self.assertIn("there is no operation", self.refused("dead", "redrive", "--operation", NOWHERE))

    def test_an_operation_is_not_continued_as_another(self):
        a, b = self.let_fail("dead.a", "dead.b", key="k")
        first = self.succeed("dead", "redrive", "--topic", "dead.a", "--since", "2h", "--yes", "--json").json["operation"]
        for args, expected in [
            (["dismiss", "--topic", "dead.a"], f"operation {first} is no dismiss but a redrive of 'events'"),
            (["redrive", "--topic", "dead.b", "--since", "2h"], "--topic was 'dead.a', is 'dead.b'"),
            (["redrive", "--since", "2h"], "--topic was 'dead.a', is not given"),
            (["redrive", "--all"], "--topic was 'dead.a', is not given; --since was '"),
            (["redrive", "--topic", "dead.a"], "--since was '"),
            (["redrive", "--topic", "dead.a", "--since", "2h", "--key", "k"], "--key was not given, is 'k'"),
            (["redrive", "--topic", "dead.a", "--since", "2h", "--standing", "held"], "--standing was 'dead', is 'held'"),
            (["redrive", "--topic", "dead.a", "--since", "2h", "--until", "2020-01-01T00:00:00Z"], "--until was '"),
            (["redrive", b], "the ids are others"),
        ]:
            with self.subTest(args):
                said = self.refused("dead", *args, "--yes", "--operation", first)
                self.assertIn(expected, said)
                self.assertIn("nothing was changed", said)
        self.assertEqual([b], self.ids())
        self.succeed("dead", "redrive", "--topic", "dead.a", "--since", "2h", "--yes", "--operation", first)

    def test_says_so_if_the_destination_is_paused(self):
        self.let_fail("dead.a")
        self.succeed("pause", "events")
        self.assertIn("'events' is paused: they wait for 'waybill resume events'",
                      self.succeed("dead", "redrive", "--all", "--yes").err)

    def test_who_did_it(self):
        self.let_fail("dead.a", "dead.b")
        self.succeed("dead", "redrive", "--topic", "dead.a", "--yes", env={"USER": "ada"})
        self.succeed("dead", "redrive", "--topic", "dead.b", "--yes", "--by", "ben, ticket 17")
        newest, oldest = self.succeed("operations", "--json").json["operations"]
        self.assertRegex(oldest["by"], r"^ada@.+")
        self.assertEqual("ben, ticket 17", newest["by"])


class DismissTest(DeadCase):
    def test_what_is_dismissed_is_gone_from_the_list_and_not_sent(self):
        dead, other = self.let_fail("dead.a", "dead.b")
        self.assertEqual("would dismiss 1 event of 'events'\n", self.succeed("dead", "dismiss", dead, "--dry-run").out)
        self.assertIn("1 event of 'events' is dismissed", self.succeed("dead", "dismiss", dead, "--yes").err)
        self.assertEqual([other], self.ids())
        self.assertEqual("dismissed", self.standing(dead))
        self.succeed("run", "--once")
        self.assertEqual([], self.delivered())
        self.assertIn("unknown flag '--rate'", self.refused("dead", "dismiss", "--all", "--rate", "1/s"))


class EditTest(DeadCase):
    def test_the_edited_event_is_what_arrives(self):
        [event] = self.let_fail("dead.a", headers={"a": "1"})
        self.assertEqual(f"would edit event {event} at 'events'\n",
                         self.succeed("dead", "edit", event, "--payload", "[1]", "--dry-run").out)
        self.assertFalse(self.listed()[0]["edited"])
        said = self.succeed("dead", "edit", event, "--payload", '{"mended": 1.0}', "--headers", '{"b":"2"}').err
        self.assertIn(f"next: waybill dead redrive {event} --destination events", said)
        self.assertTrue(self.listed()[0]["edited"])
        self.assertIn("dead.a (edited): no such", self.succeed("dead", "list").out)
        shown = self.succeed("dead", "show", event, "--payload").out
        self.assertRegex(shown, r", edited\n.*\n +headers instead: {\"b\":\"2\"}\n")
        self.assertTrue(shown.endswith('\npayload as it was written:\n{"n": 0}\n\n'
                                       'payload edited for events, sent instead:\n{"mended": 1.0}\n'), shown)
        self.assertNotIn("mended", self.succeed("dead", "show", event).out)
        self.assertEqual({"headers": {"b": "2"}}, self.listed()[0]["edit"])
        [item] = self.listed("--payload")
        self.assertEqual(({"n": 0}, {"payload": {"mended": 1.0}, "headers": {"b": "2"}}),
                         (item["event"]["payload"], item["edit"]))
        [at] = self.succeed("dead", "show", event, "--json", "--payload").json["destinations"]
        self.assertEqual({"mended": 1.0}, at["undelivered"]["edit"]["payload"])
        self.succeed("dead", "redrive", event, "--yes")
        self.succeed("run", "--once")
        [arrived] = self.delivered()
        self.assertEqual(({"mended": 1.0}, {"b": "2"}), (arrived["payload"], arrived["headers"]))
        self.assertEqual(["redrive", "edit"],
                         [operation["kind"] for operation in self.succeed("operations", "--json").json["operations"]])

    def test_json_and_files(self):
        [event] = self.let_fail("dead.a")
        self.write("new.json", "[ 2 ]")
        done = self.succeed("dead", "edit", event, "--destination", "events", "--payload-file", "new.json", "--json").json
        [operation] = self.succeed("operations", "--json").json["operations"]
        self.assertEqual({"kind": "edit", "operation": operation["id"], "destination": "events", "event": event,
                          "dry_run": False, "payload": True, "headers": False}, done)

    def test_wrong_input_changes_nothing(self):
        dead, fine = self.let_fail("dead.a", "ok")
        for args, expected in [
            ([dead], "there is no terminal to edit on; give --payload, --payload-file or --headers"),
            ([dead, "--payload", "{canary"], "payload is not JSON"),
            ([dead, "--payload", '"' + "x" * 100_000 + '"', "--payload-file", "x"], "give one of --payload"),
            ([dead, "--payload-file", "gone"], "cannot read the payload from 'gone'"),
            ([dead, "--headers", "[]"], "--headers is not a JSON object"),
            ([dead, "--headers", '{"a":1}'], "--headers: 'a' must be a text"),
            ([dead, "--headers", '{"a":"1\\r\\nb: 2"}'], "headers contains a control character"),
            ([dead, "--payload", "1", "--destination", "evnts"], "did you mean 'events'?"),
            ([fine, "--payload", "1"], f"event {fine} is neither dead, held nor expired"),
            ([NOWHERE, "--payload", "1"], "is neither dead, held nor expired"),
            (["7", "--payload", "1"], "'7' is no event id"),
        ]:
            with self.subTest(args):
                said = self.refused("dead", "edit", *args)
                self.assertIn(expected, said)
                self.assertNotIn("canary", said)
        self.assertFalse(self.listed()[0]["edited"])

    def editor(self, script):
        path = self.write("editor", f"#!/bin/sh\n{script}\n", mode=0o700)
        return {"EDITOR": str(path), "TMPDIR": str(self.folder)}

    def test_in_an_editor(self):
        [event] = self.let_fail("dead.a")
        env = self.editor('sed -i "s/0/17/" "$1"; echo >> "$1"')
        code, shown = self.on_a_terminal("dead", "edit", event, env=env)
        self.assertEqual(0, code, shown)
        self.succeed("dead", "redrive", event, "--yes")
        self.succeed("run", "--once")
        self.assertEqual({"n": 17}, self.delivered()[0]["payload"])
        self.assertEqual([], [name for name in os.listdir(self.folder) if name.startswith("waybill-")])

    def test_an_editor_begins_with_what_was_edited_before(self):
        [event] = self.let_fail("dead.a")
        self.succeed("dead", "edit", event, "--payload", '{\n"m":\n1}')
        code, shown = self.on_a_terminal("dead", "edit", event, env=self.editor('sed -i s/m/mended/ "$1"'))
        self.assertEqual(0, code, shown)
        [line] = self.succeed("dead", "list", "--jsonl", "--payload").out.splitlines()
        self.assertEqual({"mended": 1}, json.loads(line)["edit"]["payload"])

    def test_in_an_editor_that_changes_nothing_or_breaks_it(self):
        [event] = self.let_fail("dead.a")
        code, shown = self.on_a_terminal("dead", "edit", event, env=self.editor("true"))
        self.assertEqual(0, code, shown)
        self.assertIn("nothing was changed", shown)
        code, shown = self.on_a_terminal("dead", "edit", event, env=self.editor("exit 3"))
        self.assertEqual(2, code, shown)
        code, shown = self.on_a_terminal("dead", "edit", event, env=self.editor('echo x > "$1"'), typed="y\nn\n")
        self.assertEqual(2, code, shown)
        self.assertEqual(2, shown.count("this is not JSON; edit it again? [y/N]"))
        self.assertFalse(self.listed()[0]["edited"])


class BlockedTest(DeadCase):
    def test_keys_that_wait(self):
        first, *_ = self.let_fail("retry.a", "retry.b", "ok", key="k", tenant="t")
        [key] = self.succeed("blocked", "--json").json["keys"]
        self.assertEqual({"destination", "tenant", "key", "events", "first", "standing", "error", "since", "due"}, set(key))
        self.assertEqual(("events", "t", "k", 3, first, "retrying", "not now"),
                         (key["destination"], key["tenant"], key["key"], key["events"]["value"], key["first"],
                          key["standing"], key["error"]))
        text = self.succeed("blocked", "--destination", "events").out
        self.assertRegex(text, r"events +t +k +3 +retrying +\S+ +in \S+\n  first " + first + r": not now\n")
        self.assertIn("did you mean 'events'?", self.refused("blocked", "--destination", "evnts"))

    def test_status_shows_it_all(self):
        self.let_fail("retry.a", "retry.b", key="k")
        self.let_fail("dead.a", "held.b")
        result = self.run_cli("status", "--check", "--json")
        self.assertEqual(4, result.code, result)
        [at] = result.json["destinations"]
        self.assertEqual({"retrying": 1, "blocked": 1, "scheduled": 0, "held": 1, "expired": 0, "expired_unknown": 0, "dead": 1, "dismissed": 0},
                         {standing: count["value"] for standing, count in at["undelivered"].items()})
        self.assertEqual((1, False), (at["blocked_keys"]["value"], at["paused"]))
        self.assertEqual(["no-relay", "held", "dead"], [alert["alert"] for alert in result.json["alerts"]])
        text = self.succeed("status").out
        self.assertRegex(text, r"DESTINATION +PENDING .*\nevents +0 +- ")
        self.assertRegex(text, r"UNDELIVERED AT +RETRYING +BLOCKED +SCHEDULED +HELD +EXPIRED +DEAD\n"
                               r"events +1 +1 \(1 key\) +0 +1 +0 +1\n")

    def test_a_dead_relay_does_not_pass_the_check(self):
        self.let_fail("retry.a", "retry.b", key="k")
        result = self.run_cli("status", "--check")
        self.assertEqual(4, result.code, result)
        self.assertIn("alert events: 1 event retrying, 1 blocked, and no relay is alive", result.out)
        result = self.run_cli("doctor")
        self.assertEqual(4, result.code, result)
        self.assertIn("problem  alert no-relay: events: 1 event retrying, 1 blocked, and no relay is alive", result.out)


class WidthTest(DeadCase):
    def test_tables_fit_80_columns(self):
        long = "a-destination-" + 49 * "x"
        self.embedded(f'[destinations.{long}]\ntype = "file"\npath = "out.jsonl"\n')
        ids = self.let_fail(*["dead." + 100 * "é", "retry." + 200 * "t", "ok"], destination=long, key=300 * "k",
                            tenant=200 * "o")
        self.succeed("dead", "edit", ids[0], "--destination", long, "--headers", json.dumps({"h": 200 * "v"}))
        self.succeed("pause", long, "--by", 100 * "b")
        for command in [["status"], ["status", "--all"], ["events", "list"], ["dead", "list"], ["blocked"],
                        ["events", "list", "--standing", "retrying"], ["destinations", "list"], ["operations"]]:
            with self.subTest(command):
                lines = [line for line in self.succeed(*command).out.splitlines() if not line.startswith("alert ")]
                self.assertLessEqual(2, len(lines))
                self.assertEqual([], [line for line in lines if len(line) > 80])
                self.assertEqual([], [line for line in lines if line != line.rstrip()])
                wide = self.succeed(*command, env={"COLUMNS": "700"}).out
                self.assertIn(long if command[0] != "events" or len(command) > 2 else 200 * "o", wide)
        for event in ids:
            self.assertIn(event, self.succeed("events", "list").out)


class SignalTest(DeadCase):
    def test_an_interrupted_redrive_says_how_to_go_on(self):
        self.let_fail(*["dead.a", "ok"] * 1200)
        process = subprocess.Popen([BINARY, "dead", "redrive", "--all", "--yes"], cwd=self.folder, env=self.environment(),
                                   stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        first = process.stderr.readline().decode()
        operation = re.search(r"--operation (\S+)", first).group(1)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
        # It may have been done before the signal came.
        self.assertIn(process.returncode, [0, 143])
        if self.ids():
            self.succeed("dead", "redrive", "--all", "--yes", "--operation", operation)
        self.assertEqual([], self.ids())
        [recorded] = self.succeed("operations", "--json").json["operations"]
        self.assertEqual((operation, 1200), (recorded["id"], recorded["events"]))


if __name__ == "__main__":
    unittest.main()
