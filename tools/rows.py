#!/usr/bin/env python3
"""rows.py SOURCE [--write]: every row of docs/failures.md has tests that carry its number, and names them.

A test carries a row's number at the beginning of its name: `Row39_…` in C++, `test_row39_…` in Python, `row39_…` as a
test of ctest's own; of several rows, `Row73_78_…`. The last column of the table is written by --write, and checked
without. Exits with 1 if a row has no test, a test names a row that is not there, or the table is not up to date.
"""
import collections
import pathlib
import re
import sys

NAMES = {  # files -> what names a test there; the groups are: whose it is, its name, the rows' numbers
    "*_test.cc": re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(Row((?:\d+_)+)\w+)\)", re.M),
    "*_suite.cc": re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(Row((?:\d+_)+)\w+)\)", re.M),
    "*_test.py": re.compile(r"^    def ()(test_row((?:\d+_)+)\w+)\(", re.M),
    "CMakeLists.txt": re.compile(r"^ *add_test\(NAME ()(row((?:\d+_)+)\w+)", re.M),
}
ROW = re.compile(r"^\| (\d+) \|(.*)\|([^|]*)\|$", re.M)
EXPECTED = [*range(39, 61), *range(73, 85)]


def find_tests(root):
    """Row -> the names of its tests."""
    found = collections.defaultdict(set)
    for folder in ("src", "test"):
        for pattern, name in NAMES.items():
            for path in sorted((root / folder).rglob(pattern)):
                for match in name.finditer(path.read_text()):
                    whose = match.group(1) or (path.stem if path.suffix == ".py" else "")
                    for row in match.group(3).strip("_").split("_"):
                        found[int(row)].add(f"{whose}.{match.group(2)}" if whose else match.group(2))
    return found


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--write"]):
        sys.exit(__doc__)
    table = pathlib.Path(sys.argv[1]) / "docs" / "failures.md"
    tests = find_tests(pathlib.Path(sys.argv[1]))
    text = table.read_text()
    rows = [int(match.group(1)) for match in ROW.finditer(text)]
    problems = [f"row {row} is not in docs/failures.md" for row in EXPECTED if row not in rows]
    problems += [f"row {row} has no test" for row in rows if not tests[row]]
    problems += [f"{' '.join(tests[row])}: row {row} is not in docs/failures.md" for row in sorted(set(tests) - set(rows))]
    written = ROW.sub(lambda match: "| {} |{}| {} |".format(
        match.group(1), match.group(2), " ".join(f"`{name}`" for name in sorted(tests[int(match.group(1))]))), text)
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
