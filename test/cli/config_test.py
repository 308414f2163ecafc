import pathlib
import re
import resource
import subprocess
import unittest

from waybill_cli import BINARY, CliTest

NULL = '[destinations.null]\ntype = "null"\n'
GOOD = 'store = "sqlite:test.db"\n'


class ConfigCheckTest(CliTest):
    def problems(self, text, mode=0o600, env=None):
        self.write("waybill.toml", text, mode)
        plain = self.refused("config", "check", env=env)
        as_json = self.run_cli("config", "check", "--json", env=env)
        self.assertEqual(2, as_json.code)
        self.assertFalse(as_json.json["ok"])
        self.assertEqual([f"waybill: {problem}" for problem in as_json.json["problems"]], plain.splitlines())
        return plain

    def test_a_good_one(self):
        self.write("waybill.toml", GOOD + '[destinations.a]\ntype = "stdout"\nmatch = { topic = "x.*", type = ["A", "B"] }\n'
                                          'start = "now"\nretry = { first_delay = "2s", attempts = "unlimited" }\n')
        self.assertEqual("ok: waybill.toml\n", self.succeed("config", "check").out)
        self.assertEqual({"ok": True, "file": "waybill.toml", "problems": [], "warnings": []},
                         self.succeed("config", "check", "--json").json)

    def test_one_destination_writes_to_stdout(self):
        found = self.problems(GOOD + '[destinations.a]\ntype = "stdout"\n[destinations.b]\ntype = "stdout"\n')
        self.assertIn("destinations.b.type: destination 'a' writes to the standard output already", found)

    def test_all_problems_at_once_with_their_places(self):
        found = self.problems(
            'store = "mysql://db/x"\nbacth = 5\nlease = 5\npoll_busy = "30s"\n'
            '[destinations.mail]\ntype = "fiel"\n[destinations.log]\ntype = "file"\n[destinations.log.retry]\n'
            '  attemps = 3\n[destinations."Bad Name"]\ntype = "null"\n')
        for expected in [
            'waybill.toml:1:1: store: must begin with "postgresql://" or "sqlite:"',
            "waybill.toml:2:1: bacth: unknown key; did you mean 'batch'?",
            'waybill.toml:3:1: lease: must be a duration such as "250ms"',
            "poll_idle: must not be shorter than poll_busy",
            "waybill.toml:6:1: destinations.mail.type: must be one of file, ",
            "did you mean 'file'?",
            "waybill.toml:7:15: destinations.log.path: is missing",
            "waybill.toml:10:3: destinations.log.retry.attemps: unknown key; did you mean 'attempts'?",
            "waybill.toml:11:15: destinations.Bad Name: the name must be",
        ]:
            self.assertIn(expected, found)

    def test_not_toml(self):
        for text in [b"store = ", b"store = \"\xff\"\n", b"\x00", b"store = \"a\"\nstore = \"b\"\n", b"[x\n"]:
            with self.subTest(text):
                self.assertRegex(self.problems(text), r"^waybill: waybill\.toml:\d+:\d+: not TOML: ")

    def test_wrong_stores(self):
        for url, expected in [("", "is missing"), ("db", "must begin with"), ("sqlite:", "names no file"),
                              ("sqlite://x.db", "takes no host"), ("sqlite::memory:", "must be a file")]:
            with self.subTest(url):
                self.assertIn(expected, self.problems(f'store = "{url}"\n'))

    def test_no_store_at_all(self):
        self.assertIn("store: is missing; set it to", self.refused("config", "check"))
        self.assertIn("store: is missing; set it to", self.refused("status"))

    def test_security30_an_inline_secret_others_can_read(self):
        text = 'store = "postgresql://relay:canary@db/clinic"\n'
        found = self.problems(text, mode=0o644)
        self.assertIn("waybill.toml:1:1: store: holds a secret, and others can read this file (mode 0644); "
                      "chmod 600 waybill.toml, or use store_file or ${env:NAME}", found)
        self.assertNotIn("canary", found)
        self.write("waybill.toml", text, mode=0o600)
        self.succeed("config", "check")

    def test_missing_files(self):
        self.assertIn("gone.toml: cannot read the configuration: No such file or directory",
                      self.refused("status", "--config", "gone.toml"))
        self.assertIn("it is a folder", self.refused("status", "--config", "."))
        self.write("waybill.toml", 'store_file = "gone"\n')
        self.assertIn("waybill.toml:1:1: store_file: cannot read 'gone'", self.refused("status"))

    def test_listen_is_checked_as_run_does(self):
        for wrong, expected in [("0.0.0.0:8780", "must be a loopback address"), ("db:80", "must be a loopback address"),
                                ("127.0.0.1:", "must be an address and a port"),
                                ("127.0.0.1:99999999999", "must be an address and a port"),
                                ("127.0.0.1", "must be an address and a port")]:
            with self.subTest(wrong):
                self.assertIn(f"listen: {expected}", self.problems(GOOD + f'listen = "{wrong}"\n'))
        for good in ["127.0.0.1:0", "[::1]:8780", "localhost:1", "off"]:
            self.write("waybill.toml", GOOD + f'listen = "{good}"\n')
            self.succeed("config", "check")

    def test_limits_of_alerts(self):
        self.write("waybill.toml", GOOD + '[alerts]\npending_max = "unlimited"\nage_max = "5m"\ndead_max = 3\npaused = false\n')
        settings = {s["key"]: s["value"] for s in self.succeed("config", "show", "--json").json["settings"]}
        self.assertEqual(("unlimited", "5m", "5s", 10, 10, 10, 0, 0, 3, False),
                         tuple(settings[f"alerts.{key}"] for key in ["pending_max", "age_max", "lag_max", "retrying_max",
                                                                     "attempts_max", "blocked_keys_max", "held_max", "expired_max",
                                                                     "dead_max", "paused"]))
        found = self.problems(GOOD + '[alerts]\npending_max = -1\nage_max = 5\ndeadmax = 1\npaused = "no"\n')
        for expected in ["alerts.pending_max: must be a whole number", "alerts.age_max: must be a duration",
                         "alerts.deadmax: unknown key; did you mean 'dead_max'?", "alerts.paused: must be"]:
            self.assertIn(expected, found)


