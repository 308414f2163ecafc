#!/usr/bin/python3
"""Tests the chaos run itself, without waybill: a right relay must pass, each wrong one be caught for what it does."""

import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PRODUCER = sys.argv.pop(1)


class ChaosTest(unittest.TestCase):
    def chaos(self, relay, arguments):
        """Returns (exit code, what was printed)."""
        with tempfile.TemporaryDirectory(prefix="waybill-chaos-test-") as folder:
            os.chmod(folder, 0o755)  # For the server, which has a user of its own.
            command = [sys.executable, "-B", f"{HERE}/chaos.py", "--producer", PRODUCER, "--waybill",
                       f"{sys.executable} -B {HERE}/fake_relay.py {relay}", "--lease", "1", *arguments.split()]
            done = subprocess.run(command, env=os.environ | {"TMPDIR": folder}, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, check=False)
        print(done.stdout)
        return done.returncode, done.stdout

    def assert_caught(self, relay, kind, arguments, tries=1):
        """Within so many tries: what a fault comes to may depend on the moment."""
        code = 0
        while tries > 0 and code == 0:
            tries -= 1
            code, printed = self.chaos("--broken " + relay, arguments)
        self.assertEqual(code, 1)
        self.assertIn(kind, printed)

    def test_a_right_relay_passes(self):
        code, printed = self.chaos("", "--events 6000 --kills 5 --crashes 2")
        self.assertEqual(code, 0)
        self.assertIn(": caught", printed)

    def test_a_cursor_loses_late_commits(self):
        self.assert_caught("cursor", "I1 lost:", "--events 2000 --kills 0 --crashes 0")

    def test_settling_first_loses_what_a_kill_interrupts(self):
        self.assert_caught("settle-first", "I1 lost:",  # With this seed the kills come first, well apart.
                           "--events 8000 --kills 4 --crashes 0 --relays 1 --seed 409",
                           tries=4)  # A kill may find it in between two batches.

    def test_publishing_without_a_claim_makes_phantoms(self):
        self.assert_caught("unclaimed", "I2 phantom:", "--events 2000 --kills 0 --crashes 2 --sync-commit off",
                           tries=4)  # A crash may find everything on disk.

    def test_the_order_of_transaction_ids_is_not_the_keys_order(self):
        self.assert_caught("xid-order", "I3 overtaken:", "--events 2000 --kills 0 --crashes 0")


if __name__ == "__main__":
    unittest.main(verbosity=2)
