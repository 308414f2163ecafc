"""What the command-line tests share: they drive the built binary only."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

BINARY = os.environ["WAYBILL_BINARY"]


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
