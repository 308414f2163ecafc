#!/usr/bin/python3
"""Brokers that come and go: relays send to a real RabbitMQ and a real NATS under load, and both are restarted at will.

Half of the restarts are kills, half are clean; some come while relays send what has piled up. Nothing is consumed meanwhile; in the end all is read back from the brokers
by others' libraries (test/consumers), and the checker judges each broker by itself. How soon the relays go on after a
broker's return is measured: from the moment its port accepts connections to the moment each of them has had a
confirmation.

Exit: 0 clean, 1 violations (the folder is kept), 2 the run could not be judged.
"""

import argparse
import base64
import json
import os
import random
import re
import subprocess
import sys
import threading
import time
import urllib.request

from chaos import EXPORTS, ROOT, SETTLING, Chaos, run
from judge import Judge
from processes import Relay, free_port

sys.path.insert(0, ROOT + "/test/brokers")
import servers  # pylint: disable=wrong-import-position

RETURN_MAX = 120.0  # Seconds until relays must have gone on, or the run is over.
FILTERS = {"events": "", "undelivered": " WHERE destination = '{0}'", "attempts": " WHERE destination = '{0}'"}


class Broker:
    """A broker with one queue or stream, which is never read while it is filled, and what was done to it."""

    def __init__(self, name, server, place, window, keys, options, folder):
        self.name, self.server, self.place, self.window, self.keys = name, server, place, window, keys
        self.options, self.folder = options, f"{folder}/{name}"
        self.random = random.Random(f"{options.seed} {name}")
        self.faults = []  # With places counted in messages.
        self.resumed = []  # Seconds after each return until all relays went on.
        self.failure, self.done = None, threading.Event()
        os.mkdir(self.folder)

    def consumer(self, count):
        return ["node", self.options.consumers + "/backlog.mjs", "--url", self.server.url, "--name", self.place,
                "--envelope", "cloudevents", "--count", str(count)]

    def count(self):
        done = subprocess.run(self.consumer(0), stdout=subprocess.PIPE, text=True, timeout=60, check=True)
        return int(done.stdout)

    # Restarts

    def restarts(self, published):
        """All of them. `published()`: what each relay has had confirmed. Never returns: servers die with the thread that
        has started them."""
        try:
            while len(self.resumed) < self.options.restarts:
                self.series(published)
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            self.failure = f"{self.name}: {error}"
        self.done.set()
        threading.Event().wait()

    def series(self, published):
        """One restart, or several: then each but the first strikes while relays send what has piled up."""
        before, began, kinds = self.count(), time.time(), []
        while not kinds or (self.random.random() < 0.4 and len(self.resumed) < self.options.restarts):
            kinds.append(self.restart(published))
        time.sleep(SETTLING)
        about = {"relays": self.options.relays, "from": before, "to": self.count(), "began": began, "at": time.time()}
        self.faults += [{"fault": "broker", "how": kind, **about} for kind in kinds]
        time.sleep(self.random.random())  # At peace.

    def restart(self, published):
        kind = self.random.choice(("kill", "stop"))
        getattr(self.server, kind)()
        time.sleep(self.random.random() * self.options.away)
        confirmed = published()
        self.server.start()
        back = time.monotonic()
        while not all(now > then for now, then in zip(published(), confirmed)):
            if time.monotonic() - back > RETURN_MAX:
                raise RuntimeError(f"a relay did not go on within {RETURN_MAX:.0f} s of the broker's return")
            time.sleep(0.01)
        self.resumed.append(time.monotonic() - back)
        return kind

    def tell(self):
        took = sorted(self.resumed)
        if not took:
            return "no restart"
        kills = sum(fault["how"] == "kill" for fault in self.faults)
        return (f"{len(took)} restarts ({kills} kills), resumed after p50 {took[len(took) // 2]:.2f} s, "
                f"max {took[-1]:.2f} s")

    # What it has

    def read_back(self):
        """Writes what it has as the file sink would have; returns what is wrong with it."""
        count, problems, places = self.count(), [], [0]
        with (open(self.folder + "/deliveries.jsonl", "wb") as file,
              subprocess.Popen(self.consumer(count), stdout=subprocess.PIPE) as consumer):
            consumer.stdout.readline()  # How many there are.
            for line in consumer.stdout:
                message = json.loads(line)
                if "problem" in message:
                    problems.append(f"{self.name}: {message['problem']}")
                else:
                    file.write(as_line(message))
                places.append(file.tell())
        if len(places) != count + 1:
            problems.append(f"{self.name}: {len(places) - 1} of {count} messages could be read")
        self.write_faults(places)
        return problems[:10]

    def write_faults(self, places):
        with open(self.folder + "/faults.jsonl", "w", encoding="utf-8") as file:
            for fault in self.faults:
                in_bytes = {end: places[min(fault[end], len(places) - 1)] for end in ("from", "to")}
                file.write(json.dumps(fault | in_bytes) + "\n")


def as_line(message):
    event = message["event"]
    fields = {"id": event["id"], "seq": int(event["sequence"]), "tenant": event.get("tenant", "default"),
              "topic": event.get("topic", event["type"]), "key": event.get("key")}
    for name in ("aggregate_type", "aggregate_id"):
        if event.get(name):
            fields[name] = event[name]
    payload = base64.b64decode(message["body_base64"]).replace(b"\n", b" ").replace(b"\r", b" ")
    head = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
    return head[:-1] + b',"payload":' + payload + b"}\n"


