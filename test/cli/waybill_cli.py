"""What the command-line tests share: they drive the built binary only."""
import fcntl
import json
import os
import pathlib
import pty
import select
import shutil
import struct
import subprocess
import tempfile
import termios
import unittest

BINARY = os.environ["WAYBILL_BINARY"]
# A relay whose destination rejects, loses or delays events by their topic: dead.…, held.…, retry.…
MOODY_RELAY = os.environ.get("WAYBILL_MOODY_RELAY")


class Result:
    def __init__(self, process):
        self.code = process.returncode
        self.out = process.stdout.decode("utf-8", "replace")
        self.err = process.stderr.decode("utf-8", "replace")

    @property
    def json(self):
        return json.loads(self.out)

    def __repr__(self):
        return f"exit {self.code}\n--- out\n{self.out}\n--- err\n{self.err}"


class CliTest(unittest.TestCase):
    """A test in an empty folder of its own, in which nobody's environment counts."""

    maxDiff = None

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="waybill-cli-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def environment(self, extra=None):
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder), "LC_ALL": "C.UTF-8", **(extra or {})}

    def run_cli(self, *args, stdin=b"", env=None, stdout=subprocess.PIPE, timeout=30):
        if isinstance(stdin, str):
            stdin = stdin.encode()
        process = subprocess.run([BINARY, *args], input=stdin, stdout=stdout, stderr=subprocess.PIPE,
                                 cwd=self.folder, env=self.environment(env), timeout=timeout)
        if process.stdout is None:
            process.stdout = b""
        return Result(process)

    def succeed(self, *args, **options):
        result = self.run_cli(*args, **options)
        self.assertEqual(0, result.code, result)
        return result

    def refused(self, *args, code=2, **options):
        """Fails with that code; returns what it said. Nothing goes to the standard output."""
        result = self.run_cli(*args, **options)
        self.assertEqual(code, result.code, result)
        self.assertEqual("", result.out, result)
        for line in result.err.splitlines():
            self.assertTrue(line.startswith("waybill: "), result)
        return result.err

    def write(self, name, text, mode=0o600):
        path = self.folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(mode)
        return path

    def embedded(self, destinations='[destinations.log]\ntype = "file"\npath = "out.jsonl"\n'):
        """A configuration with an embedded store whose tables are there."""
        self.write("waybill.toml", f'store = "sqlite:test.db"\n{destinations}')
        self.succeed("migrate")

    def let_fail(self, *topics, destination="events", store="sqlite:test.db", **members):
        """Enqueues events of these topics and lets them fail as those say; returns the ids."""
        lines = "".join(json.dumps({"topic": topic, "payload": {"n": n}} | members) + "\n"
                        for n, topic in enumerate(topics))
        ids = self.succeed("enqueue", stdin=lines).out.split()
        self.relay_moodily(destination, store)
        return ids

    def relay_moodily(self, destination="events", store="sqlite:test.db"):
        subprocess.run([MOODY_RELAY, store, destination], cwd=self.folder, check=True, timeout=60)

    def on_a_terminal(self, *args, typed="", env=None, columns=200, timeout=30):
        """Runs on a terminal of its own, on which `typed` is typed; returns the exit code and what was shown."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 25, columns, 0, 0))
        process = subprocess.Popen([BINARY, *args], stdin=slave, stdout=slave, stderr=slave, cwd=self.folder,
                                   env=self.environment(env), start_new_session=True)
        self.addCleanup(process.kill)
        os.close(slave)
        os.write(master, typed.encode())
        shown = b""
        try:
            while select.select([master], [], [], timeout)[0]:
                part = os.read(master, 65536)
                if not part:
                    break
                shown += part
        except OSError:  # How a terminal says that nobody has it open any more.
            pass
        os.close(master)
        return process.wait(timeout), shown.decode("utf-8", "replace")
