#!/usr/bin/python3
"""The chaos run: real relays, a real server and a stranger's application, while relays and server are killed.

Relays are killed, stopped for longer than their lease and woken again, and asked to end; the server loses its memory.
Faults are spread over the application's progress. Then everything may drain, and the checker judges what was delivered.
With --sync-commit off the application's commits are not flushed, and crashes show whether something was published that
does not exist afterwards. With --failing the destination rejects some events, fails at others now and then, and is away
every few seconds.

Exit: 0 clean, 1 violations (the folder is kept), 2 the run could not be judged.
"""

import argparse
import heapq
import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from judge import Judge
from processes import Postgres, Relay

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
WINDOW = 1000  # What a relay may have published and not settled, on average over all faults: a batch.
SETTLING = 1.0  # Seconds until everybody has noticed that a fault is over.
ENDING_MAX = 40.0  # Seconds that a relay may take to end when asked to: its grace and a little.
EXPORTS = {
    "events": "SELECT id, seq, xid, tenant, topic, key, aggregate_type, aggregate_id, payload FROM waybill.event",
    "undelivered": "SELECT id, standing FROM waybill.undelivered",
    "attempts": "SELECT id, outcome, extract(epoch FROM at) AS at FROM waybill.attempt JOIN waybill.event "
                "USING (shard, seq) ORDER BY at"}


