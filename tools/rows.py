#!/usr/bin/env python3
"""rows.py SOURCE [--write]: every row of docs/failures.md has tests that carry its number, and names them.

The page has two tables: failures (rows `| 39 |`) and security checks (rows `| S39 |`). A test carries a number in its name:
`Row39_…` in C++, `test_row39_…` in Python, `row39_…` as a test of ctest's own, `Security39_…` and so on for the second
table; of several rows, `Row73_78_…`; of both tables, `Row47_Security21_…`. The last column of the tables is written by
--write, and checked without. A row that no test can prove says why there: "none: …". Exits with 1 if a row has neither, if
a test names a row that is not there, or if the tables are not up to date.
"""
import collections
import pathlib
import re
import sys

NAMES = {  # files -> what names a test there; the groups are: whose it is, its name
    "*_test.cc": re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*((?:Row|Security)\d+_\w+)\)", re.M),
    "*_suite.cc": re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*((?:Row|Security)\d+_\w+)\)", re.M),
    "*_test.py": re.compile(r"^    def ()(test_(?:row|security)\d+_\w+)\(", re.M),
    "CMakeLists.txt": re.compile(r"^ *add_test\(NAME ()((?:row|security)\d+_\w+)", re.M),
}
NUMBERS = re.compile(r"(row|security)((?:\d+_)+)", re.I)
ROW = re.compile(r"^\| (S?\d+) \|(.*)\|([^|]*)\|$", re.M)
# Rows 61 to 72 are about destinations that there are not: Kafka, AMQP 1.0, mail, webhooks.
EXPECTED = [str(row) for row in range(1, 87) if row not in range(61, 73)] + [f"S{row}" for row in range(1, 49)]


def rows_of(name):
    for kind, numbers in NUMBERS.findall(name):
        for number in numbers.strip("_").split("_"):
            yield ("S" if kind.lower() == "security" else "") + number


def find_tests(root):
    """Row -> the names of its tests."""
    found = collections.defaultdict(set)
    for folder in ("src", "test"):
        for pattern, name in NAMES.items():
            for path in sorted((root / folder).rglob(pattern)):
                for match in name.finditer(path.read_text()):
                    whose = match.group(1) or (path.stem if path.suffix == ".py" else "")
                    for row in rows_of(match.group(2)):
                        found[row].add(f"{whose}.{match.group(2)}" if whose else match.group(2))
    return found


def proof(tests, written):
    """The last column: the tests, or what is written there of why there are none."""
    if tests:
        return " ".join(f"`{name}`" for name in sorted(tests))
    return written.strip() if written.strip().startswith("none: ") else ""


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--write"]):
        sys.exit(__doc__)
    table = pathlib.Path(sys.argv[1]) / "docs" / "failures.md"
    tests = find_tests(pathlib.Path(sys.argv[1]))
    text = table.read_text()
    rows = {match.group(1): match.group(3) for match in ROW.finditer(text)}
    problems = [f"row {row} is not in docs/failures.md" for row in EXPECTED if row not in rows]
    problems += [f"row {row} has no test" for row in rows if not proof(tests[row], rows[row])]
    problems += [f"{' '.join(tests[row])}: row {row} is not in docs/failures.md" for row in sorted(set(tests) - set(rows))]
    written = ROW.sub(lambda match: f"| {match[1]} |{match[2]}| {proof(tests[match[1]], match[3])} |", text)
    if sys.argv[2:]:
        table.write_text(written)
    elif written != text:
        problems.append("docs/failures.md does not name the tests as they are; run tools/rows.py . --write")
    for problem in problems:
        print(problem)
    print(f"rows: {len(rows)} rows, {len(set().union(*tests.values()))} tests, {len(problems)} problems")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
