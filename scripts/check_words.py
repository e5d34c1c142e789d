"""Nothing unfinished and no developer's own folder is committed. Prints each line that breaks the rule."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from node_tools import ROOT

UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b")
PRIVATE = re.compile(r"(?<![\w.$])/(?:home|root|Users|work)/\w")
LOCKS = (".lock", "package-lock.json")


def wrong_lines() -> list[str]:
    """`path:line: text` of every committed line with an unfinished mark or a private path."""
    # This file has to name what it looks for.
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    found = []
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        if name.endswith(LOCKS) or path == Path(__file__) or not path.is_file():
            continue
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue  # pictures, and sources in other encodings that tests are about
        found += [
            f"{name}:{number}: {line.strip()[:120]}"
            for number, line in enumerate(lines, 1)
            if UNFINISHED.search(line) or PRIVATE.search(line)
        ]
    return found


if __name__ == "__main__":
    wrong = wrong_lines()
    print("\n".join(wrong) or "no unfinished marks, no private paths")
    sys.exit(1 if wrong else 0)
