#!/usr/bin/python3
"""Redrives by filter beside running relays: two operators at once, and all of them are killed now and then.

An application writes, relays deliver to a destination that rejects some events until a person has redriven them, and two
operators redrive by topic, by key, by error, or all; a killed one is repeated under the same operation's id. Relays are
killed, too. In the end everything is delivered, and:

  - no operation has touched an event twice, and each says how many it has touched;
  - an event was redriven at most as often as it was rejected, and each time once more than the last time;
  - order: where a dead event blocks its key, first deliveries are in order; where the key goes on, those that were never
    rejected are;
  - nothing is left undelivered.

A trigger of our own on waybill.undelivered writes down what each operation touches: the verdict rests on that, on the
table of attempts and on what was delivered.

Exit: 0 clean, 1 violations (the folder is kept).
"""

import argparse
import collections
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import uuid

from processes import Postgres, Relay

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
KEYS = 40
PATIENCE = 60.0  # Seconds in which something must be delivered in the end, until all is.
TOUCHED = """
CREATE TABLE public.touched (operation uuid, seq bigint, redrives integer);
CREATE FUNCTION public.touch() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
  INSERT INTO public.touched SELECT o.id, NEW.seq, NEW.redrives FROM waybill.operation o
  WHERE o.xmin::text::bigint = pg_current_xact_id()::text::bigint % 4294967296; RETURN NULL; END $$;
-- At the end of the transaction, which has then written its operation's row.
CREATE CONSTRAINT TRIGGER touched AFTER UPDATE ON waybill.undelivered DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
  WHEN (NEW.redrives <> OLD.redrives) EXECUTE FUNCTION public.touch();
"""


