"""A small history to damage: what producers, database, consumer and faults would have left of a quiet run."""

import csv
import io
import json
import os
import zlib

COLUMNS = ("id", "seq", "xid", "tenant", "topic", "key", "aggregate_type", "aggregate_id", "payload")


class Event:
    def __init__(self, number, tenant, key, n):
        self.id = f"{number:08x}-aaaa-4bbb-8ccc-{number * 7919:012x}"
        self.tenant, self.key, self.n = tenant, key, n
        self.payload = '{"key":"%s", "n":%d,"text":"caf\u00e9 \\\\ %s","one":1.0}' % (key, n, "x" * (number % 5))
        self.crc32 = zlib.crc32(self.payload.encode())

    def row(self, seq):
        return dict(zip(COLUMNS, (self.id, seq, 700 + seq // 3, self.tenant, "test", self.key, "", "", self.payload)))


def line_of(row, payload=None, **changes):
    """A delivery of this row, as the file sink writes it."""
    members = {name: row[name] for name in ("id", "seq", "tenant", "topic", "key")} | changes
    head = json.dumps(members, ensure_ascii=False, separators=(",", ":"))
    text = row["payload"] if payload is None else payload
    return (head[:-1] + ',"payload":' + text.replace("\n", " ") + "}\n").encode()


class Story:
    """Ten transactions of two events each for every one of three keys; all commit, all are delivered once."""

    def __init__(self):
        self.sync_commit = "on"
        self.transactions = []  # (outcome, [events], [ids rolled back to a savepoint])
        self.rows, self.lines, self.faults = [], [], []
        self.undelivered = []  # (event's id, standing)
        self.attempts = []  # (event's id, outcome, when)
        self.window = 0
        self.flags = []  # More arguments for the checker.
        self.tail = b""  # after the last delivery
        numbers = {}
        for i in range(30):
            tenant, key = (("one", "a"), ("one", "b"), ("two", "a"))[i % 3]
            self.write("ok", tenant, key, numbers)

    def write(self, outcome, tenant, key, numbers):
        made = []
        for _ in range(2):
            n = numbers[tenant, key] = numbers.get((tenant, key), 0) + 1
            made.append(Event(1000 + 2 * len(self.transactions) + len(made), tenant, key, n))
        self.transactions.append((outcome, made, []))
        for event in made:
            self.rows.append(event.row(len(self.rows) + 1))
            self.lines.append(line_of(self.rows[-1]))

    # Verbs for those who damage it. Places count from 0; rows, lines and events have the same places at first.

    def event(self, at):
        return [event for _, events, _ in self.transactions for event in events][at]

    def outcome(self, transaction, outcome):
        _, events, rolled_back = self.transactions[transaction]
        self.transactions[transaction] = (outcome, events, rolled_back)

    def savepoint(self, at):
        """The event was rolled back to a savepoint."""
        self.transactions[at // 2][2].append(self.event(at).id)

    def not_stored(self, *places):
        self.rows = [row for at, row in enumerate(self.rows) if at not in places]

    def not_delivered(self, *places):
        self.lines = [line for at, line in enumerate(self.lines) if at not in places]

    def deliver(self, at, again):
        """Once more, before what is at `again` now."""
        self.lines.insert(again, self.lines[at])

    def swap(self, one, other):
        self.lines[one], self.lines[other] = self.lines[other], self.lines[one]

    def replace(self, at, old, new):
        assert old in self.lines[at]
        self.lines[at] = self.lines[at].replace(old, new, 1)

    def dies(self, at):
        """The event was rejected instead."""
        self.not_delivered(at)
        self.undelivered.append((self.event(at).id, "dead"))
        self.attempts.append((self.event(at).id, "rejected", 100 + at))

    def fault(self, kind, begin, end=None, relays=1, began=0, at=0):
        """While the lines from `begin` to before `end` were written."""
        self.faults.append((kind, relays, begin, begin if end is None else end, began, at))

    # On disk

    def producer_lines(self):
        yield {"op": "run", "run": "r", "sync_commit": self.sync_commit}
        for tx, (outcome, events, rolled_back) in enumerate(self.transactions):
            name = {"run": "r", "writer": tx % 4, "tx": tx}
            for event in events:
                yield {"op": "attempt", **name, "tenant": event.tenant, "key": event.key, "n": event.n, "id": event.id,
                       "crc32": event.crc32}
            for lost in rolled_back:
                yield {"op": "rolled_back", **name, "id": lost}
            if outcome:
                yield {"op": outcome, **name}

    def save(self, folder):
        """Returns the checker's arguments."""
        def put(name, content):
            path = os.path.join(folder, name)
            with open(path, "wb") as file:
                file.write(content)
            return path

        def dump(entries):
            return b"".join(json.dumps(entry).encode() + b"\n" for entry in entries)

        table = io.StringIO()
        writer = csv.DictWriter(table, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        offsets = [0]
        for line in self.lines:
            offsets.append(offsets[-1] + len(line))
        faults = [{"fault": kind, "relays": relays, "from": offsets[begin], "to": offsets[end], "began": began, "at": at}
                  for kind, relays, begin, end, began, at in self.faults]

        def dump_csv(names, rows):
            return "".join(",".join(map(str, row)) + "\n" for row in (names, *rows)).encode()
        return ["--producers", put("producers.jsonl", dump(self.producer_lines())),
                "--deliveries", put("deliveries.jsonl", b"".join(self.lines) + self.tail),
                "--events", put("events.csv", table.getvalue().encode()),
                "--undelivered", put("undelivered.csv", dump_csv(("id", "standing"), self.undelivered)),
                "--attempts", put("attempts.csv", dump_csv(("id", "outcome", "at"), self.attempts)),
                "--faults", put("faults.jsonl", dump(faults)), "--window", str(self.window), *self.flags]
