"""A strict reader of Prometheus' text format 0.0.4, written from its description and knowing nothing of our code."""
import math
import re

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')
VALUE = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?|\.[0-9]+|Inf)|NaN")
TYPES = {"counter", "gauge", "histogram", "summary", "untyped"}
ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


class Wrong(Exception):
    pass


class Family:
    def __init__(self, name):
        self.name = name
        self.help = None
        self.type = None
        self.samples = {}  # (name, sorted labels) -> value

    def value(self, suffix="", **labels):
        return self.samples[(self.name + suffix, tuple(sorted(labels.items())))]


def _labels(text, line):
    labels = {}
    while text:
        match = LABEL.match(text)
        if not match:
            raise Wrong(f"label: {line}")
        name, value = match.groups()
        if name in labels or name.startswith("__"):
            raise Wrong(f"label {name}: {line}")
        labels[name] = re.sub(r"\\.", lambda escape: ESCAPES[escape.group()], value)
        text = text[match.end():]
        if text:
            if not text.startswith(",") or text == ",":
                raise Wrong(f"between labels: {line}")
            text = text[1:]
    return labels


def _sample(line):
    name = NAME.match(line)
    if not name:
        raise Wrong(f"name: {line}")
    rest = line[name.end():]
    labels = {}
    if rest.startswith("{"):
        # A closing brace inside a label's quotes is none.
        end = re.match(r'\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\}', rest)
        if not end:
            raise Wrong(f"braces: {line}")
        labels = _labels(rest[1:end.end() - 1], line)
        rest = rest[end.end():]
    if not rest.startswith(" ") or not VALUE.fullmatch(rest[1:]):
        raise Wrong(f"value: {line}")
    return name.group(), labels, float(rest[1:])


def _belongs(name, family):
    suffixes = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("", "_sum", "_count")}
    return name in {family.name + suffix for suffix in suffixes.get(family.type, ("",))}


def _check_histogram(family):
    series = {}
    for (name, labels), value in family.samples.items():
        rest = tuple(label for label in labels if label[0] != "le")
        one = series.setdefault(rest, {"buckets": [], "sum": None, "count": None})
        if name.endswith("_bucket"):
            one["buckets"].append((float(dict(labels)["le"]), value))
        else:
            one[name.rsplit("_", 1)[1]] = value
    for labels, one in series.items():
        bounds = [bound for bound, _ in one["buckets"]]
        counts = [count for _, count in one["buckets"]]
        if one["sum"] is None or one["count"] is None or not bounds or bounds[-1] != math.inf:
            raise Wrong(f"{family.name}{labels}: is incomplete")
        if bounds != sorted(set(bounds)) or counts != sorted(counts) or counts[-1] != one["count"]:
            raise Wrong(f"{family.name}{labels}: its buckets do not add up")


def parse(text):
    """The families by name. Raises Wrong for whatever a strict reader would not take."""
    if text and not text.endswith("\n"):
        raise Wrong("the last line has no end")
    families, current = {}, None
    for line in text.splitlines():
        if line.startswith("# HELP ") or line.startswith("# TYPE "):
            kind, name, rest = line[2:6], *line[7:].split(" ", 1)
            if not NAME.fullmatch(name):
                raise Wrong(f"name: {line}")
            if current is None or current.name != name:
                if name in families:
                    raise Wrong(f"{name}: comes twice")
                current = families[name] = Family(name)
            attribute = kind.lower()
            if getattr(current, attribute) is not None or current.samples:
                raise Wrong(f"{name}: {kind} comes twice, or late")
            if kind == "TYPE" and rest not in TYPES:
                raise Wrong(f"type: {line}")
            setattr(current, attribute, rest)
            continue
        name, labels, value = _sample(line)
        if current is None or not _belongs(name, current):
            raise Wrong(f"{name}: belongs to no family")
        key = (name, tuple(sorted(labels.items())))
        if key in current.samples:
            raise Wrong(f"{key}: comes twice")
        if current.type in ("counter", "histogram") and not value >= 0:
            raise Wrong(f"{key}: counts below nothing")
        current.samples[key] = value
    for family in families.values():
        if family.type is None or not family.help:
            raise Wrong(f"{family.name}: has no type or no help")
        if family.type == "counter" and not family.name.endswith("_total"):
            raise Wrong(f"{family.name}: a counter ends in _total")
        if family.type == "histogram":
            _check_histogram(family)
    return families
