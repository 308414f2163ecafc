#!/usr/bin/python3
"""Holds check.py to the table of cases: each history must be blamed on the right invariant, the sound ones on none."""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest

import broken_cases  # noqa: F401  (fills the table)
import check
from cases import CASES, relay_away
from story import Event, Story

HERE = os.path.dirname(os.path.abspath(__file__))


def judge(arguments):
    """Returns (exit code, what was printed)."""
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.redirect_stderr(printed):
        code = check.main(arguments)
    return code, printed.getvalue()


class InAFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="waybill-check-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name


class CheckTest(InAFolder):
    def test_every_case_is_blamed_on_what_it_breaks(self):
        for name, kinds, damage in CASES:
            with self.subTest(name):
                story = Story()
                damage(story)
                code, printed = judge(story.save(self.folder) + ["--json"])
                self.assertIn(code, (0, 1), printed)
                found = json.loads(printed)["violations"]
                self.assertEqual({violation["kind"] for violation in found}, kinds, printed)
                self.assertEqual(code, 1 if kinds else 0)
                self.assertTrue(all(violation["evidence"] for violation in found))

    def test_the_table_covers_every_kind_and_is_long_enough(self):
        self.assertEqual(set().union(*(kinds for _, kinds, _ in CASES)), set(check.KINDS))
        self.assertGreaterEqual(sum(bool(kinds) for _, kinds, _ in CASES), 60)
        names = [name for name, _, _ in CASES]
        self.assertEqual(len(names), len(set(names)))

    def test_evidence_names_ids_and_lines(self):
        story = Story()
        story.swap(9, 15)
        story.not_delivered(42)
        _, printed = judge(story.save(self.folder))
        self.assertIn(f'{{"id": "{story.event(42).id}", "tenant": "one", "key": "a", "n": 15}}', printed)
        self.assertIn('I3 overtaken: 2 x first delivered after a later event of its key', printed)
        self.assertIn('"line": 15, "by": {"n": 6, "line": 10}', printed)
        self.assertTrue(printed.endswith("verdict: violated\n"))

    def test_evidence_is_bounded_but_counts_are_exact(self):
        story = Story()
        story.lines = []
        _, printed = judge(story.save(self.folder) + ["--json"])
        (lost,) = json.loads(printed)["violations"]
        self.assertEqual((lost["count"], len(lost["evidence"])), (60, check.EVIDENCE_MAX))

    def test_counts(self):
        story = Story()
        relay_away(story)
        story.outcome(2, "info")
        story.outcome(3, None)
        _, printed = judge(story.save(self.folder) + ["--json"])
        counts = json.loads(printed)["counts"]
        self.assertEqual({"attempted": 60, "ok": 56, "rolled_back": 0, "outcome_unknown": 4, "committed": 60, "keys": 3,
                          "deliveries": 70, "duplicates": 10, "duplicates_allowed": 10, "given_up": 0,
                          "attempts_on_record": 0, "cut_lines": 0, "cut_producer_lines": 0,
                          "faults": {"kill": 1, "stop": 0, "crash": 0, "broker": 0, "failover": 0, "term": 0}}, counts)

    def test_a_cut_producers_log_is_readable(self):
        arguments = Story().save(self.folder)
        with open(arguments[1], "ab") as file:
            file.write(b'{"op":"att')
        self.assertEqual(judge(arguments)[0], 0)

    def test_as_a_program(self):
        arguments = [sys.executable, os.path.join(HERE, "check.py"), *Story().save(self.folder)]
        done = subprocess.run(arguments, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("verdict: clean", done.stdout)


ATTEMPT = '{"op":"attempt","run":"r","writer":1,"tx":99,"tenant":"t","key":"a","n":1,"id":"%s"}\n'
BAD = [  # (which file, what is put at its end, what must be said)
    ("--producers", "hello\n", "Expecting value"),
    ("--producers", "[]\n", "not an object"),
    ("--producers", '{"op":"maybe","run":"r","writer":1,"tx":1}\n', "KeyError(('r', 1, 1))"),
    ("--producers", '{"op":"ok","run":"r","writer":1,"tx":9999}\n', "KeyError(('r', 1, 9999))"),
    ("--producers", ATTEMPT % "7" + '{"op":"maybe","run":"r","writer":1,"tx":99}\n', "not an id"),
    ("--producers", ATTEMPT.replace('"n":1,', "") % Event(9, "t", "a", 1).id, "KeyError('n')"),
    ("--producers", ATTEMPT.replace('"r"', '"s"') % Event(9, "t", "a", 1).id, "KeyError('s')"),
    ("--producers", ATTEMPT % Event(1000, "t", "a", 1).id, "attempted twice"),
    ("--producers", ATTEMPT % Event(9, "t", "a", 1).id + '{"op":"maybe","run":"r","writer":1,"tx":99}\n', "'maybe'"),
    ("--events", "1,2\n", "shorter than"),
    ("--events", "x,1,1,one,test,a,,,{}\n", "not an id"),
    ("--events", Event(9, "t", "a", 1).id + ",x,1,one,test,a,,,{}\n", "invalid literal"),
    ("--events", "\udcff\n", "can't decode"),
    ("--undelivered", "7,dead\n", "not an id"),
    ("--undelivered", "1,2,3\n", "longer than"),
    ("--attempts", "7,retry,1\n", "not an id"),
    ("--attempts", Event(1000, "t", "a", 1).id + ",retry,noon\n", "could not convert"),
    ("--faults", '{"fault":"rain","relays":1,"from":0,"to":0}\n', "'rain'"),
    ("--faults", '{"fault":"kill","relays":1}\n', "'from'"),
    ("--faults", '{"fault', "cut"),
]


class BadInputTest(InAFolder):
    def test_what_cannot_be_read_is_not_judged(self):
        for option, tail, said in BAD:
            with self.subTest(said):
                arguments = Story().save(self.folder)
                with open(arguments[arguments.index(option) + 1], "ab") as file:
                    file.write(tail.encode(errors="surrogateescape"))
                code, printed = judge(arguments)
                self.assertEqual(code, 2, printed)
                self.assertIn("check: ", printed)
                self.assertIn(said, printed)

    def test_a_missing_file(self):
        for option in ("--producers", "--deliveries", "--events", "--undelivered", "--attempts", "--faults"):
            arguments = Story().save(self.folder)
            os.remove(arguments[arguments.index(option) + 1])
            self.assertEqual(judge(arguments)[0], 2)

    def test_a_missing_column(self):
        arguments = Story().save(self.folder)
        path = arguments[arguments.index("--events") + 1]
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace("tenant", "tenants", 1))
        self.assertEqual(judge(arguments)[0], 2)

    def test_nothing_at_all_is_no_proof(self):
        story = Story()
        story.transactions, story.rows, story.lines = [], [], []
        self.assertEqual(judge(story.save(self.folder))[0], 2)


if __name__ == "__main__":
    unittest.main()
