#!/usr/bin/env python3
"""doc_code.py DOCUMENT [NUMBER]: the C++ of a document, to be compiled: all its blocks, or one of them (from 1)."""
import pathlib
import re
import sys

BLOCK = re.compile(r"^```cpp\n(.*?)^```$", re.M | re.S)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    path = pathlib.Path(sys.argv[1])
    text = path.read_text()
    blocks = list(BLOCK.finditer(text))
    if len(sys.argv) == 3:
        blocks = [blocks[int(sys.argv[2]) - 1]]
    for block in blocks:
        line = text.count("\n", 0, block.start(1)) + 1
        print(f'#line {line} "{path.name}"')
        print(block.group(1), end="")


if __name__ == "__main__":
    main()
