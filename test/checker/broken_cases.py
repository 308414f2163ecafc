"""The damaged histories: what was done to a sound one, and the kinds of violation that must be found."""

from cases import case, each, lossy, relay_away
from story import Event, line_of

# --- I1: every committed event was delivered -------------------------------------------------------------------------

each("lost", (0, 1, 7, 29, 30, 58, 59), ["lost"], lambda story, at: story.not_delivered(at))


@case("lost")
def lost_everything(story):
    story.lines = []


@case("lost")
def lost_a_whole_key(story):
    story.lines = [line for line in story.lines if b'"tenant":"two"' not in line]


@case("lost")
def lost_though_the_outcome_was_unknown(story):
    story.outcome(4, "info")
    story.not_delivered(8, 9)


@case("lost")
def lost_though_no_outcome_was_written(story):
    story.outcome(4, None)
    story.not_delivered(8)


@case("lost")
def lost_under_asynchronous_commits(story):
    story.sync_commit = "off"
    story.fault("crash", 10, relays=3)
    story.not_delivered(8)


@case("lost")
def lost_the_one_that_was_cut(story):
    story.fault("kill", 59)
    story.tail = story.lines.pop()[:-9]


@case("lost")
def lost_the_one_before_a_glued_line(story):
    story.fault("kill", 30)
    story.lines[30:32] = [story.lines[30][:50] + story.lines[31]]


@case("lost")
def lost_the_one_behind_a_cut_line(story):
    story.fault("kill", 30)
    story.lines[30] = story.lines[33][:50] + story.lines[30]


each("lost_by_the_new_primary", (5, 50), ["lost"], lambda story, at: (lossy(story), story.not_delivered(at)))


@case("lost_commit")
def lost_commit_though_nothing_failed_over(story):
    story.flags.append("--lossy-failover")
    story.not_stored(12)
    story.not_delivered(12)


@case("rolled_back_delivered", "unknown_delivered")
def invented_at_a_failover(story):
    lossy(story)
    story.outcome(7, "rolled_back")
    story.not_stored(14, 15)
    story.lines.insert(20, story.lines[20].replace(story.event(20).id.encode(), b"f" * 8 + story.event(20).id[8:].encode()))


@case("lost")
def lost_half_of_a_transaction_with_a_savepoint(story):
    story.savepoint(8)
    story.not_stored(8)
    story.not_delivered(8, 9)


@case("lost_commit")
def confirmed_but_not_stored(story):
    story.not_stored(12)
    story.not_delivered(12)


@case("lost_commit")
def confirmed_but_lost_in_a_crash(story):
    story.fault("crash", 20, relays=3)
    story.not_stored(12, 13)
    story.not_delivered(12, 13)


@case("lost_commit")
def asynchronous_commit_lost_without_a_crash(story):
    story.sync_commit = "off"
    story.fault("kill", 20)
    story.not_stored(12, 13)
    story.not_delivered(12, 13)


# --- I2: nothing else was delivered ----------------------------------------------------------------------------------

each("phantom_of_outcome", ("info", None), ["phantom"],
     lambda story, outcome: (story.outcome(6, outcome), story.not_stored(12, 13)))
each("rolled_back_but_delivered", (0, 14, 29), ["rolled_back_delivered"],
     lambda story, at: (story.outcome(at, "rolled_back"), story.not_stored(2 * at, 2 * at + 1)))
each("rolled_back_but_stored", (0, 29), ["rolled_back_stored"],
     lambda story, at: (story.outcome(at, "rolled_back"), story.not_delivered(2 * at, 2 * at + 1)))


@case("phantom")
def phantom_of_an_asynchronous_commit(story):
    story.sync_commit = "off"
    story.fault("crash", 20, relays=3)
    story.not_stored(12, 13)


@case("phantom", "lost_commit")
def phantom_of_a_confirmed_commit(story):
    story.not_stored(12)


@case("phantom")
def phantoms_only(story):
    story.sync_commit = "off"
    story.fault("crash", 60, relays=3)
    story.rows = []


@case("phantom")
def phantom_delivered_twice(story):
    story.outcome(10, "info")
    story.not_stored(20, 21)
    relay_away(story)


@case("rolled_back_delivered")
def savepoint_rolled_back_but_delivered(story):
    story.savepoint(8)
    story.not_stored(8)


