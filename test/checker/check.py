#!/usr/bin/python3
"""Judges a history of producers, relays and a consumer. Shares no code with the relay.

  I1  every committed event was delivered or died   I4  duplicates only where a fault explains them, and few
  I2  nothing else was delivered                    I5  a delivery says what the row says, every time
  I3  first deliveries in order, per tenant and key I6  what was delivered stays delivered

Exit: 0 clean, 1 violations, 2 the history cannot be judged. README.md beside has the formats.
"""

import argparse
import json
import re
import sys
from array import array
from bisect import bisect_right

from history import (BadInput, Events, Faults, INFO, LINE_BREAKS, OK, ROLLED_BACK, UNKNOWN, csv_rows, parse_id,
                     same_event)

EVIDENCE_MAX = 20  # per kind of violation; the counts are exact
DECODER = json.JSONDecoder()
SPACE = re.compile(r"[ \t\r\n]*")
LINE_START = b'{"id":"'
ENDS = ("dead", "dismissed", "expired", "expired_unknown")  # of an event that is not delivered,
UNSURE = "expired_unknown"  # but for this: it may have been

KINDS = {  # kind -> (invariant, what it means)
    "lost": ("I1", "committed, but neither delivered nor dead"),
    "left_waiting": ("I1", "undelivered, and not at an end either, though everything is quiet"),
    "lost_commit": ("I1", "the commit was confirmed, but the database does not have it"),
    "phantom": ("I2", "delivered, but the database does not have it"),
    "rolled_back_delivered": ("I2", "delivered, but its transaction was rolled back"),
    "rolled_back_stored": ("I2", "in the database, but its transaction was rolled back"),
    "unknown_delivered": ("I2", "delivered, but nobody wrote it"),
    "unknown_stored": ("I2", "in the database, but nobody wrote it"),
    "unknown_undelivered": ("I2", "said to be undelivered or tried, but the database does not have it"),
    "overtaken": ("I3", "first delivered after a later event of its key"),
    "unexplained_duplicate": ("I4", "delivered again with no fault between"),
    "too_many_duplicates": ("I4", "more duplicates than the faults allow"),
    "stored_twice": ("I4", "two rows in the database"),
    "payload_changed": ("I5", "delivered with another payload than the row's"),
    "event_changed": ("I5", "delivered with another seq, tenant, topic, key or aggregate than the row's"),
    "redelivery_differs": ("I5", "delivered again, but not as the first time"),
    "stored_payload_differs": ("I5", "the row's payload is not what the producer wrote"),
    "not_an_event": ("I5", "a delivered line is not an event"),
    "too_many_cuts": ("I5", "more cut lines than relays were killed"),
    "dead_though_delivered": ("I6", "given up, but it was delivered"),
    "tried_after_delivery": ("I6", "tried again after an attempt that delivered it, with no fault between"),
}


class Verdict:
    def __init__(self):
        self.counts, self.violations = {}, {}

    def add(self, kind, **evidence):
        found = self.violations.setdefault(kind, {"count": 0, "evidence": []})
        found["count"] += 1
        if len(found["evidence"]) < EVIDENCE_MAX:
            found["evidence"].append(evidence)

    def as_json(self):
        violations = [{"invariant": KINDS[kind][0], "kind": kind, "meaning": KINDS[kind][1], **found}
                      for kind, found in self.violations.items()]
        return {"verdict": "violated" if violations else "clean", "counts": self.counts,
                "violations": sorted(violations, key=lambda v: (v["invariant"], v["kind"]))}


def raw_member(line, name):
    """The bytes of one member of a JSON object, as they stand there; None if it has none."""
    text = line.decode()
    at = SPACE.match(text).end()
    while text[at] != "}":
        member, at = DECODER.raw_decode(text, SPACE.match(text, at + 1).end())
        colon = SPACE.match(text, at).end()
        value = SPACE.match(text, colon + 1).end()
        _, at = DECODER.raw_decode(text, value)
        if member == name:
            return text[value:at].encode()
        at = SPACE.match(text, at).end()
    return None


def same_payload(line, expected):
    """Does the delivery carry the bytes with this digest? Looks at the usual place before it looks properly."""
    start = line.find(b'"payload":') + 10
    if start > 9 and hash(line[start:-1]) == expected:
        return True
    payload = raw_member(line, "payload")
    return payload is not None and hash(payload.translate(LINE_BREAKS)) == expected


def parse_delivery(line):
    """The event, or None. What follows part of a line on the same one is not delivered: no consumer could read it."""
    try:
        event = json.loads(line)
        parse_id(event["id"]), int(event["seq"])
        return event
    except (ValueError, KeyError, TypeError):
        return None


