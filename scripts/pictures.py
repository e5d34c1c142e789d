"""`make pictures`: takes the pictures of the README and of the docs again, each from the present product.

`python scripts/pictures.py [NAME ...]` takes all of them, or those of these names (`tuning`, `hover`). Take that of a
search, and of a benchmark, on an idle machine. Look at each picture before you commit it.

Invariant: each picture that a page shows is taken by one visual test, by its name; no other file changes.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from typing import TYPE_CHECKING

from bootstrap import environment_with_torch
from node_tools import ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

TESTS = ROOT / "tests" / "editor" / "visual"
RUN = ROOT / "tests" / "editor" / "run.py"


def pages() -> list[Path]:
    """The pages that may show pictures."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def shown_pictures() -> set[str]:
    """The names of the pictures that the pages show."""
    return {
        name
        for page in pages()
        for name in re.findall(r"\]\((?:docs/)?images/([\w-]+)\.png\)", page.read_text(encoding="utf-8"))
    }


def tests_of_pictures() -> dict[str, str]:
    """The file of the visual test that takes each screenshot, by its name."""
    return {
        name: path.name
        for path in sorted(TESTS.glob("*.spec.mjs"))
        for name in re.findall(r"view\.screenshot\(\"([\w-]+)\"\)", path.read_text(encoding="utf-8"))
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Take the pictures; returns the exit code of the tests that take them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="a picture of docs/images (default: all)")
    names = parser.parse_args(arguments).names or sorted(shown_pictures())
    unknown = [name for name in names if name not in shown_pictures()]
    if unknown:
        parser.error(f"no page shows `{unknown[0]}`; pages show {', '.join(sorted(shown_pictures()))}")
    environment = environment_with_torch("pictures show what torch does, and there is no torch")
    if environment is None:
        return 1
    files = sorted({tests_of_pictures()[name] for name in names})
    options = [word for file in files for word in ("--only", f"visual:{file}")]
    options += [word for name in names for word in ("--picture", name)]
    python = str(environment.python)
    command = [python, str(RUN), python, *options]
    return subprocess.run(command, cwd=ROOT, env=environment.variables(), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