@case("rolled_back_stored")
def savepoint_rolled_back_but_stored(story):
    story.savepoint(8)


@case("unknown_delivered")
def nobody_wrote_what_was_delivered(story):
    story.lines.append(line_of(Event(9, "one", "a", 21).row(99)))


@case("unknown_delivered", "lost")
def id_changed_on_the_way(story):
    story.replace(17, story.event(17).id[:8].encode(), b"ffffffff")


@case("unknown_stored")
def nobody_wrote_what_is_stored(story):
    story.rows.append(Event(9, "one", "a", 21).row(99))
    story.lines.append(line_of(story.rows[-1]))


@case("unknown_stored", "lost")
def nobody_wrote_it_and_nobody_got_it(story):
    story.rows.append(Event(9, "one", "a", 21).row(99))


# --- I3: first deliveries in order, per tenant and key ---------------------------------------------------------------

each("swapped_in_a_transaction", (0, 20, 58), ["overtaken"], lambda story, at: story.swap(at, at + 1))
each("swapped_in_a_key", (1, 9, 31), ["overtaken"], lambda story, at: story.swap(at, at + 6))


@case("overtaken")
def first_of_a_key_comes_last(story):
    story.lines.append(story.lines.pop(0))


@case("overtaken")
def last_of_a_key_comes_first(story):
    story.lines.insert(0, story.lines.pop())


@case("overtaken")
def backwards(story):
    story.lines.reverse()


@case("overtaken")
def order_broken_after_a_kill(story):
    """The duplicates are excused, the first delivery behind them is not."""
    relay_away(story)
    story.swap(50, 56)


@case("overtaken")
def late_commit_in_the_same_key(story):
    story.rows[0]["seq"] = 777
    story.lines[0] = line_of(story.rows[0])
    story.lines.append(story.lines.pop(0))


@case("overtaken")
def one_number_given_twice(story):
    story.event(6).n = story.event(1).n


# --- I4: duplicates only where a fault explains them, and few --------------------------------------------------------

each("twice_without_a_fault", (0, 30, 59), ["unexplained_duplicate", "too_many_duplicates"],
     lambda story, at: story.deliver(at, at + 1))


@case("unexplained_duplicate", "too_many_duplicates")
def everything_twice(story):
    story.lines += story.lines


@case("unexplained_duplicate", "too_many_duplicates")
def again_after_a_clean_stop(story):
    relay_away(story, "term")


@case("too_many_duplicates")
def one_more_than_the_bound(story):
    relay_away(story)
    story.deliver(0, 35)


@case("too_many_duplicates")
def no_window_no_duplicates(story):
    relay_away(story)
    story.window = 0


@case("unexplained_duplicate")
def again_before_the_fault(story):
    story.window = 10
    story.deliver(3, 9)
    story.fault("kill", 20)


@case("unexplained_duplicate")
def again_long_after_the_fault(story):
    story.window = 10
    story.deliver(33, 40)
    story.fault("kill", 20)


@case("unexplained_duplicate")
def a_third_time_after_the_fault(story):
    relay_away(story)
    story.window = 20
    story.deliver(30, 45)


@case("unexplained_duplicate")
def again_between_two_faults(story):
    story.window = 10
    story.fault("kill", 10)
    story.fault("kill", 50)
    story.deliver(20, 40)


@case("stored_twice")
def two_rows_of_one_event(story):
    story.rows.append(dict(story.rows[3]))


# --- I5: a delivery says what the row says, every time ---------------------------------------------------------------

each("payload_byte_altered", (0, 31, 59), ["payload_changed"],
     lambda story, at: story.replace(at, b"caf\xc3\xa9", b"cafe"))
each("member_altered", ("tenant", "topic", "key"), ["event_changed"],
     lambda story, name: story.lines.__setitem__(7, line_of(story.rows[7] | {name: "other"})))


@case("event_changed")
def seq_altered(story):
    story.replace(0, b'"seq":1,', b'"seq":2,')


@case("payload_changed")
def payload_rewritten_by_jsonb(story):
    story.replace(4, b'"key":"a", "n"', b'"key": "a", "n"')


@case("payload_changed")
def payload_number_rewritten(story):
    story.replace(4, b'"one":1.0', b'"one":1')


