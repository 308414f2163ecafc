#!/usr/bin/env python3
"""install.py FOLDER: puts the consumers into FOLDER, and the libraries of package-lock.json beside them.

Node looks for libraries beside the script that wants them, and nothing is built in the source tree. Libraries that are
there already, for the same lock file, are left alone.
"""
import pathlib
import shutil
import subprocess
import sys


def main(folder):
    source = pathlib.Path(__file__).parent
    folder.mkdir(parents=True, exist_ok=True)
    for path in [*source.glob("*.mjs"), source / "package.json", source / ".npmrc"]:
        shutil.copy(path, folder)
    lock = (source / "package-lock.json").read_bytes()
    done = folder / "installed-lock.json"
    if done.exists() and done.read_bytes() == lock:
        return
    done.unlink(missing_ok=True)
    (folder / "package-lock.json").write_bytes(lock)
    subprocess.run(["npm", "ci"], cwd=folder, check=True)
    done.write_bytes(lock)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