class Chaos:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.random = random.Random(options.seed)
        self.deliveries = folder + "/deliveries.jsonl"
        self.agenda, self.agenda_count = [], 0  # (when, tie breaker, what to do)
        self.faults = open(folder + "/faults.jsonl", "w", encoding="utf-8")
        self.producer, self.problems, self.exits = None, [], 0
        self.postgres = self.start_server()
        self.config = self.write_config("waybill.toml", "")
        self.relays = [Relay(number, self.relay(), folder) for number in range(options.relays)]

    def start_server(self):
        return Postgres(self.folder, "chaos", lazy=self.options.sync_commit == "off")

    def write_config(self, name, settings, store=None):
        path = f"{self.folder}/{name}"
        with open(path, "w", encoding="utf-8") as file:
            file.write(f'store = "{store or self.postgres.url}"\nlease = "{self.options.lease}s"\n'
                       f'{settings}{self.destinations()}')
        os.chmod(path, 0o600)  # It may hold a password.
        return path

    def destinations(self):
        return f'[destinations.out]\ntype = "file"\npath = "{self.deliveries}"\nfsync = false\n'

    def relay(self, *flags):
        if self.options.failing:
            return [self.options.failing, self.postgres.url, self.deliveries, "--lease", str(self.options.lease * 1000),
                    "--reject", "1", "--fail", "5", "--outages", *flags]
        return self.waybill("run", *flags)

    def waybill(self, *command):
        return [*shlex.split(self.options.waybill), *command, "--config", self.config]

    def size(self):
        return os.path.getsize(self.deliveries) if os.path.exists(self.deliveries) else 0

    # Time

    def later(self, seconds, action):
        self.agenda_count += 1
        heapq.heappush(self.agenda, (time.monotonic() + seconds, self.agenda_count, action))

    def tick(self):
        time.sleep(0.01)
        while self.agenda and self.agenda[0][0] <= time.monotonic():
            heapq.heappop(self.agenda)[2]()
        for relay in self.relays:
            self.look_after(relay)

    def look_after(self, relay):
        asked, code = relay.ending, relay.exit_code()
        if code is None:
            return
        if code not in ((0, -signal.SIGTERM) if asked else range(128)):  # It may have been asked while it started.
            self.problems.append(f"relay {relay.number} ended with {code}; see {relay.log}")
        if not asked:
            self.exits += 1
            self.later(0.2, relay.start)

    # Faults

    def record(self, fault, begin, relays=1):
        size, began = begin
        json.dump({"fault": fault, "relays": relays, "from": size, "to": self.size(), "began": began, "at": time.time()},
                  self.faults)
        self.faults.write("\n")
        self.faults.flush()

    def kill(self, relay):
        begin = self.size(), time.time()
        relay.kill()
        self.record("kill", begin)
        away = self.random.random() * 0.3
        if self.random.random() < 0.25:  # Long enough for the others to take over because its lease ran out.
            away += self.options.lease + 1
        self.later(away, relay.start)

    def stop(self, relay):
        begin = self.size(), time.time()
        relay.stop()
        asleep = self.options.lease * 3
        self.later(asleep, relay.wake)
        self.later(asleep + SETTLING, lambda: self.record("stop", begin))

    def term(self, relay):
        begin = self.size(), time.time()
        relay.terminate()
        deadline = time.monotonic() + ENDING_MAX
        while relay.process:
            self.tick()
            if relay.process and time.monotonic() > deadline:
                self.problems.append(f"relay {relay.number} did not end when asked to; see {relay.log}")
                relay.kill()
        self.record("term", begin)
        relay.start()

    def crash(self):
        begin = self.size(), time.time()
        self.postgres.crash()
        self.postgres.start()
        self.later(SETTLING, lambda: self.record("crash", begin, self.options.relays))

    def strike(self, fault):
        if fault == "crash":
            self.crash()
            return
        at_work = self.random.random()  # Some are hit while they begin, most while they work.
        while not (targets := [relay for relay in self.relays if relay.running(at_work)]):
            self.tick()
        getattr(self, fault)(self.random.choice(targets))

    # The run

    def committed(self):
        with open(self.folder + "/producer.out", "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 200))
            numbers = [line.split()[1] for line in file.read().split(b"\n")[:-1] if line.startswith(b"committed ")]
        return int(numbers[-1].rstrip(b",")) if numbers else 0

    def strikes(self, producer):
        options = self.options
        some = max(1, options.kills // 10) if options.kills else 0
        deck = ["kill"] * options.kills + ["crash"] * options.crashes + ["stop"] * some + ["term"] * some
        self.random.shuffle(deck)
        moments = sorted(self.random.uniform(0.02, 0.98) * options.events for _ in deck)
        for moment, fault in zip(moments, deck):
            while self.committed() < moment and producer.poll() is None:
                self.tick()
            if producer.poll():
                break
            self.strike(fault)

    def storm(self, producer):
        self.strikes(producer)
        while producer.poll() is None or self.agenda:
            self.tick()
        if producer.returncode != 0:
            self.problems.append(f"the producer ended with {producer.returncode}; see {self.folder}/producer.err")

    def drain(self):
        """Relays must get there by themselves; what is left for the last look is a relay that gave up."""
        size, since = self.size(), time.monotonic()
        while time.monotonic() - since < 2 * self.options.lease + 3:
            self.tick()
            if self.size() != size:
                size, since = self.size(), time.monotonic()
        self.agenda.clear()
        for relay in self.relays:
            if relay.process:
                relay.terminate()
        deadline = time.monotonic() + ENDING_MAX
        while any(relay.process for relay in self.relays) and time.monotonic() < deadline:
            self.tick()
        self.problems += [f"relay {relay.number} did not end when asked to" for relay in self.relays if relay.process]
        size = self.size()
        with open(self.folder + "/once.log", "wb") as log:
            done = subprocess.run(self.relay("--once"), stdout=log, stderr=log, timeout=300, check=False)
        if done.returncode != 0:
            self.problems.append(f"run --once ended with {done.returncode}; see {self.folder}/once.log")
        if self.size() != size:
            self.problems.append(f"the relays were quiet, but run --once wrote {self.size() - size} bytes more")

    def start_producer(self, *flags):
        command = [self.options.producer, "--store", self.postgres.url, "--log", self.folder + "/producers.jsonl",
                   "--seed", str(self.options.seed), *flags]
        with open(self.folder + "/producer.out", "wb") as out, open(self.folder + "/producer.err", "wb") as err:
            self.producer = subprocess.Popen(["setpriv", "--pdeathsig", "SIGKILL", *command], stdout=out, stderr=err)

    def run(self):
        subprocess.run(self.waybill("migrate"), check=True, stdout=subprocess.DEVNULL)
        for relay in self.relays:
            relay.start()
        self.start_producer("--events", str(self.options.events), "--sync-commit", self.options.sync_commit)
        began = time.monotonic()
        self.storm(self.producer)
        wrote = time.monotonic()
        self.drain()
        print(f"chaos: wrote for {wrote - began:.1f} s, drained in {time.monotonic() - wrote:.1f} s; "
              f"{self.exits} relays ended by themselves and were started again", flush=True)
        for name in self.exported():
            self.postgres.export(EXPORTS[name], f"{self.folder}/{name}.csv")
        return self.judge()

    def exported(self):
        """The harness's own relays know no undelivered events."""
        return [name for name in EXPORTS if name == "events" or "fake_relay" not in self.options.waybill]

    def judge(self):
        self.faults.close()
        judge = Judge(self.folder, "producers.jsonl", self.exported(), WINDOW, self.random)
        code = judge.judge()
        self.problems += judge.problems
        return self.tell_problems(code)

    def tell_problems(self, code):
        for problem in self.problems:
            print("chaos: " + problem)
        code = code or (1 if self.problems else 0)
        if code:
            self.tell_logs()
        return code

    def tell_logs(self):
        """Where only this output is kept, it has to do."""
        for relay in self.relays:
            if os.path.exists(relay.log):
                with open(relay.log, encoding="utf-8", errors="replace") as log:
                    lines = log.readlines()
                print(f"chaos: the last of {len(lines)} lines of {relay.log}:\n{''.join(lines[-20:])}", end="")

    def end_clients(self):
        for process in [self.producer, *(relay.process for relay in self.relays)]:
            if process and process.poll() is None:
                process.kill()
                process.wait()

    def end(self):
        self.end_clients()
        if self.postgres.process.poll() is None:
            self.postgres.crash()


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=20_000, help="to commit (default %(default)s)")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"), help="default: a new one")
    parser.add_argument("--relays", type=int, default=3)
    parser.add_argument("--kills", type=int, default=10, help="of relays; a tenth as many are stopped, or asked to end")
    parser.add_argument("--crashes", type=int, default=1, help="of the server")
    parser.add_argument("--sync-commit", choices=("on", "off"), default="on", help="of the application")
    parser.add_argument("--lease", type=int, default=2, help="in seconds (default %(default)s)")
    parser.add_argument("--failing", nargs="?", const=ROOT + "/build/test/chaos/failing_relay", metavar="PROGRAM",
                        help="relays with a destination that fails now and then")
    parser.add_argument("--waybill", default=ROOT + "/build/waybill", metavar="COMMAND")
    parser.add_argument("--producer", default=ROOT + "/build/test/chaos/chaos_producer", metavar="PROGRAM")
    return parser.parse_args()


def run(kind, options):
    """Runs it in a folder of its own, which is kept unless all is clean; the exit code."""
    folder = tempfile.mkdtemp(prefix="waybill-chaos-")
    os.chmod(folder, 0o755)
    print(f"chaos: seed {options.seed}, folder {folder}", flush=True)
    chaos = None
    try:
        chaos = kind(options, folder)
        code = chaos.run()
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        print(f"chaos: {error}", file=sys.stderr)
        code = 2
    finally:
        if chaos:
            chaos.end()
    if code == 0:
        shutil.rmtree(folder)
    return code


if __name__ == "__main__":
    sys.exit(run(Chaos, parse()))