class PrecedenceTest(CliTest):
    def origin(self, key, *args, env=None):
        settings = self.succeed("config", "show", "--json", *args, env=env).json["settings"]
        return next((s["value"], s["origin"]) for s in settings if s["key"] == key)

    def test_flags_environment_file_default(self):
        self.write("waybill.toml", GOOD)
        self.assertEqual((1000, "default"), self.origin("batch"))
        self.write("waybill.toml", GOOD + "batch = 1\n")
        self.assertEqual((1, "waybill.toml:2:1"), self.origin("batch"))
        env = {"WAYBILL_BATCH": "2"}
        self.assertEqual((2, "environment WAYBILL_BATCH"), self.origin("batch", env=env))
        self.assertEqual((3, "--set batch"), self.origin("batch", "--set", "batch=3", env=env))
        self.assertEqual(("debug", "--set log.level"), self.origin("log.level", "--set", "log.level=debug"))

    def test_the_store_has_more_names(self):
        env = {"DATABASE_URL": "postgres://db/a"}
        self.assertEqual(("postgres://db/a", "environment DATABASE_URL"), self.origin("store", env=env))
        env["WAYBILL_STORE"] = "postgres://db/b"
        self.assertIn("environment WAYBILL_STORE and DATABASE_URL name different stores; unset one of them",
                      self.refused("status", env=env))
        self.assertEqual(("sqlite:c.db", "--store"), self.origin("store", "--store", "sqlite:c.db", env=env))

    def test_where_the_file_is_looked_for(self):
        (self.folder / ".config" / "waybill").mkdir(parents=True)
        self.write(".config/waybill/waybill.toml", GOOD + "batch = 1\n")
        self.assertEqual(1, self.origin("batch")[0])
        (self.folder / "xdg" / "waybill").mkdir(parents=True)
        self.write("xdg/waybill/waybill.toml", GOOD + "batch = 2\n")
        env = {"XDG_CONFIG_HOME": str(self.folder / "xdg")}
        self.assertEqual(2, self.origin("batch", env=env)[0])
        self.write("waybill.toml", GOOD + "batch = 3\n")
        self.assertEqual(3, self.origin("batch", env=env)[0])
        self.write("other.toml", GOOD + "batch = 4\n")
        self.assertEqual(4, self.origin("batch", "--config", "other.toml", env=env)[0])

    def test_wrong_values_name_their_source(self):
        env = {"WAYBILL_STORE": "sqlite:test.db", "WAYBILL_BATCH": "many", "WAYBILL_LOG_LEVEL": "loud"}
        found = self.refused("status", "--set", "lease=soon", "--set", "colour=red", env=env)
        self.assertIn("environment WAYBILL_BATCH: batch: must be a whole number from 1 to 10000", found)
        self.assertIn("environment WAYBILL_LOG_LEVEL: log.level: must be one of debug, info, warning, error", found)
        self.assertIn("--set lease: lease: must be a duration", found)
        self.assertIn("--set colour: unknown key", found)

    def test_a_misspelt_variable_is_a_warning(self):
        result = self.succeed("config", "check", env={"WAYBILL_STORE": "sqlite:t.db", "WAYBILL_BACTH": "1"})
        self.assertIn("warning: environment WAYBILL_BACTH: means nothing; did you mean 'WAYBILL_BATCH'?", result.err)


