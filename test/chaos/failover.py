#!/usr/bin/python3
"""Fail-over for real: three PostgreSQL servers under Patroni, PgBouncer in front, and the primary changes again and again.

Two applications and three relays work through PgBouncer and past it, and relays append to one file. The kinds of switch:

  switchover  Patroni hands over
  pause       the same, with PAUSE and RESUME of PgBouncer around it
  kill        SIGKILL for PostgreSQL, or for Patroni and PostgreSQL, of the primary; it comes back and follows
  partition   the primary is cut off from everything
  isolate     the primary is cut off from etcd and the other servers; clients still reach it
  freeze      the primary's Patroni is stopped: another server is promoted while the old primary still answers

Before kill, partition, isolate and freeze the primary's replication is cut for up to --lag seconds. With --synchronous
nothing may be lost, invented or reordered. Without, all that the last primary has must be delivered; the checker counts
what was lost with a primary, and how much of that was delivered before. Needs root, for namespaces.

Exit: 0 clean, 1 violations (the folder is kept), 2 the run could not be judged.
"""

import argparse
import collections
import os
import signal
import subprocess
import sys
import time

from chaos import EXPORTS, ROOT, SETTLING, Chaos, run
from cluster import ETCD, Cluster
from judge import Judge

WINDOW = 2000  # What a relay may have published and not settled when the primary changes.
LEADER_MAX = 90  # Seconds until there must be a new leader.
WHOLE_MAX = 180  # Seconds until all relays must deliver again.
KINDS = ("switchover", "pause", "kill", "partition", "isolate", "freeze")
PATHS = ("pooler", "direct")


