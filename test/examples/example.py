"""What the examples' tests share: servers, and a walk through the example's page in a copy of its folder."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from processes import Postgres
from walk import SOURCE, Walk

BINARY = os.environ["WAYBILL_BINARY"]


def backlog(url, name, envelope, count):
    """The messages of a queue or a stream, of which there must be `count`, as a consumer of test/consumers reads them."""
    command = ["node", os.environ["WAYBILL_CONSUMERS"] + "/backlog.mjs", "--url", url, "--name", name, "--envelope",
               envelope, "--count", str(count)]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=90).stdout.splitlines()
    lines = [json.loads(line) for line in printed[1:]]
    problems = [line["problem"] for line in lines if "problem" in line]
    if int(printed[0]) != count or len(lines) != count or problems:
        raise AssertionError(f"{printed[0]} messages, expected {count}; {problems}")
    return lines


class ExampleCase(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        folder = tempfile.mkdtemp(prefix="waybill-example-pg-")
        cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
        cls.server = Postgres(folder, "example", lazy=False)
        cls.addClassCleanup(cls.server.crash)

    def setUp(self):
        parent = pathlib.Path(tempfile.mkdtemp(prefix="waybill-example-"))
        self.addCleanup(shutil.rmtree, parent, ignore_errors=True)
        self.folder = parent / "example"

    def walk(self, example, given=None, programs=None):
        """Through its README.md; returns the shell's folder."""
        shutil.copytree(SOURCE / "examples" / example, self.folder)
        given = {"DATABASE_URL": self.server.url, **(given or {})}
        Walk(self, self.folder / "README.md", self.folder, given, {"waybill": BINARY, **(programs or {})}).go()
        return self.folder

    def query(self, sql):
        """Rows as psql prints them: columns by '|'."""
        command = ["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", sql, self.server.url]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