class ConfigShowTest(CliTest):
    def test_security31_secrets_are_hidden_everywhere(self):
        env = {"PASSWORD": "canary"}
        self.write("secret", "postgresql://relay:canary@db/clinic\n")
        for text in ['store = "postgresql://relay:canary@db/clinic"', 'store = "postgresql://db/c?password=canary"',
                     'store = "postgresql://relay:${env:PASSWORD}@db/clinic"', 'store_file = "secret"']:
            with self.subTest(text):
                self.write("waybill.toml", text + "\n")
                for args in [[], ["--origin"], ["--json"]]:
                    result = self.succeed("config", "show", *args, env=env)
                    self.assertNotIn("canary", result.out + result.err)
                    self.assertIn("store", result.out)

    def test_security31_passwords_are_hidden_however_they_are_written(self):
        nats = '[destinations.n]\ntype = "nats"\nservers = '
        for text in ['store = "postgresql://db/c?pass%77ord=canary"', 'store = "postgresql://db/c?sslpassword=canary#canary"',
                     'store = "host=db password=canary"', GOOD + nats + '["nats://u:canary@a", "u:canary@b"]',
                     GOOD + nats + '"nats://u:canary@a:1,nats://v:canary@b:2"',
                     GOOD + '[destinations.r]\ntype = "rabbitmq"\npassword = "x"\nurl = "amqp://u:canary@a,b/v"\n']:
            with self.subTest(text):
                self.write("waybill.toml", text + "\n")
                for args in [[], ["--json"]]:
                    result = self.run_cli("config", "show", *args)
                    self.assertNotIn("canary", result.out + result.err)
                    self.assertIn("*****", result.out)

    def test_a_password_on_the_command_line(self):
        url = "postgresql://relay:canary@127.0.0.1:1/clinic"
        result = self.succeed("config", "check", "--store", url)
        self.assertIn("warning: --store: store: holds a password on the command line, which others can see in the list of "
                      "processes; use the environment variable WAYBILL_STORE, store_file or ${env:NAME}", result.err)
        self.assertNotIn("canary", result.out + result.err)
        self.write("url", url + "\n")
        quiet = self.succeed("config", "show", "--store-file", "url")
        self.assertNotIn("warning", quiet.err)
        self.assertIn('store = "postgresql://relay:********@127.0.0.1:1/clinic"', quiet.out)
        self.write("url", url + "\n", mode=0o644)
        self.assertIn("--store-file: store_file: 'url' holds a secret, and others can read it (mode 0644); chmod 600 url",
                      self.refused("status", "--store-file", "url"))

    def test_security34_a_running_process_shows_no_secret(self):
        """Neither in the list of processes nor in a core dump."""
        limits = resource.getrlimit(resource.RLIMIT_CORE)
        for allowed in [False, True]:
            process = subprocess.Popen(
                [BINARY, "run", "--store=postgresql://relay:canary@127.0.0.1:1/clinic", "--set", "listen=off",
                 "--set", f"core_dumps={str(allowed).lower()}", "--config", str(self.write("w.toml", NULL))],
                cwd=self.folder, env=self.environment(), stderr=subprocess.PIPE, text=True)
            self.addCleanup(process.kill)
            self.addCleanup(process.stderr.close)
            while "the store is away" not in (line := process.stderr.readline()):
                self.assertTrue(line, "it ended")
            proc = pathlib.Path(f"/proc/{process.pid}")
            arguments = (proc / "cmdline").read_bytes()
            self.assertNotIn(b"canary", arguments)
            self.assertIn(b"--store=postgresql://relay:******@127.0.0.1:1/clinic", arguments)
            soft = re.search(r"Max core file size +(\S+)", (proc / "limits").read_text()).group(1)
            self.assertEqual(allowed and limits[0] != 0, soft != "0")
            process.terminate()
            process.wait(20)

    def test_the_output_is_a_configuration(self):
        self.write("waybill.toml", GOOD + '[destinations.a]\ntype = "file"\npath = "x"\nmatch = { topic = ["a", "b"] }\n')
        shown = self.succeed("config", "show").out
        self.write("again.toml", shown)
        self.assertEqual(shown, self.succeed("config", "show", "--config", "again.toml").out)

    def test_a_reference_that_leads_nowhere(self):
        self.write("waybill.toml", 'store = "postgresql://relay:${env:GONE}@db/clinic"\n')
        result = self.run_cli("config", "show")
        self.assertEqual(2, result.code)
        self.assertIn("waybill.toml:1:1: store: environment variable 'GONE' is not set", result.err)


if __name__ == "__main__":
    unittest.main()
