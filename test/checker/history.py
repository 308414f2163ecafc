"""Reads a history (README.md has the formats) into columns: one place per event, found by its id.

Columns instead of objects, since a history of two million events should fit into a few hundred megabytes.
"""

import csv
import json
import sys
import zlib
from array import array

UNKNOWN, OK, ROLLED_BACK, INFO = range(4)  # UNKNOWN: in the log without an outcome; judged like INFO.
OUTCOMES = {"ok": OK, "rolled_back": ROLLED_BACK, "info": INFO}
EXCUSES = {"kill": 1, "stop": 1, "crash": 1, "broker": 1, "failover": 1, "term": 0}  # A clean stop sends nothing twice.
COLUMNS = ("id", "seq", "tenant", "topic", "key", "aggregate_type", "aggregate_id", "payload")
LINE_BREAKS = bytes.maketrans(b"\n\r", b"  ")  # The file sink writes an event on one line.


class BadInput(Exception):
    """The history itself cannot be read; nothing can be judged."""


def parse_id(text):
    if not isinstance(text, str) or len(text) != 36:
        raise ValueError(f"not an id: {text!r}")
    return int(text.replace("-", ""), 16)


def format_id(number):
    text = f"{number:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def same_event(fields):
    """A digest of what names an event, as its row and as a delivery of it tell."""
    return hash((int(fields["seq"]), *(str(fields.get(name) or "") for name in COLUMNS[2:7])))


def json_lines(path, what):
    """Yields (line number, object) and at the end (None, 1) if the last line was cut."""
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                yield None, 1
                return
            try:
                value = json.loads(line)
                if not isinstance(value, dict):
                    raise ValueError("not an object")
            except ValueError as error:
                raise BadInput(f"{what} {path}:{number}: {error}") from error
            yield number, value


def csv_rows(path, what, columns):
    """Yields (line number, row as a dictionary) of what psql --csv has written."""
    csv.field_size_limit(sys.maxsize)
    with open(path, encoding="utf-8", newline="") as file:
        rows = csv.reader(file)
        names = next(rows, [])
        missing = [name for name in columns if name not in names]
        if missing:
            raise BadInput(f"{what} {path}: no column {', '.join(missing)}")
        try:
            for values in rows:
                yield rows.line_num, dict(zip(names, values, strict=True))
        except (ValueError, csv.Error) as error:
            raise BadInput(f"{what} {path}:{rows.line_num}: {error}") from error


class Events:
    """Every event that somebody attempted to write, and every row of the database."""

    def __init__(self):
        self.place = {}  # id -> place in the columns
        self.keys, self.key_place = [], {}  # (tenant, key)
        self.runs = {}  # run -> is its commit asynchronous?
        self.key = array("l")  # -1: nobody attempted it
        self.n = array("q")
        self.outcome = bytearray()
        self.asynchronous = bytearray()
        self.crc32 = array("q")  # -1: not told
        self.stored = bytearray()  # rows in the database
        self.identity = array("q")
        self.payload = array("q")  # digest of the row's payload as a delivery shows it

    def __len__(self):
        return len(self.outcome)

    def add(self, number, key=-1, n=0, asynchronous=0, crc32=-1):
        at = self.place[number] = len(self)
        for column, value in ((self.key, key), (self.n, n), (self.crc32, crc32), (self.identity, 0), (self.payload, 0),
                              (self.outcome, UNKNOWN), (self.asynchronous, asynchronous), (self.stored, 0)):
            column.append(value)
        return at

    def describe(self, at, number):
        if self.key[at] < 0:
            return {"id": format_id(number)}
        tenant, key = self.keys[self.key[at]]
        return {"id": format_id(number), "tenant": tenant, "key": key, "n": self.n[at]}

    def read_producers(self, path):
        """Returns how many lines were cut (0 or 1)."""
        open_transactions = {}  # (run, writer, tx) -> places
        for line, entry in json_lines(path, "producers' log"):
            if line is None:
                return entry
            try:
                self._producer_line(entry, open_transactions)
            except (KeyError, TypeError, ValueError) as error:
                raise BadInput(f"producers' log {path}:{line}: {error!r}") from error
        return 0

    def _producer_line(self, entry, open_transactions):
        if entry["op"] == "run":
            self.runs[entry["run"]] = {"on": 0, "off": 1}[entry["sync_commit"]]
            return
        transaction = (entry["run"], entry["writer"], entry["tx"])
        if entry["op"] == "attempt":
            open_transactions.setdefault(transaction, []).append(self._attempt(entry))
        elif "id" in entry:  # One event of the transaction, rolled back to a savepoint.
            at = self.place[parse_id(entry["id"])]
            open_transactions[transaction].remove(at)
            self.outcome[at] = OUTCOMES[entry["op"]]
        else:
            for at in open_transactions.pop(transaction):
                self.outcome[at] = OUTCOMES[entry["op"]]

    def _attempt(self, entry):
        number = parse_id(entry["id"])
        if number in self.place:
            raise ValueError(f"attempted twice: {entry['id']}")
        name = (entry["tenant"], entry["key"])
        key = self.key_place.setdefault(name, len(self.keys))
        if key == len(self.keys):
            self.keys.append(name)
        return self.add(number, key, int(entry["n"]), self.runs[entry["run"]], int(entry.get("crc32", -1)))

    def read_database(self, path, damaged):
        """Calls `damaged(place, id)` for every row whose payload is not what its producer wrote."""
        for line, row in csv_rows(path, "database", COLUMNS):
            try:
                self._row(row, damaged)
            except ValueError as error:
                raise BadInput(f"database {path}:{line}: {error}") from error

    def _row(self, row, damaged):
        number = parse_id(row["id"])
        at = self.place.get(number)
        if at is None:
            at = self.add(number)
        self.stored[at] = min(self.stored[at] + 1, 255)
        payload = row["payload"].encode()
        self.payload[at] = hash(payload.translate(LINE_BREAKS))
        self.identity[at] = same_event(row)
        if self.crc32[at] >= 0 and zlib.crc32(payload) != self.crc32[at]:
            damaged(at, number)


class Faults:
    """What was done to relays and server, and which duplicates that excuses."""

    def __init__(self, path=None):
        self.counts = dict.fromkeys(EXCUSES, 0)
        self.relays_hit = 0
        self.begins, self.latest_ends = [], []
        self.times = []  # of those that hit a relay
        stretches = []
        for line, entry in json_lines(path, "faults log") if path else ():
            if line is None:
                raise BadInput(f"faults log {path}: the last line is cut")
            try:
                excused = EXCUSES[entry["fault"]] * int(entry["relays"])
                begin, end = int(entry["from"]), int(entry["to"])
            except (KeyError, TypeError, ValueError) as error:
                raise BadInput(f"faults log {path}:{line}: {error!r}") from error
            self.counts[entry["fault"]] += 1
            self.relays_hit += excused
            if excused:
                stretches.append((begin, end))
                self.times.append((float(entry.get("began", 0)), float(entry.get("at", "inf"))))
        latest = -1
        for begin, end in sorted(stretches):
            latest = max(latest, end)
            self.begins.append(begin)
            self.latest_ends.append(latest)