@case("payload_changed")
def payload_backslash_lost(story):
    story.replace(4, b"\\\\", b"/")


@case("payload_changed")
def payload_of_another_event(story):
    story.lines[4] = line_of(story.rows[4], story.rows[5]["payload"])


@case("payload_changed")
def payload_missing(story):
    story.lines[4] = story.lines[4].replace(b',"payload":', b',"pay":')


@case("payload_changed")
def payload_altered_only_in_the_duplicate(story):
    relay_away(story)
    story.replace(33, b"caf\xc3\xa9", b"cafe")


@case("redelivery_differs")
def headers_only_in_the_duplicate(story):
    relay_away(story)
    story.lines[33] = line_of(story.rows[23], headers={"retry": "yes"})


@case("phantom", "redelivery_differs")
def phantom_altered_in_the_duplicate(story):
    story.outcome(10, "info")
    story.not_stored(20, 21)
    relay_away(story)
    story.replace(30, b"caf\xc3\xa9", b"cafe")


@case("event_changed")
def crossed_to_another_tenant(story):
    story.replace(10, b'"tenant":"two"', b'"tenant":"one"')


@case("event_changed")
def delivered_under_an_aggregate(story):
    story.lines[10] = line_of(story.rows[10], aggregate_type="order", aggregate_id="7")


@case("stored_payload_differs")
def payload_altered_by_the_store(story):
    story.rows[10]["payload"] = story.rows[10]["payload"].replace(" ", "")
    story.lines[10] = line_of(story.rows[10])


@case("not_an_event")
def a_line_of_something_else(story):
    story.lines.insert(10, b"Segmentation fault\n")


@case("not_an_event")
def a_number_among_the_lines(story):
    story.lines.insert(10, b"42\n")


@case("too_many_cuts")
def cut_though_nobody_was_killed(story):
    story.tail = story.lines[-1][:40]


@case("too_many_cuts")
def cut_by_a_clean_stop(story):
    story.fault("term", 30)
    story.lines.insert(30, story.lines[33][:50] + story.lines[30])


@case("too_many_cuts", "lost")
def line_break_lost_in_the_middle(story):
    story.lines[30] = story.lines[30][:60] + b"\n"


# --- I6: what was delivered stays delivered; and what waits does not wait for ever ----------------------------------

each("dead_but_delivered", (0, 30, 59), ["dead_though_delivered"],
     lambda story, at: story.undelivered.append((story.event(at).id, "dead")))
each("waits_for_ever", ("retrying", "blocked", "scheduled", "held"), ["left_waiting"],
     lambda story, standing: (story.not_delivered(9), story.undelivered.append((story.event(9).id, standing))))


@case("left_waiting")
def delivered_and_still_waiting(story):
    story.undelivered.append((story.event(3).id, "retrying"))


@case("lost")
def lost_beside_one_that_died(story):
    story.dies(7)
    story.lines.pop(20)


@case("unknown_undelivered")
def undelivered_but_rolled_back(story):
    story.outcome(6, "rolled_back")
    story.not_stored(12, 13)
    story.not_delivered(12, 13)
    story.undelivered.append((story.event(12).id, "dead"))


@case("unknown_undelivered")
def tried_but_nobody_wrote_it(story):
    story.attempts.append((Event(9, "one", "a", 1).id, "retry", 100))


@case("tried_after_delivery")
def tried_again_without_a_fault(story):
    story.attempts += [(story.event(5).id, "delivered", 100), (story.event(5).id, "retry", 101)]


@case("tried_after_delivery")
def tried_again_before_the_fault(story):
    story.fault("kill", 30, began=300, at=301)
    story.attempts += [(story.event(5).id, "delivered", 100), (story.event(5).id, "retry", 101)]


@case("tried_after_delivery")
def tried_again_after_a_clean_stop(story):
    story.fault("term", 30, began=100, at=101)
    story.attempts += [(story.event(5).id, "delivered", 100), (story.event(5).id, "retry", 102)]


@case("tried_after_delivery", "dead_though_delivered")
def delivered_then_buried(story):
    story.attempts += [(story.event(5).id, "delivered", 100), (story.event(5).id, "rejected", 101)]
    story.undelivered.append((story.event(5).id, "dead"))