class Deliveries:
    """Follows the consumer's log line by line."""

    def __init__(self, events, faults, verdict, lossy):
        self.events, self.faults, self.verdict = events, faults, verdict
        self.lossy, self.gone = lossy, 0  # Delivered, and then lost with a primary.
        self.known = len(events)  # What comes after is in neither log nor database.
        zeros = bytes(8 * self.known)
        self.first_line, self.last_offset, self.line_digest = (array("q", zeros) for _ in range(3))
        self.newest = {}  # key -> (n, line) of its newest first delivery
        self.deliveries = self.duplicates = self.cuts = 0

    def read(self, path):
        offset = 0
        with open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                if line.endswith(b"\n"):
                    self._line(number, offset, line[:-1])
                else:
                    self.cuts += 1
                offset += len(line)

    def _line(self, number, offset, line):
        event = parse_delivery(line)
        if not event:
            self._not_an_event(number, line)
            return
        self.deliveries += 1
        at = self.events.place.get(parse_id(event["id"]))
        if at is None:
            at = self._unknown(number, event)
        if self.first_line[at]:
            self._again(at, number, offset, event, line)
        else:
            self._first(at, number, event, line)
        self.last_offset[at] = offset

    def _not_an_event(self, number, line):
        if LINE_START in line or LINE_START.startswith(line):  # Cut; another relay's line may follow.
            self.cuts += 1
        else:
            self.verdict.add("not_an_event", line=number, text=line[:200].decode(errors="replace"))

    def _unknown(self, number, event):
        at = self.events.add(parse_id(event["id"]))
        for column in (self.first_line, self.last_offset, self.line_digest):
            column.append(0)
        self.verdict.add("unknown_delivered", id=event["id"], line=number)
        return at

    def _first(self, at, number, event, line):
        self.first_line[at] = number
        self.line_digest[at] = hash(line)
        if self.events.stored[at]:
            self._compare(at, number, event, line)
            self._order(at, number, event)
        elif at < self.known:
            rolled_back = self.events.outcome[at] == ROLLED_BACK
            if self.lossy and not rolled_back:
                self.gone += 1
                return
            self.verdict.add("rolled_back_delivered" if rolled_back else "phantom", line=number,
                             **self.events.describe(at, parse_id(event["id"])))

    def _again(self, at, number, offset, event, line):
        self.duplicates += 1
        faults = self.faults
        begun = bisect_right(faults.begins, offset)
        if not begun or faults.latest_ends[begun - 1] <= self.last_offset[at]:
            self.verdict.add("unexplained_duplicate", id=event["id"], lines=[self.first_line[at], number])
        if hash(line) == self.line_digest[at]:
            return
        if not self.events.stored[at] or self._compare(at, number, event, line):
            self.verdict.add("redelivery_differs", id=event["id"], lines=[self.first_line[at], number])

    def _compare(self, at, number, event, line):
        if same_event(event) != self.events.identity[at]:
            self.verdict.add("event_changed", id=event["id"], line=number)
        elif not same_payload(line, self.events.payload[at]):
            self.verdict.add("payload_changed", id=event["id"], line=number)
        else:
            return True
        return False

    def _order(self, at, number, event):
        key, n = self.events.key[at], self.events.n[at]
        if key < 0:
            return
        newest = self.newest.get(key)
        if newest and newest[0] >= n:
            self.verdict.add("overtaken", line=number, by={"n": newest[0], "line": newest[1]},
                             **self.events.describe(at, parse_id(event["id"])))
        else:
            self.newest[key] = (n, number)


class Undelivered:
    """What the relays themselves say of the events that they could not deliver at once."""

    def __init__(self, events, faults, verdict):
        self.events, self.faults, self.verdict = events, faults, verdict
        self.ended = set()  # places of those that were given up, or need not go
        self.attempts = 0

    def _place(self, path, line, row):
        try:
            number = parse_id(row["id"])
        except ValueError as error:
            raise BadInput(f"{path}:{line}: {error}") from error
        at = self.events.place.get(number)
        if at is not None and self.events.stored[at]:
            return at, number
        self.verdict.add("unknown_undelivered", id=row["id"], line=line)
        return None, number

    def read_standings(self, path, deliveries):
        for line, row in csv_rows(path, "undelivered", ("id", "standing")):
            at, number = self._place(path, line, row)
            if at is None:
                continue
            if row["standing"] not in ENDS:
                self.verdict.add("left_waiting", standing=row["standing"], **self.events.describe(at, number))
            elif deliveries.first_line[at] and row["standing"] != UNSURE:
                self.verdict.add("dead_though_delivered", line=deliveries.first_line[at],
                                 **self.events.describe(at, number))
            self.ended.add(at)  # Also what waits: it is not lost, and was blamed for that already.

    def read_attempts(self, path):
        delivered = {}  # place -> when
        for line, row in csv_rows(path, "attempts", ("id", "outcome", "at")):
            at, number = self._place(path, line, row)
            self.attempts += 1
            try:
                when = float(row["at"])
            except ValueError as error:
                raise BadInput(f"{path}:{line}: {error}") from error
            if at in delivered and not self._fault_between(delivered[at], when):
                self.verdict.add("tried_after_delivery", delivered=delivered[at], again=when,
                                 **self.events.describe(at, number))
            if at is not None and row["outcome"] == "delivered":
                delivered[at] = when

    def _fault_between(self, first, second):
        return any(began <= second and ended >= first for began, ended in self.faults.times)