class FailoverChaos(Chaos):
    def __init__(self, options, folder):
        super().__init__(options, folder)
        self.producers, self.took = [], collections.defaultdict(list)
        for relay in self.relays:
            config = self.write_config(f"relay-{relay.number}.toml", 'failover = "continue"\n', self.path(relay.number))
            relay.command = [options.waybill, "run", "--config", config]

    def start_server(self):
        cluster = Cluster(self.folder, "chaos", self.options.synchronous, self.options.ttl, self.options.seed)
        cluster.url = cluster.direct_url("chaos")
        return cluster

    def path(self, number):
        """Alternately through PgBouncer and past it."""
        name = self.options.paths[number % len(self.options.paths)]
        return self.postgres.pooler.url("chaos") if name == "pooler" else self.postgres.url

    # Clients

    def start_producers(self):
        for number in range(2):
            command = [self.options.producer, "--store", self.path(number), "--seed", str(self.options.seed + number),
                       "--log", f"{self.folder}/producers-{number}.jsonl", "--events", str(10**9), "--writers", "12",
                       "--rate", str(self.options.rate // 2)]
            with open(f"{self.folder}/producer-{number}.out", "wb") as out:
                self.producers.append(subprocess.Popen(["setpriv", "--pdeathsig", "SIGKILL", *command], stdout=out,
                                                       stderr=out))
            if number == 0:  # It makes the tables.
                self.until(self.first_producer_writes, 60, "the first producer writes")

    def first_producer_writes(self):
        with open(f"{self.folder}/producer-0.out", encoding="utf-8") as file:
            return "committed" in file.read()

    def tick(self):
        super().tick()
        for number, producer in enumerate(self.producers):
            if producer.poll() is not None:
                raise RuntimeError(f"the producer ended; see {self.folder}/producer-{number}.out")

    def until(self, condition, seconds, what):
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            if time.monotonic() > deadline:
                raise RuntimeError(f"waited {seconds} s in vain: {what}")
            self.tick()
        return found

    def wait(self, seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.tick()

    def grows(self, what):
        size = self.size()
        self.until(lambda: self.size() > size, WHOLE_MAX, what)

    # Switches

    def other_leader(self, old):
        return next((node for node in self.postgres.nodes if node is not old and node.leads()), None)

    def others(self, node):
        return [other.address for other in self.postgres.nodes if other is not node]

    def lag(self, old):
        if self.random.random() < 0.7:
            old.cut(*self.others(old))
            self.wait(self.random.random() * self.options.lag)

    def switchover(self, old):
        status, answer = old.ask("/switchover", timeout=60, data={"leader": old.name})
        if status != 200:
            raise RuntimeError(f"Patroni refused to switch over: {status} {answer}")

    def pause(self, old):
        self.postgres.pooler.command("PAUSE")
        try:
            self.switchover(old)
            self.until(lambda: self.other_leader(old), LEADER_MAX, "a new leader")
            self.wait(0.5)
        finally:
            self.postgres.pooler.command("RESUME")

    def kill(self, old):
        everything = self.random.random() < 0.5
        self.lag(old)
        old.signal(signal.SIGKILL, *(() if everything else ("postgres -D", "postgres:")))
        old.heal()
        return old.start if everything else None

    def partition(self, old):
        self.lag(old)
        old.cut()
        return old.heal

    def isolate(self, old):
        self.lag(old)
        old.cut(ETCD, *self.others(old))
        return old.heal

    def freeze(self, old):
        old.signal(signal.SIGSTOP, "patroni")
        return lambda: old.signal(signal.SIGCONT, "patroni")

    def switch(self, kind):
        old = self.until(self.postgres.find_leader, LEADER_MAX, "a leader")
        begin, began = (self.size(), time.time()), time.monotonic()
        mend = getattr(self, kind)(old)
        leader = self.until(lambda: self.other_leader(old), LEADER_MAX, f"a new leader after {kind} of {old.name}")
        led = time.monotonic() - began
        self.grows(f"no delivery after {kind} of {old.name}")
        flowed = time.monotonic() - began
        if mend:  # The old primary comes back.
            self.wait(self.random.random() * 3)
            mend()
        self.postgres.wait_until_whole(leader, self.tick)
        self.wait(self.options.lease + SETTLING)
        self.grows(f"no delivery after {old.name} came back")
        self.record("failover", begin, self.options.relays)
        self.took[kind].append((led, flowed))
        print(f"chaos: {kind} {old.name} -> {leader.name}, timeline {self.postgres.timeline(leader)}: leader after "
              f"{led:.1f} s, events after {flowed:.1f} s", flush=True)

    # The run

    def run(self):
        subprocess.run(self.waybill("migrate"), check=True, stdout=subprocess.DEVNULL)
        for relay in self.relays:
            relay.start()
        self.start_producers()
        self.grows("relays deliver")
        deck = [self.options.kinds[at % len(self.options.kinds)] for at in range(self.options.switches)]
        self.random.shuffle(deck)
        for kind in deck:
            self.switch(kind)
        for producer in self.producers:
            producer.kill()
            producer.wait()
        self.producers.clear()
        self.drain()
        print(f"chaos: {len(deck)} switches; {self.exits} relays ended by themselves and were started again", flush=True)
        for name in EXPORTS:
            self.postgres.export(EXPORTS[name], f"{self.folder}/{name}.csv")
        return self.judge()

    def judge(self):
        self.faults.close()
        judge = Judge(self.folder, [f"producers-{number}.jsonl" for number in range(2)], list(EXPORTS), WINDOW,
                      self.random, () if self.options.synchronous else ("--lossy-failover",))
        code = judge.judge()
        self.problems += judge.problems
        return self.tell_problems(code)

    def end(self):
        self.end_clients()
        for producer in self.producers:
            producer.kill()
            producer.wait()
        self.postgres.end()


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--switches", type=int, default=30, help="of the primary (default %(default)s)")
    parser.add_argument("--synchronous", action="store_true", help="replication")
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=list(KINDS), help="of switches, default: all")
    parser.add_argument("--paths", type=lambda text: text.split(","), default=list(PATHS),
                        help="of clients to the servers: pooler, direct or both (default)")
    parser.add_argument("--lag", type=float, default=2.0, help="seconds without replication, at most, before a fault")
    parser.add_argument("--rate", type=int, default=200, help="events a second (default %(default)s)")
    parser.add_argument("--ttl", type=int, default=8, help="of Patroni's leader, in seconds (default %(default)s)")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"), help="default: a new one")
    parser.add_argument("--relays", type=int, default=3)
    parser.add_argument("--lease", type=int, default=3, help="in seconds (default %(default)s)")
    parser.add_argument("--waybill", default=ROOT + "/build/waybill", metavar="PROGRAM")
    parser.add_argument("--producer", default=ROOT + "/build/test/chaos/chaos_producer", metavar="PROGRAM")
    parser.set_defaults(sync_commit="on", failing=None)
    options = parser.parse_args()
    if not set(options.paths) <= set(PATHS) or not set(options.kinds) <= set(KINDS):
        parser.error(f"--paths: {', '.join(PATHS)}; --kinds: {', '.join(KINDS)}")
    return options


if __name__ == "__main__":
    sys.exit(run(FailoverChaos, parse()))
