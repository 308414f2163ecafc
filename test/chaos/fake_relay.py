#!/usr/bin/python3
"""A relay small enough to be seen to be right, and four ways to get it wrong: what the chaos run itself is tested with.

    fake_relay.py [--broken HOW] migrate|run --config FILE [--once]

It understands just enough of waybill's command line, configuration and SQL contract. One relay works at a time, the
holder of an advisory lock; the right way is the window of events visible now and not at the last settlement.

    cursor        reads `seq > last`: transactions that commit late are lost (I1)
    settle-first  settles before it publishes: a kill between loses events (I1)
    unclaimed     publishes what no flushed commit of its own vouches for: a crash makes phantoms (I2)
    xid-order     publishes a window in the order of transaction ids: keys get out of order (I3)
"""

import argparse
import ctypes
import json
import os
import signal
import sys
import time
import tomllib

SCHEMA = """
CREATE SCHEMA waybill;
CREATE TABLE waybill.event (seq bigint GENERATED ALWAYS AS IDENTITY, xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
  id uuid NOT NULL, tenant text NOT NULL DEFAULT 'default', aggregate_type text, aggregate_id text, topic text NOT NULL,
  key text, payload json);
CREATE INDEX ON waybill.event (xid, seq);
CREATE INDEX ON waybill.event (seq);
CREATE FUNCTION waybill.enqueue(topic text, payload json, id uuid, tenant text, key text) RETURNS uuid LANGUAGE sql AS
  'INSERT INTO waybill.event (topic, payload, id, tenant, key) VALUES ($1, $2, $3, $4, $5) RETURNING id';
CREATE TABLE waybill.place (seen pg_snapshot NOT NULL, last bigint NOT NULL);
INSERT INTO waybill.place VALUES ('1:1:', 0);
"""
MEMBERS = ("id", "seq", "tenant", "topic", "key")
COLUMNS = ", ".join(MEMBERS) + ", payload"


class Away(Exception):
    """The server is."""


class Database:
    """As much of libpq as is needed."""

    def __init__(self, store):
        self.pq = ctypes.CDLL("libpq.so.5")
        for name in ("PQconnectdb", "PQexec"):
            getattr(self.pq, name).restype = ctypes.c_void_p
        for name in ("PQgetvalue", "PQresultErrorMessage"):
            getattr(self.pq, name).restype = ctypes.c_char_p
        self.connection = ctypes.c_void_p(self.pq.PQconnectdb(store.encode()))
        if self.pq.PQstatus(self.connection) != 0:
            raise Away

    def close(self):
        self.pq.PQfinish(self.connection)

    def run(self, sql):
        """The rows of the last statement, as texts."""
        answer = ctypes.c_void_p(self.pq.PQexec(self.connection, sql.encode()))
        try:
            if self.pq.PQresultStatus(answer) not in (1, 2):  # neither a command nor rows
                if self.pq.PQstatus(self.connection) == 0:
                    sys.exit("fake_relay: " + self.pq.PQresultErrorMessage(answer).decode())
                raise Away
            return [[self.pq.PQgetvalue(answer, row, column).decode() for column in range(self.pq.PQnfields(answer))]
                    for row in range(self.pq.PQntuples(answer))]
        finally:
            self.pq.PQclear(answer)


def line_of(values):
    members = dict(zip(MEMBERS, values))
    members["seq"] = int(members["seq"])
    head = json.dumps(members, ensure_ascii=False, separators=(",", ":"))
    return head[:-1] + ',"payload":' + values[-1] + "}\n"


class Relay:
    def __init__(self, database, out, broken):
        self.database, self.out, self.broken = database, out, broken

    def lead(self):
        return self.database.run("SELECT pg_try_advisory_lock(4711)")[0][0] == "t"

    def step(self):
        """Claims, publishes and settles; returns how many events there were."""
        events, place = self.claim()
        if self.broken == "settle-first":
            self.settle(place)
            time.sleep(0.3)  # Long enough for a kill to find it here.
        os.write(self.out, "".join(map(line_of, events)).encode())
        if self.broken != "settle-first":
            self.settle(place)
        return len(events)

    def claim(self):
        run = self.database.run
        run("BEGIN ISOLATION LEVEL REPEATABLE READ")  # So that all statements see what the first saw.
        now, seen, last = run("SELECT pg_current_snapshot(), seen, last FROM waybill.place")[0]
        fresh = f"xid >= pg_snapshot_xmin('{seen}') AND NOT pg_visible_in_snapshot(xid, '{seen}')"
        if self.broken == "cursor":
            fresh = f"seq > {last}"
        order = "xid, seq" if self.broken == "xid-order" else "seq"
        events = run(f"SELECT {COLUMNS} FROM waybill.event WHERE {fresh} ORDER BY {order}")
        if self.broken != "unclaimed":  # A lock writes to the log, so that this commit flushes all before it.
            run("SET LOCAL synchronous_commit = on; SELECT FROM waybill.place FOR UPDATE")
        run("COMMIT")
        return events, (now, max([int(last), *(int(event[1]) for event in events)]))

    def settle(self, place):
        mode = "off" if self.broken == "unclaimed" else "on"
        self.database.run(f"BEGIN; SET LOCAL synchronous_commit = {mode}; "
                          f"UPDATE waybill.place SET seen = '{place[0]}', last = {place[1]}; COMMIT")


def work(options, config):
    """One connection's life. True: done."""
    out = os.open(config["destinations"]["out"]["path"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    database = Database(config["store"])
    try:
        relay = Relay(database, out, options.broken)
        while not stopping:
            if not relay.lead():
                time.sleep(0.05)
            elif not relay.step():
                if options.once:
                    return True
                time.sleep(0.01)
        return True
    finally:
        database.close()
        os.close(out)


stopping = []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broken", choices=("cursor", "settle-first", "unclaimed", "xid-order"))
    parser.add_argument("command", choices=("migrate", "run"))
    parser.add_argument("--config", required=True)
    parser.add_argument("--once", action="store_true")
    options = parser.parse_args()
    with open(options.config, "rb") as file:
        config = tomllib.load(file)
    if options.command == "migrate":
        Database(config["store"]).run(SCHEMA)
        return
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
    while True:
        try:
            if work(options, config):
                return
        except Away:
            time.sleep(0.05)


if __name__ == "__main__":
    main()