def judge_stored(events, deliveries, undelivered, faults, verdict):
    """What the producers were told, what the database has, what was delivered: the three must agree.

    Returns how many confirmed commits were lost with a primary."""
    gone = 0
    for number, at in events.place.items():
        kind = None
        if events.stored[at]:
            if events.stored[at] > 1:
                verdict.add("stored_twice", **events.describe(at, number))
            if events.key[at] < 0:
                verdict.add("unknown_stored", **events.describe(at, number))
            if events.outcome[at] == ROLLED_BACK:
                kind = "rolled_back_stored"
            elif not deliveries.first_line[at] and at not in undelivered.ended:
                kind = "lost"
        elif events.outcome[at] == OK and not (events.asynchronous[at] and faults.counts["crash"]):
            kind = None if deliveries.lossy else "lost_commit"
            gone += deliveries.lossy
        if kind:
            verdict.add(kind, **events.describe(at, number))
    return gone


def judge(options):
    verdict, events, faults = Verdict(), Events(), Faults(options.faults)
    producer_cuts = sum(events.read_producers(path) for path in options.producers)
    events.read_database(options.events,
                         lambda at, number: verdict.add("stored_payload_differs", **events.describe(at, number)))
    stored = sum(map(bool, events.stored))
    lossy = options.lossy_failover and faults.counts["failover"] > 0
    deliveries = Deliveries(events, faults, verdict, lossy)
    deliveries.read(options.deliveries)
    if not stored and not deliveries.deliveries:
        raise BadInput("no event was committed, none delivered: there is nothing to judge")
    undelivered = Undelivered(events, faults, verdict)
    if options.undelivered:
        undelivered.read_standings(options.undelivered, deliveries)
    if options.attempts:
        undelivered.read_attempts(options.attempts)
    gone = judge_stored(events, deliveries, undelivered, faults, verdict)
    allowed = faults.relays_hit * options.window
    if deliveries.duplicates > allowed:
        verdict.add("too_many_duplicates", duplicates=deliveries.duplicates, allowed=allowed)
    if deliveries.cuts > faults.counts["kill"]:
        verdict.add("too_many_cuts", cuts=deliveries.cuts, kills=faults.counts["kill"])
    outcomes = events.outcome[:deliveries.known]
    verdict.counts = {
        "attempted": sum(key >= 0 for key in events.key), "ok": outcomes.count(OK),
        "rolled_back": outcomes.count(ROLLED_BACK), "outcome_unknown": outcomes.count(INFO) + sum(
            outcome == UNKNOWN and key >= 0 for outcome, key in zip(outcomes, events.key)),
        "committed": stored, "keys": len(events.keys), "deliveries": deliveries.deliveries,
        "duplicates": deliveries.duplicates, "duplicates_allowed": allowed, "given_up": len(undelivered.ended),
        "attempts_on_record": undelivered.attempts, "cut_lines": deliveries.cuts,
        "cut_producer_lines": producer_cuts, "faults": faults.counts}
    if lossy:
        verdict.counts |= {"commits_lost_with_a_primary": gone, "delivered_then_lost_with_a_primary": deliveries.gone}
    return verdict


def print_summary(result):
    for name, value in result["counts"].items():
        if isinstance(value, dict):
            value = ", ".join(f"{count} {kind}" for kind, count in value.items())
        print(f"{name.replace('_', ' '):>20}: {value}")
    for violation in result["violations"]:
        print(f"{violation['invariant']} {violation['kind']}: {violation['count']} x {violation['meaning']}")
        for evidence in violation["evidence"]:
            print("    " + json.dumps(evidence, ensure_ascii=False))
    print("verdict: " + result["verdict"])


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--producers", required=True, nargs="+", metavar="FILE", help="JSON lines")
    parser.add_argument("--deliveries", required=True, metavar="FILE", help="JSON lines, as the file sink writes them")
    parser.add_argument("--events", required=True, metavar="FILE", help="table waybill.event, by psql --csv")
    parser.add_argument("--undelivered", metavar="FILE", help="table waybill.undelivered, by psql --csv")
    parser.add_argument("--attempts", metavar="FILE", help="table waybill.attempt with the events' ids, likewise")
    parser.add_argument("--faults", metavar="FILE", help="JSON lines; none: there were no faults")
    parser.add_argument("--window", type=int, default=0, metavar="N",
                        help="events that one fault may have delivered twice, per relay hit (default 0)")
    parser.add_argument("--lossy-failover", action="store_true",
                        help="replication is asynchronous: count what a failover has lost, and judge the rest")
    parser.add_argument("--json", action="store_true", help="for programs")
    options = parser.parse_args(arguments)
    try:
        result = judge(options).as_json()
    except (BadInput, OSError, UnicodeDecodeError) as error:
        print(f"check: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(result, ensure_ascii=False))
    else:
        print_summary(result)
    return 1 if result["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
