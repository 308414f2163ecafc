#!/usr/bin/python3
"""Conflicts: 32 writers on few aggregates, until so many of them have been too late, while relays are killed and the
server crashes. In the end the versions of each stream have no gap and no double in the store, and neither have the first
deliveries at real brokers, which come in their order.

Exit: 0 clean, 1 violations (the folder is kept), 2 the run could not be judged.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import time

from brokers import BrokerChaos
from chaos import ROOT, run

STREAMS = "SELECT id, aggregate_id, version FROM waybill.stream_event ORDER BY aggregate_id, position"
LOG = "SELECT id, aggregate_id, version FROM waybill.event ORDER BY aggregate_id, seq"


def judge(rows, what):
    """`rows`: (id, aggregate, version) in order. Says where an aggregate's versions are not 1, 2, 3, …"""
    last, problems = {}, []
    for event, aggregate, version in rows:
        wanted = last.get(aggregate, 0) + 1
        if version != wanted:
            problems.append(f"{what}: {aggregate} has version {version} ({event}) where {wanted} should be")
        last[aggregate] = version
    return problems


def first_deliveries(rows):
    seen = set()
    return [row for row in rows if row[0] not in seen and not seen.add(row[0])]


def verdict(streams, log, delivered):
    """All that is wrong. `delivered`: broker -> rows, repeated ones too."""
    problems = judge(streams, "store") + judge(log, "log")
    if sorted(streams) != sorted(log):
        problems.append(f"the store has {len(streams)} events, the log {len(log)}, and they are not the same")
    for broker, rows in delivered.items():
        first = first_deliveries(rows)
        problems += judge(first, broker)
        if sorted(first) != sorted(streams):
            problems.append(f"{broker} has {len(first)} events of {len(streams)}, or others")
    return problems


class ConflictChaos(BrokerChaos):
    def run(self):
        subprocess.run(self.waybill("migrate"), check=True, stdout=subprocess.DEVNULL)
        for relay in self.relays:
            relay.start()
        began = time.monotonic()
        self.start_producer()
        self.storm(self.producer)
        wrote = time.monotonic()
        self.drain()
        with open(self.folder + "/producer.out", encoding="utf-8") as file:
            print(f"conflicts: {file.read().splitlines()[-1]}; wrote for {wrote - began:.0f} s, drained in "
                  f"{time.monotonic() - wrote:.0f} s; load {os.getloadavg()[0]:.1f}", flush=True)
        return self.judge()

    def strikes(self, producer):
        """Writers go on until all of them have struck, and there were enough conflicts."""
        super().strikes(producer)
        while self.committed() < self.options.events and producer.poll() is None:
            self.tick()
        producer.terminate()

    def rows(self, query, name):
        path = f"{self.folder}/{name}.csv"
        self.postgres.export(query, path)
        with open(path, encoding="utf-8", newline="") as file:
            return [(row["id"], row["aggregate_id"], int(row["version"])) for row in csv.DictReader(file)]

    def read_all(self, broker):
        with (open(f"{broker.folder}/messages.jsonl", "wb") as file,
              subprocess.Popen(broker.consumer(broker.count()), stdout=subprocess.PIPE) as consumer):
            consumer.stdout.readline()  # How many there are.
            rows = []
            for line in consumer.stdout:
                file.write(line)
                message = json.loads(line)
                if "problem" in message:
                    self.problems.append(f"{broker.name}: {message['problem']}")
                    continue
                event = message["event"]
                rows.append((event["id"], event["aggregate_id"], event["version"]))
        return rows

    def judge(self):
        self.faults.close()
        streams, log = self.rows(STREAMS, "streams"), self.rows(LOG, "log")
        delivered = {broker.name: self.read_all(broker) for broker in self.brokers}
        self.problems += verdict(streams, log, delivered)[:20]
        if not streams:
            self.problems.append("nothing was written")
        for name, rows in delivered.items():
            print(f"conflicts: {name}: {len(rows)} deliveries of {len(streams)} events", flush=True)
            if not self.problems:
                self.canary(streams, log, name, rows)
        return self.tell_problems(0)

    def canary(self, streams, log, name, rows):
        """Whoever sees nothing wrong must see it if one is missing, or two have changed places."""
        first = first_deliveries(rows)
        at = self.random.randrange(len(first) - 1)
        other = next((i for i in range(at + 1, len(first)) if first[i][1] == first[at][1]), None)
        damaged = [first[:at] + first[at + 1:]]
        if other is not None:
            swapped = list(first)
            swapped[at], swapped[other] = swapped[other], swapped[at]
            damaged.append(swapped)
        caught = all(verdict(streams, log, {name: copy}) for copy in damaged)
        caught = caught and verdict(streams[:at] + streams[at + 1:], log, {name: rows})
        print(f"conflicts: canary, {name}: {'caught' if caught else 'MISSED'}")
        self.problems += [] if caught else ["the verdict is blind"]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conflicts", dest="events", type=int, default=100_000, help="default %(default)s")
    parser.add_argument("--brokers", default="rabbitmq,nats", type=lambda text: text.split(","), help="default: both")
    parser.add_argument("--kills", type=int, default=20, help="of relays; a tenth as many are stopped, or asked to end")
    parser.add_argument("--crashes", type=int, default=3, help="of the server")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3), "big"), help="default: a new one")
    parser.add_argument("--relays", type=int, default=2)
    parser.add_argument("--lease", type=int, default=2, help="in seconds (default %(default)s)")
    parser.add_argument("--waybill", default=ROOT + "/build/waybill", metavar="PROGRAM")
    parser.add_argument("--producer", default=ROOT + "/build/test/chaos/conflict_writers", metavar="PROGRAM")
    parser.add_argument("--consumers", default=ROOT + "/build/test/consumers/installed", metavar="FOLDER")
    parser.set_defaults(sync_commit="on", failing=None)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(run(ConflictChaos, parse()))
