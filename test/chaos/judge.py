"""The verdict on a run: the checker's, and whether the checker would have seen one damaged event."""

import os
import subprocess
import sys

import canary

HERE = os.path.dirname(os.path.abspath(__file__))
CHECK = os.path.join(os.path.dirname(HERE), "checker", "check.py")


class Judge:
    """Judges what is in `folder`: deliveries.jsonl, faults.jsonl, and a CSV file of each name in `exported`.

    `producers`: their logs. `window`: what a relay may have published and not settled, on average over all faults.
    `flags`: more arguments for the checker."""

    def __init__(self, folder, producers, exported, window, random, flags=()):
        self.folder, self.exported, self.window, self.flags = folder, exported, window, flags
        self.producers = [producers] if isinstance(producers, str) else producers
        self.random, self.problems = random, []

    def judge(self):
        """Prints the verdict; returns the checker's exit code. Problems with the verdict itself are in `problems`."""
        checked = self.check()
        print(checked.stdout, end="", flush=True)
        if checked.returncode == 0:
            deliveries = self.folder + "/deliveries.jsonl"
            damage = canary.damage(deliveries, self.folder + "/damaged.jsonl", self.random)
            self.tell_canary(*damage, self.check(deliveries="damaged.jsonl"))
            if "undelivered" in self.exported:
                damage = canary.bury(deliveries, self.folder + "/undelivered.csv", self.folder + "/buried.csv", self.random)
                self.tell_canary(*damage, self.check(undelivered="buried.csv"))
        return checked.returncode

    def tell_canary(self, damage, kind, checked):
        caught = f" {kind}: " in checked.stdout
        print(f"chaos: canary, {damage}: {'caught' if caught else 'MISSED'}")
        self.problems += [] if caught else ["the checker is blind"]

    def check(self, deliveries="deliveries.jsonl", undelivered="undelivered.csv"):
        arguments = {"--deliveries": deliveries, "--faults": "faults.jsonl",
                     "--window": str(self.window)} | {f"--{name}": name + ".csv" for name in self.exported}
        if "--undelivered" in arguments:
            arguments["--undelivered"] = undelivered
        command = [sys.executable, "-B", CHECK, *(part for pair in arguments.items() for part in pair), *self.flags,
                   "--producers", *self.producers]
        return subprocess.run(command, cwd=self.folder, stdout=subprocess.PIPE, text=True, check=False)
