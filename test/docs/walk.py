"""Walks through a page as a reader would: writes its files, runs its commands in order, and compares what they print.

In a page, fences mean:
  ```sh     commands for one shell, which stays from the first to the last; none may fail
  ```text   right after one: what the commands print, on either output. "…" is any text of a line, and a line of its own
            any lines: ids and times differ
  others    a file, if the first line is a comment with nothing but its name: "# waybill.toml", "// visit.cc"
A comment before a block says otherwise: <!-- not run -->; <!-- until --> if the commands are to be repeated until they print
it, since what a relay in the background does takes a moment; <!-- from FILE --> if the block is a part of that file of the
repository, and must be there as it stands.
A line `export NAME=…` is left out if the walk was given NAME: servers are the reader's own."""
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import time

BLOCK = re.compile(r"^(?:<!-- (?P<how>not run|until|from [^ ]+) -->\n)?```(?P<kind>[a-z]+)\n(?P<text>.*?)^```$", re.M | re.S)
FILE_NAME = re.compile(r"^(?:#|//|--) ([\w./-]+\.\w+)$")
PATIENCE_S = 90
WALK_S_MAX = 600
SOURCE = pathlib.Path(__file__).parents[2]


class Step:
    """Commands, or a file, and what is to be seen."""

    def __init__(self, line, kind, text, how):
        self.line, self.kind, self.text, self.how, self.expected = line, kind, text, how, None

    @property
    def file(self):
        name = FILE_NAME.match(self.text.split("\n", 1)[0])
        return name.group(1) if self.kind not in ("sh", "text") and name else None


def steps_of(page):
    steps, before = [], None
    for block in BLOCK.finditer(page):
        kind, line = block["kind"], page.count("\n", 0, block.start()) + 1
        if kind == "text":
            between = page[before.end():block.start()].strip() if before else "?"
            if steps and steps[-1].kind == "sh" and not between:
                steps[-1].expected = block["text"]
        else:
            steps.append(Step(line, kind, block["text"], block["how"]))
        before = block
    return steps


def pattern_of(expected):
    lines = []
    for line in expected.splitlines():
        if line.strip() == "…":
            lines.append(r"(?:.*\n)*?")
        else:
            lines.append(".*?".join(map(re.escape, line.rstrip().split("…"))) + r"[ \t]*\n")
    return re.compile("".join(lines))


class Shell:
    """One bash for the whole walk. What a step prints goes to a file, so that nobody waits for what it leaves running."""

    def __init__(self, folder, environment):
        self.notes = tempfile.TemporaryDirectory(prefix="waybill-walk-")
        self.steps = 0
        # Should the test be killed, nothing of the walk outlives it for long.
        self.process = subprocess.Popen(["timeout", "-s", "KILL", str(WALK_S_MAX), "bash", "--noprofile", "--norc", "-eo",
                                         "pipefail"], cwd=folder, env=environment, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)

    def run(self, commands):
        """(did all of them succeed?, what they printed). After a failure the shell is gone."""
        self.steps += 1  # A file for each: what still runs writes to that of its own step.
        script, output = (pathlib.Path(self.notes.name, f"{what}-{self.steps}") for what in ("script", "output"))
        script.write_text(commands)
        self.process.stdin.write(f". {script} > {output} 2>&1 < /dev/null\necho done\n".encode())
        self.process.stdin.flush()
        late = threading.Timer(PATIENCE_S, self.kill)
        late.start()
        went_well = self.process.stdout.readline() == b"done\n"
        late.cancel()
        return went_well, output.read_text(errors="replace")

    def kill(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)  # Also what runs in the background.
        except ProcessLookupError:
            pass

    def close(self):
        self.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.notes.cleanup()


class Walk:
    """`given`: variables of the reader's own, servers' addresses above all. `programs`: what is on his path, by name."""

    def __init__(self, test, page, folder, given, programs):
        self.test, self.page, self.folder, self.given = test, pathlib.Path(page), pathlib.Path(folder), given
        path = pathlib.Path(tempfile.mkdtemp(prefix="waybill-path-"))
        for name, target in programs.items():
            (path / name).symlink_to(target)
        test.addCleanup(lambda: [*map(os.unlink, path.iterdir()), path.rmdir()])
        environment = {"PATH": f"{path}:{os.environ['PATH']}", "HOME": str(folder), "LC_ALL": "C.UTF-8", **given}
        self.shell = Shell(folder, environment)
        test.addCleanup(self.shell.close)

    def go(self):
        steps = steps_of(self.page.read_text())
        self.test.assertTrue(any(step.kind == "sh" for step in steps), "a page without commands")
        for step in steps:
            if step.how == "not run":
                continue
            if step.how and step.how.startswith("from "):
                source = SOURCE / step.how.removeprefix("from ")
                self.test.assertIn(step.text, source.read_text(), f"{self.page.name}:{step.line}")
            elif step.file:
                self.write(step)
            elif step.kind == "sh":
                self.run(step)

    def write(self, step):
        path = self.folder / step.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(step.text)

    def run(self, step):
        commands = "".join(line for line in step.text.splitlines(keepends=True)
                           if not any(line.startswith(f"export {name}=") for name in self.given))
        if step.how == "until":
            commands = f"( {commands}) || true\n"
        pattern = pattern_of(step.expected) if step.expected is not None else None
        deadline = time.monotonic() + PATIENCE_S
        while True:
            went_well, printed = self.shell.run(commands)
            place = f"{self.page.name}:{step.line}:\n{step.text}"
            self.test.assertTrue(went_well, f"{place}--- failed, and printed:\n{printed}")
            if pattern is None or pattern.fullmatch(printed if printed.endswith("\n") else printed + "\n"):
                return
            if step.how != "until" or time.monotonic() > deadline:
                self.test.fail(f"{place}--- printed:\n{printed}--- and not:\n{step.expected}")
            time.sleep(0.1)
