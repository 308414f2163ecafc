"""run.py BUILD [flags of libFuzzer…]: runs each fuzz target of BUILD over its corpus, one after the other.

New inputs go to BUILD/corpus/NAME, findings to BUILD/findings; a finding that was fixed belongs into corpus/NAME, under a
name that says what it was. Ends with 1 if there was a finding."""
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).parent


def fuzz(binary, build, flags):
    name = binary.name.removeprefix("fuzz_")
    found = build / "corpus" / name
    found.mkdir(parents=True, exist_ok=True)
    run = subprocess.run(
        [binary, f"-artifact_prefix={build}/findings/{name}-", "-print_final_stats=1", *flags, found,
         HERE / "corpus" / name], stderr=subprocess.PIPE, text=True, check=False)
    runs = re.search(r"number_of_executed_units: (\d+)", run.stderr)
    print(f"{name}: {runs[1] if runs else '?'} executions, {'no finding' if run.returncode == 0 else 'FOUND SOMETHING'}",
          flush=True)
    if run.returncode != 0:
        print(run.stderr[-4000:], file=sys.stderr)
    return run.returncode == 0


def main(build, *flags):
    build = pathlib.Path(build).resolve()
    (build / "findings").mkdir(exist_ok=True)
    binaries = sorted(path for path in (build / "test" / "fuzz").glob("fuzz_*") if path.is_file())
    results = [fuzz(binary, build, flags or ["-max_total_time=60"]) for binary in binaries]
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
