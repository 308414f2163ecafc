#!/usr/bin/env python3
"""tidy.py SOURCE LAYERS: style as a test.

Reads the tree and build/layers.txt (written at configuration: name|rank|folder|dependencies|headers|sources) and says
what breaks the rules of CONTRIBUTING.md. Exits with 1 if anything does.
"""
import pathlib
import re
import sys

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 600
MARKERS = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b")
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
ANGLE_INCLUDE = re.compile(r"^#include <([^>]+)>", re.M)
SQL = re.compile(r'"\s*(SELECT|INSERT INTO|UPDATE|DELETE FROM|CREATE TABLE)\b')
# The demo's clinic is an application: its SQL is its own.
SQL_ALLOWED = ("src/store/", "src/enqueue/", "src/database/", "src/service/", "src/testing/", "src/app/clinic.cc")
STANDARD_HEADER = re.compile(r"^[a-z_]+$")
# For those who have the library that it adapts.
ADAPTERS = {"waybill/gmock.h": "gmock/gmock.h", "waybill/pqxx.h": "pqxx/pqxx"}
MACHINE_PATHS = re.compile(r"/(wo" + r"rk|ro" + r"ot|home)/[a-z]")


class Component:
    def __init__(self, line):
        self.name, rank, self.folder, deps, headers, sources = line.split("|")
        self.rank = int(rank)
        self.deps = [d for d in deps.split(",") if d]
        self.headers = [h for h in headers.split(",") if h]
        self.sources = [f"{self.folder}/{s}" for s in sources.split(",") if s]


def all_deps(component, by_name):
    seen, stack = set(), [component.name]
    while stack:
        name = stack.pop()
        if name not in seen:
            seen.add(name)
            stack.extend(by_name[name].deps)
    return seen


def owner_of(path, components):
    """The component that a file below src/ belongs to: the one with the longest folder that holds it, and of several there the
    one that has the source of that name."""
    source = re.sub(r"(_test)?\.\w+$", ".cc", path)
    holders = [c for c in components if path.startswith(c.folder + "/")]
    return max(holders, key=lambda c: (len(c.folder), source in c.sources), default=None)


def check_includes(root, components, problems):
    by_name = {c.name: c for c in components}
    public = {h: c for c in components for h in c.headers}
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in (".h", ".cc"):
            continue
        relative = str(path.relative_to(root))
        component = owner_of(relative, components)
        if component is None:
            if relative != "src/app/main.cc":
                problems.append(f"{relative}: belongs to no component")
            continue
        if path.name.endswith(("_test.cc", "_test.h")):
            continue  # A test links what it names; the linker holds it to that.
        allowed = all_deps(component, by_name)
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            name = match.group(1)
            if name.startswith(".."):
                problems.append(f'{relative}:{number}: include "{name}" from the root of src/ or include/')
                continue
            target = public.get(name) or owner_of("src/" + name, components)
            if target is None and not (root / "src" / name).exists() and not (root / "include" / name).exists():
                continue  # generated
            if target and target.name not in allowed:
                problems.append(f'{relative}:{number}: {component.name} may not include {target.name} ("{name}")')


def check_sources(root, components, problems):
    listed = {s for c in components for s in c.sources} | {"src/app/main.cc"}
    for path in sorted((root / "src").rglob("*.cc")):
        relative = str(path.relative_to(root))
        if relative not in listed:
            problems.append(f"{relative}: is in no target")
    cmake = "\n".join(p.read_text() for p in (root / "test").rglob("CMakeLists.txt"))
    for path in sorted((root / "test").rglob("*.cc")):
        if path.name not in cmake:
            problems.append(f"{path.relative_to(root)}: is in no target")


def check_public_headers(root, components, problems):
    listed = {h for c in components for h in c.headers}
    for path in sorted((root / "include").rglob("*.h")):
        name = str(path.relative_to(root / "include"))
        if name not in listed:
            problems.append(f"include/{name}: belongs to no component")
        if name != "waybill/api.h" and "\nnamespace WAYBILL_API waybill {\n" not in path.read_text():
            problems.append(f"include/{name}: its namespace is not WAYBILL_API: the shared library would hide it")
        for header in ANGLE_INCLUDE.findall(path.read_text()):
            if not STANDARD_HEADER.match(header) and ADAPTERS.get(name) != header:
                problems.append(f"include/{name}: names the third-party header <{header}>")


def check_text(root, files, problems):
    for path in files:
        relative = str(path.relative_to(root))
        text = path.read_text(errors="replace")
        lines = text.splitlines()
        if path.suffix in (".h", ".cc", ".py", ".sql") and len(lines) > FILE_LINES_MAX:
            problems.append(f"{relative}: has {len(lines)} lines; at most {FILE_LINES_MAX}")
        for number, line in enumerate(lines, 1):
            if MARKERS.search(line):
                problems.append(f"{relative}:{number}: leftover: {line.strip()[:60]}")
            if MACHINE_PATHS.search(line):
                problems.append(f"{relative}:{number}: a path of one machine: {line.strip()[:60]}")
        if path.suffix == ".cc" and relative.startswith("src/") and not relative.endswith("_test.cc"):
            if not relative.startswith(SQL_ALLOWED) and SQL.search(text):
                problems.append(f"{relative}: SQL belongs under src/store/, src/enqueue/, src/database/ and src/service/")
        if path.suffix == ".cc":
            check_functions(relative, lines, problems)


def check_functions(relative, lines, problems):
    """Functions begin at column 0 or 2 and end with a brace in the same column: what clang-format makes of them."""
    start = None
    for number, line in enumerate(lines, 1):
        if start is None and re.match(r"^( {0,2})[A-Za-z~:].*\) ?(const|override|noexcept|final| )*\{$", line):
            # A lambda that is an argument ends in "});".
            if "](" not in line and not re.match(
                r"^ *(class|struct|namespace|enum|if|for|while|switch|TEST|RC_GTEST)", line
            ):
                start = (number, len(line) - len(line.lstrip()))
        elif start and line == " " * start[1] + "}":
            if number - start[0] > FUNCTION_LINES_MAX:
                problems.append(f"{relative}:{start[0]}: a function of {number - start[0]} lines; "
                                f"at most {FUNCTION_LINES_MAX}")
            start = None


def check_readmes(root, problems):
    readme = root / "src" / "README.md"
    text = readme.read_text() if readme.exists() else ""
    for folder in sorted(p for p in (root / "src").iterdir() if p.is_dir()):
        if f"`{folder.name}/`" not in text:
            problems.append(f"src/README.md: does not name the folder {folder.name}/")
        if not (folder / "README.md").exists():
            problems.append(f"src/{folder.name}/README.md: is missing")
    for name in re.findall(r"`([a-z]+)/`", text):
        if not (root / "src" / name).is_dir():
            problems.append(f"src/README.md: names the folder {name}/, which is not there")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    root, layers = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    components = [Component(line) for line in layers.read_text().splitlines() if line]
    problems = []
    check_includes(root, components, problems)
    check_sources(root, components, problems)
    check_public_headers(root, components, problems)
    folders = ("src", "include", "test", "bench", "tools", "cmake", "docs", "examples", "web")
    suffixes = (".h", ".cc", ".py", ".sql", ".cmake", ".txt", ".md", ".js", ".css", ".html", ".pml")
    files = [p for f in folders if (root / f).exists() for p in sorted((root / f).rglob("*")) if p.suffix in suffixes]
    check_text(root, files, problems)
    check_readmes(root, problems)
    for problem in problems:
        print(problem)
    print(f"tidy: {len(files)} files, {len(problems)} problems")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