class Redrives:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.deliveries = folder + "/deliveries.jsonl"
        self.postgres = Postgres(folder, "redrives", lazy=False)
        self.config = folder + "/waybill.toml"
        with open(self.config, "w", encoding="utf-8") as file:
            file.write(f'store = "{self.postgres.url}"\n[destinations.out]\ntype = "file"\npath = "unused"\n')
        subprocess.run([options.waybill, "migrate", "--config", self.config], check=True, stdout=subprocess.DEVNULL)
        self.postgres.psql("redrives", "-c", TOUCHED)
        command = [options.relay, self.postgres.url, self.deliveries, "--reject", "10", "--lease", "1000"]
        if options.policy == "block":
            command.append("--block")
        self.relays = [Relay(number, command, folder) for number in range(2)]
        self.lock = threading.Lock()
        self.operations = self.killed_operators = self.killed_relays = 0
        self.problems = []
        self.done = threading.Event()

    # Those who act, each on a thread of its own

    def write(self):
        """The application: one writer, so that the numbers of a key are in the order of their commits."""
        psql = subprocess.Popen(["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", self.postgres.url],
                                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        number = 0
        while not self.done.is_set():
            values = []
            for _ in range(10):
                number += 1
                values.append(f"('poor.{number % 7}', 'k{number % KEYS}', '{number}')")
            psql.stdin.write(f"INSERT INTO waybill.event (topic, key, payload) VALUES {', '.join(values)};\n".encode())
            psql.stdin.flush()
            time.sleep(0.03)
        psql.communicate()
        if psql.returncode != 0:
            self.problems.append("the application could not write")

    def operate(self, seed):
        dice, past = random.Random(seed), []
        while True:
            with self.lock:
                if self.operations >= self.options.operations:
                    return
                self.operations += 1
            if past and dice.random() < 0.2:  # Somebody is not sure whether it was done.
                self.redrive(*dice.choice(past[-10:]), dice)
                continue
            which = dice.choice([["--topic", f"poor.{dice.randrange(7)}"], ["--key", f"k{dice.randrange(KEYS)}"],
                                 ["--error", "no such exchange"], ["--all"]])
            past.append((which, str(uuid.uuid4())))
            self.redrive(*past[-1], dice)

    def redrive(self, which, operation, dice=None):
        """By a program that may be killed, and is then repeated."""
        command = ["setpriv", "--pdeathsig", "SIGKILL", self.options.waybill, "dead", "redrive", *which, "--yes",
                   "--config", self.config, "--operation", operation]
        while True:
            with open(self.folder + "/operators.log", "ab") as log:
                process = subprocess.Popen(command, stdout=log, stderr=log)
            try:
                if process.wait(dice.random() * 0.04 if dice and dice.random() < 0.3 else 60) not in (0, 1):
                    self.problems.append(f"{' '.join(command)} ended with {process.returncode}")
                return
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                with self.lock:
                    self.killed_operators += 1
                time.sleep((dice or random).random() * 0.3)  # Others may do something meanwhile.

    def kill_relays(self, operators):
        """While they are at work. On the main thread: a child dies with the thread that has started it."""
        dice = random.Random(self.options.seed)
        while any(thread.is_alive() for thread in operators):
            time.sleep(0.5 + dice.random() * 2)
            relay = dice.choice(self.relays)
            relay.kill()
            self.killed_relays += 1
            time.sleep(dice.choice([0.05, 1.5]))  # Too short for the other to take over, or long enough.
            relay.start()

    # The run

    def run(self):
        for relay in self.relays:
            relay.start()
        application = threading.Thread(target=self.write)
        operators = [threading.Thread(target=self.operate, args=(self.options.seed + n,)) for n in (1, 2)]
        for thread in (application, *operators):
            thread.start()
        self.kill_relays(operators)
        self.done.set()
        application.join()
        self.drain()
        return self.judge()

    def rows(self, query):
        path = self.folder + "/query.csv"
        self.postgres.export(query, path)
        with open(path, encoding="utf-8") as file:
            return [line.rstrip("\n").split(",") for line in file][1:]

    def number(self, query):
        return int(self.rows(query)[0][0])

    def delivered(self):
        numbers = []
        with open(self.deliveries, "rb") as file:
            for line in file:
                try:
                    event = json.loads(line[max(0, line.rfind(b'{"id":"')):])  # A killed relay leaves part of a line.
                    numbers.append((event["key"], int(event["payload"])))
                except (ValueError, KeyError):
                    continue
        return numbers

    def drain(self):
        written, arrived = self.number("SELECT count(*) FROM waybill.event"), 0
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            self.redrive(["--all"], str(uuid.uuid4()))
            time.sleep(0.3)
            if len(set(self.delivered())) > arrived:
                arrived, deadline = len(set(self.delivered())), time.monotonic() + PATIENCE
            if arrived == written and self.number("SELECT count(*) FROM waybill.undelivered") == 0:
                break
        for relay in self.relays:
            relay.terminate()
            relay.process.wait(timeout=60)

    def judge(self):
        left = self.rows("SELECT standing, count(*) FROM waybill.undelivered GROUP BY 1")
        self.problems += [f"{count} left {standing}" for standing, count in left]
        twice = self.number("SELECT count(*) FROM (SELECT FROM touched GROUP BY operation, seq HAVING count(*) > 1) t")
        if twice:
            self.problems.append(f"{twice} times an operation has touched an event twice")
        wrong = self.number("""SELECT count(*) FROM (SELECT operation, count(*) FROM touched GROUP BY 1) t
            FULL JOIN (SELECT * FROM waybill.operation WHERE events > 0) o ON o.id = t.operation
            WHERE o.events IS DISTINCT FROM t.count""")
        if wrong:
            self.problems.append(f"{wrong} operations say another number than they have touched")
        uneven = self.number("""SELECT count(*) FROM (SELECT seq, count(*) FROM touched GROUP BY 1) t
            LEFT JOIN (SELECT seq, count(*) FROM waybill.attempt WHERE outcome = 'rejected' GROUP BY 1) a USING (seq)
            WHERE t.count > coalesce(a.count, 0)""") + self.number("""SELECT count(*) FROM (SELECT FROM touched
            GROUP BY seq HAVING count(*) <> max(redrives) OR count(*) <> count(DISTINCT redrives)) t""")
        if uneven:
            self.problems.append(f"{uneven} events were redriven more often than they were rejected")
        self.judge_deliveries()
        touched = self.number("SELECT count(*) FROM touched")
        if touched < self.options.operations:
            self.problems.append(f"only {touched} redrives: this proves little")
        print(f"redrives: {self.operations} operations, {self.killed_operators} times killed, have redriven {touched}; "
              f"{self.killed_relays} relays killed", flush=True)
        for problem in self.problems:
            print("redrives: " + problem)
        return 1 if self.problems else 0

    def judge_deliveries(self):
        delivered = self.delivered()
        times = collections.Counter(delivered)
        written = self.number("SELECT count(*) FROM waybill.event")
        print(f"redrives: {written} events, {len(delivered)} deliveries", flush=True)
        if len(times) != written:
            self.problems.append(f"{written - len(times)} events were lost")
        late = {int(row[0]) for row in self.rows("SELECT payload FROM waybill.event JOIN touched USING (seq)")}
        newest, seen = {}, set()
        for key, number in delivered:
            if (key, number) in seen or (self.options.policy == "continue" and number in late):
                continue
            seen.add((key, number))
            if number < newest.get(key, 0):
                self.problems.append(f"{number} of {key} was delivered after {newest[key]}")
            newest[key] = max(newest.get(key, 0), number)

    def end(self):
        self.done.set()
        for relay in self.relays:
            if relay.process and relay.process.poll() is None:
                relay.process.kill()
        if self.postgres.process.poll() is None:
            self.postgres.crash()


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operations", type=int, default=1000, help="default %(default)s")
    parser.add_argument("--policy", choices=("continue", "block"), default="continue", help="on_dead")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"), help="default: a new one")
    parser.add_argument("--waybill", default=ROOT + "/build/waybill", metavar="PROGRAM")
    parser.add_argument("--relay", default=ROOT + "/build/test/chaos/failing_relay", metavar="PROGRAM")
    return parser.parse_args()


def main():
    options = parse()
    folder = tempfile.mkdtemp(prefix="waybill-redrives-")
    os.chmod(folder, 0o755)
    print(f"redrives: on_dead = {options.policy}, seed {options.seed}, folder {folder}", flush=True)
    redrives = Redrives(options, folder)
    try:
        code = redrives.run()
    finally:
        redrives.end()
    if code == 0:
        shutil.rmtree(folder)
    return code


if __name__ == "__main__":
    sys.exit(main())