class BrokerChaos(Chaos):
    def __init__(self, options, folder):
        self.brokers = []
        if "rabbitmq" in options.brokers:
            server = servers.Rabbitmq()
            self.brokers.append(Broker(
                "rabbitmq", server, "events", 1000,
                {"url": server.url, "exchange": "events", "declare": {"queue": "events"}}, options, folder))
        if "nats" in options.brokers:
            server = servers.Nats()
            self.brokers.append(Broker(
                "nats", server, "EVENTS", 2000,
                {"servers": server.url, "stream": "EVENTS", "create": True, "subjects": "account.>"}, options, folder))
        super().__init__(options, folder)
        self.ports = [free_port() for _ in range(options.relays)]
        for number, port in enumerate(self.ports):
            config = self.write_config(f"relay-{number}.toml", f'listen = "127.0.0.1:{port}"\n')
            self.relays[number] = Relay(number, [options.waybill, "run", "--config", config], folder)

    def destinations(self):
        lines = []
        for broker in self.brokers:
            lines.append(f"[destinations.{broker.name}]\ntype = \"{broker.name}\"")
            lines += [f"{name} = {toml(value)}" for name, value in broker.keys.items()]
        return "\n".join(lines) + "\n"

    def size(self):
        """Everything that the brokers have: what the relays' quiet is told by."""
        return sum(broker.count() for broker in self.brokers)

    def counters(self, name, destination, labels=""):
        """Of each relay."""
        wanted = re.compile(rf'^waybill_{name}\{{destination="{destination}"{labels}\}} (\d+)', re.M)
        counts = []
        for port in self.ports:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as page:
                found = wanted.search(page.read().decode())
            counts.append(int(found[1]) if found else 0)
        return counts

    def published(self, destination):
        return self.counters("events_published_total", destination)

    def until(self, condition, what):
        deadline = time.monotonic() + RETURN_MAX
        while not condition():
            if time.monotonic() > deadline:
                raise RuntimeError("waited in vain: " + what)
            self.tick()

    def run(self):
        subprocess.run(self.waybill("migrate"), check=True, stdout=subprocess.DEVNULL)
        for relay in self.relays:
            relay.start()
        self.until(lambda: all(relay.running(1.0) for relay in self.relays), "relays run")
        self.start_producer("--events", str(10**9), "--rate", str(self.options.rate))
        for broker in self.brokers:
            self.until(lambda broker=broker: all(self.published(broker.name)), "all relays publish to " + broker.name)
        self.storm_brokers()
        self.stop_producer()
        for broker in self.brokers:
            unknown = sum(self.counters("attempts_failed_total", broker.name, ',outcome="unknown"'))
            repeated = sum(self.counters("events_repeated_total", broker.name))
            print(f"chaos: {broker.name}: {broker.tell()}; {unknown} attempts with an unknown end, {repeated} known as "
                  "repeated", flush=True)
        self.drain()
        return self.judge()

    def storm_brokers(self):
        began = time.monotonic()
        for broker in self.brokers:
            threading.Thread(target=broker.restarts, args=(lambda broker=broker: self.published(broker.name),),
                             daemon=True).start()
        while not all(broker.done.is_set() for broker in self.brokers):
            self.tick()
            if self.producer.poll() is not None:
                raise RuntimeError(f"the producer ended; see {self.folder}/producer.err")
        for broker in self.brokers:
            if broker.failure:
                raise RuntimeError(broker.failure)
        for broker in self.brokers:
            if max(broker.resumed, default=0) > self.options.resume_max:
                self.problems.append(f"{broker.name}: relays went on {max(broker.resumed):.2f} s after its return")
        print(f"chaos: restarts for {time.monotonic() - began:.0f} s; load {os.getloadavg()[0]:.1f}", flush=True)

    def stop_producer(self):
        """In the middle of what it does: what it was not told of is for the database to say."""
        self.producer.kill()
        self.producer.wait()
        if self.exits:
            self.problems.append(f"relays ended by themselves {self.exits} times; see {self.folder}/relay-*.log")

    def judge(self):
        self.faults.close()
        codes = []
        for broker in self.brokers:
            self.problems += broker.read_back()
            for name, query in EXPORTS.items():
                self.postgres.export(filtered(name, query, broker.name), f"{broker.folder}/{name}.csv")
            print(f"chaos: {broker.name}:", flush=True)
            judge = Judge(broker.folder, self.folder + "/producers.jsonl", list(EXPORTS), broker.window, self.random)
            codes.append(judge.judge())
            self.problems += judge.problems
        return self.tell_problems(max(codes))

    def end(self):
        super().end()
        for broker in self.brokers:
            broker.server.close()


def filtered(name, query, destination):
    before, order, after = query.partition(" ORDER BY ")
    return before + FILTERS[name].format(destination) + order + after


def toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {toml(part)}" for name, part in value.items()) + " }"
    return json.dumps(value)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--restarts", type=int, default=100, help="of each broker (default %(default)s)")
    parser.add_argument("--brokers", default="rabbitmq,nats", type=lambda text: text.split(","), help="default: both")
    parser.add_argument("--rate", type=int, default=300, help="events a second (default %(default)s)")
    parser.add_argument("--away", type=float, default=1.0, help="seconds that a broker is away at most, before it starts")
    parser.add_argument("--resume-max", type=float, default=5.0,
                        help="seconds within which relays must go on after its return (default %(default)s)")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"), help="default: a new one")
    parser.add_argument("--relays", type=int, default=2)
    parser.add_argument("--lease", type=int, default=5, help="in seconds (default %(default)s)")
    parser.add_argument("--waybill", default=ROOT + "/build/waybill", metavar="PROGRAM")
    parser.add_argument("--producer", default=ROOT + "/build/test/chaos/chaos_producer", metavar="PROGRAM")
    parser.add_argument("--consumers", default=ROOT + "/build/test/consumers/installed", metavar="FOLDER")
    parser.set_defaults(sync_commit="on", failing=None)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(run(BrokerChaos, parse()))
