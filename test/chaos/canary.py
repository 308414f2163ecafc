"""One event damaged in a copy of what was delivered: if the checker does not see that, its verdict is worth nothing."""

import shutil

BUSY_KEY = b'"key":"key-0999"'  # One of the producer's hot accounts: much comes after any early event of it.
ID = slice(7, 43)  # A line begins with {"id":"…"
DAMAGES = {"one event left out": "lost", "one event moved to the end": "overtaken",
           "one payload printed anew": "payload_changed"}


def bury(deliveries, source, target, random):
    """The same with what is undelivered: one that was delivered is called dead."""
    with open(deliveries, "rb") as lines:
        ids = [line[ID] for line in lines if BUSY_KEY in line]
    shutil.copy(source, target)
    with open(target, "ab") as copy:
        copy.write(random.choice(ids) + b",dead\n")
    return "one event called dead", "dead_though_delivered"


def damage(source, target, random):
    """Writes the copy; returns what was done and the kind of violation that must be found."""
    with open(source, "rb") as lines:
        ids = [line[ID] for line in lines if BUSY_KEY in line]
    victim = random.choice(ids[:len(ids) // 2])
    how = random.choice(sorted(DAMAGES))
    held = b""
    with open(source, "rb") as lines, open(target, "wb") as copy:
        for line in lines:
            if line[ID] != victim:
                copy.write(line)
            elif how == "one payload printed anew":
                copy.write(line.replace(b'"amount":1.50', b'"amount":1.5'))
            else:
                held = line
        if how == "one event moved to the end":
            copy.write(held)
    return how, DAMAGES[how]
