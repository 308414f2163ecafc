"""The table of histories, and those of them that are sound: unusual, but nothing is wrong with them.

`@case(*kinds)` registers what is done to a story and the kinds of violation that must be found then; `each` registers
the same at several places. The damaged ones are in broken_cases.py.
"""

from story import line_of

CASES = []  # (name, kinds, how to damage a story)


def case(*kinds):
    def register(damage):
        CASES.append((damage.__name__, set(kinds), damage))
        return damage
    return register


def each(name, places, kinds, damage):
    """The same damage at several places."""
    for at in places:
        CASES.append((f"{name}_{at}", set(kinds), lambda story, at=at: damage(story, at)))


def relay_away(story, kind="kill"):
    """A relay is hit after line 30 and another sends lines 20 to 29 again; the bound allows just that."""
    story.window = 10
    story.lines[30:30] = story.lines[20:30]
    story.fault(kind, 30)


def lossy(story):
    """A standby that lacks the tail is promoted after line 30."""
    story.flags.append("--lossy-failover")
    story.fault("failover", 30, relays=3)


@case()
def untouched(story):
    pass


each("again_after", ("kill", "stop", "crash", "broker", "failover"), (), relay_away)
each("keys_interleaved_from", range(0, 60, 6), (), lambda story, at: story.swap(at + 1, at + 2))


@case()
def late_commit(story):
    """Drawn before all others, committed and delivered after them: another key's affair."""
    story.write("ok", "one", "late", {})
    story.rows[60]["seq"], story.rows[61]["seq"] = -1, 0
    story.lines[60:] = map(line_of, story.rows[60:])


@case()
def cut_at_the_end_by_a_kill(story):
    story.fault("kill", 60)
    story.tail = story.lines[-1][:40]


@case()
def cut_before_another_relays_line(story):
    """Who finds that writes its line again."""
    story.fault("kill", 30)
    story.lines.insert(30, story.lines[33][:50] + story.lines[30])


@case()
def cut_and_ended_by_the_next_relay(story):
    story.fault("kill", 30)
    story.lines.insert(30, story.lines[33][:50] + b"\n")


@case()
def cut_within_the_first_bytes(story):
    story.fault("kill", 30)
    story.lines.insert(30, b'{"i' + story.lines[30])


@case()
def lost_with_a_primary(story):
    """Of the lost ones, some were delivered."""
    lossy(story)
    story.outcome(4, "info")
    story.not_stored(8, 12, 13)
    story.not_delivered(12)


@case()
def unknown_outcome_was_committed(story):
    story.outcome(4, "info")


@case()
def unknown_outcome_was_not_committed(story):
    story.outcome(4, "info")
    story.not_stored(8, 9)
    story.not_delivered(8, 9)


@case()
def no_outcome_was_committed(story):
    story.outcome(29, None)


@case()
def no_outcome_was_not_committed(story):
    story.outcome(29, None)
    story.not_stored(58, 59)
    story.not_delivered(58, 59)


@case()
def rolled_back_and_its_numbers_given_again(story):
    story.outcome(0, "rolled_back")
    story.not_stored(0, 1)
    story.not_delivered(0, 1)
    story.event(6).n, story.event(7).n = 1, 2


@case()
def savepoint_rolled_back(story):
    story.savepoint(8)
    story.not_stored(8)
    story.not_delivered(8)


@case()
def asynchronous_commits_lost_in_a_crash(story):
    story.sync_commit = "off"
    story.fault("crash", 20, relays=3)
    story.not_stored(20, 21)
    story.not_delivered(20, 21)


@case()
def payload_on_several_lines(story):
    story.rows[5]["payload"] = story.rows[5]["payload"].replace(", ", ",\r\n")
    story.event(5).crc32 = -1
    story.lines[5] = line_of(story.rows[5], story.rows[5]["payload"].replace("\r\n", "  "))


@case()
def payload_is_not_the_last_member(story):
    payload = story.rows[5]["payload"].encode()
    story.lines[5] = story.lines[5].replace(b',"payload":' + payload, b"").replace(
        b',"topic"', b',"payload": ' + payload + b' ,"topic"')


@case()
def metadata_speaks_of_a_payload(story):
    story.lines[5] = line_of(story.rows[5], metadata={"payload": 1})


@case()
def woken_after_the_other_relay_began(story):
    """The stopped relay sends what the other sent meanwhile."""
    story.window = 10
    story.lines[40:40] = story.lines[32:36]
    story.fault("stop", 30, 38)


@case()
def each_relay_hit_has_its_window(story):
    story.window = 2
    story.lines[30:30] = story.lines[24:30]
    story.fault("crash", 30, relays=3)


@case()
def one_died(story):
    story.dies(7)


@case()
def some_died_and_others_were_tried_again(story):
    for at in (30, 12, 5):
        story.dies(at)
    for number, outcome in enumerate(("retry", "unknown", "delivered")):
        story.attempts.append((story.event(20).id, outcome, 200 + number))


@case()
def delivered_killed_and_tried_again(story):
    relay_away(story)
    story.faults[-1] = (*story.faults[-1][:4], 201, 202)
    for when, outcome in ((200, "delivered"), (203, "retry"), (204, "delivered")):
        story.attempts.append((story.event(25).id, outcome, when))


each("need_not_go", ("dismissed", "expired", "expired_unknown"), (),
     lambda story, standing: (story.not_delivered(9), story.undelivered.append((story.event(9).id, standing))))


@case()
def expired_but_may_have_arrived_and_did(story):
    story.undelivered.append((story.event(9).id, "expired_unknown"))
