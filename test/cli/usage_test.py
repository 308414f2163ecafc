import os
import pathlib
import re
import subprocess
import unittest

from waybill_cli import BINARY, CliTest

COMMANDS = [["init"], ["migrate"], ["run"], ["demo"], ["enqueue"], ["status"], ["events"], ["events", "list"], ["events", "show"],
            ["config"], ["config", "check"], ["config", "show"], ["doctor"], ["version"], ["dead"], ["dead", "list"],
            ["dead", "show"], ["dead", "edit"], ["dead", "redrive"], ["dead", "dismiss"], ["blocked"], ["pause"], ["resume"],
            ["rewind"], ["destinations"], ["destinations", "list"], ["destinations", "forget"], ["operations"], ["clean"],
            ["anchor"], ["route"], ["route", "test"]]
DOCS = pathlib.Path(__file__).parents[2] / "docs" / "command-line.md"


class UsageTest(CliTest):
    def test_every_command_has_help_with_examples(self):
        for command in COMMANDS:
            with self.subTest(command):
                result = self.succeed(*command, "--help")
                self.assertIn("Examples:\n  waybill ", result.out)
                self.assertEqual("", result.err)
        self.assertIn("Ends with 0", self.succeed("--help").out)

    def test_the_manual_has_every_command_and_no_flag_that_is_none(self):
        table = DOCS.read_text().split("| command |")[1].split("\n\n")[0]
        listed = re.findall(r"`([^`]+)`", "\n".join(line.split("|")[1] for line in table.splitlines()[2:]))
        named = {}
        for entry in listed:
            words = re.findall(r"^[a-z ]+(?<! )", entry)[0].split()
            named[tuple(words)] = re.findall(r"--[a-z-]+", entry)
        groups = {("events",), ("config",), ("dead",), ("destinations",), ("route",)}
        self.assertEqual({tuple(command) for command in COMMANDS} - groups, set(named))
        for command, flags in named.items():
            shown = self.succeed(*command, "--help").out
            for flag in flags:
                self.assertIn(f"  {flag} ", shown, command)

    def test_wrong_usage_ends_with_2_and_says_where_to_look(self):
        for args, expected in [
            ([], "A subcommand is required; see waybill --help"),
            (["frobnicate"], "unknown command 'frobnicate'; see waybill --help"),
            (["stauts"], "unknown command 'stauts'; did you mean 'status'? See waybill --help"),
            (["events", "lst"], "unknown command 'lst'; did you mean 'list'? See waybill events --help"),
            (["status", "--jsn"], "unknown flag '--jsn'; did you mean '--json'? See waybill status --help"),
            (["run", "now"], "unknown argument 'now'; see waybill run --help"),
            (["status", "--config"], "--config: 1 required TEXT missing; see waybill status --help"),
            (["events", "show"], "id is required; see waybill events show --help"),
            (["events", "list", "--limit", "0"], "--limit: Value 0 not in range 1 to 10000"),
            (["events", "list", "--json", "--jsonl"], "--json excludes --jsonl"),
            (["enqueue", "--payload", "1"], "--payload requires --topic"),
            (["dead", "redirve"], "unknown command 'redirve'; did you mean 'redrive'? See waybill dead --help"),
            (["dead", "list", "--destinaton", "x"], "unknown flag '--destinaton'; did you mean '--destination'?"),
            (["pause"], "destination is required; see waybill pause --help"),
            (["pause", "a", "b"], "unknown argument 'b'; see waybill pause --help"),
            (["operations", "--limit", "0"], "--limit: Value 0 not in range 1 to 10000"),
            (["--set", "batch", "status"], "--set 'batch' must read KEY=VALUE"),
        ]:
            with self.subTest(args):
                self.assertIn(expected, self.refused(*args))

    def test_version(self):
        self.assertRegex(self.succeed("version").out, r"^waybill \d+\.\d+\.\d+\n")
        version = self.succeed("version", "--json").json
        self.assertRegex(version["version"], r"^\d+\.\d+\.\d+$")
        self.assertEqual(["postgresql", "sqlite"], [store["store"] for store in version["stores"]])
        self.assertTrue(all(store["schema_version"] >= 1 for store in version["stores"]))
        self.assertLessEqual({"file", "stdout", "null"}, set(version["destinations"]))
        self.assertEqual(version["version"] + "\n", self.succeed("--version").out)

    def test_security39_the_program_is_compiled_with_protection(self):
        headers = subprocess.run(["readelf", "-hldW", BINARY], check=True, capture_output=True, text=True).stdout
        self.assertRegex(headers, r"Type: +DYN", "position independent")
        self.assertRegex(headers, r"GNU_RELRO")
        self.assertRegex(headers, r"BIND_NOW")
        self.assertRegex(headers, r"GNU_STACK .* RW +0x", "the stack is not executable")
        symbols = subprocess.run(["readelf", "--dyn-syms", "-W", BINARY], check=True, capture_output=True, text=True).stdout
        self.assertIn("__stack_chk_fail", symbols)

    def test_output_that_cannot_be_written_is_a_failure(self):
        with open("/dev/full", "wb") as full:
            result = self.run_cli("version", stdout=full)
        self.assertEqual(1, result.code, result)
        self.assertIn("cannot write to the standard output: No space left on device", result.err)


class QuietTest(CliTest):
    def test_messages_but_not_errors_are_left_out(self):
        self.assertEqual("", self.succeed("init", "--quiet").err)
        self.assertEqual("", self.succeed("--quiet", "migrate").err)
        self.assertIn("waybill.toml exists", self.refused("init", "--quiet"))


class InitTest(CliTest):
    def test_writes_a_configuration_that_works_and_only_the_owner_reads(self):
        self.succeed("init")
        path = self.folder / "waybill.toml"
        self.assertEqual(0o600, path.stat().st_mode & 0o777)
        self.assertEqual("ok: waybill.toml\n", self.succeed("config", "check").out)

    def test_never_overwrites(self):
        path = self.write("waybill.toml", "mine")
        self.assertIn("waybill.toml exists and is left as it is", self.refused("init"))
        self.assertEqual("mine", path.read_text())

    def test_takes_a_store_and_a_name(self):
        self.succeed("init", "--store", "postgresql://relay@db/clinic", "clinic.toml")
        shown = self.succeed("config", "show", "--config", "clinic.toml").out
        self.assertIn('store = "postgresql://relay@db/clinic"', shown)

    def test_says_why_it_cannot_write(self):
        self.assertIn("gone/x.toml: cannot write: No such file", self.refused("init", "gone/x.toml"))
        self.assertIn("--store must begin with", self.refused("init", "--store", "mysql://db/x"))
        self.assertEqual([], os.listdir(self.folder))


if __name__ == "__main__":
    unittest.main()
