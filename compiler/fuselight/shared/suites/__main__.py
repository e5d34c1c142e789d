"""`python -m fuselight.shared.suites NAME --out DIR`: write a built-in suite as files, for any command of Fuselight."""

from __future__ import annotations

import argparse
import sys

from fuselight.shared.suites.rows import SIZES, SUITES, UnknownSuiteError, suite_rows, write_rows


def main() -> int:
    """Write the files and list the models that have none; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m fuselight.shared.suites", description="Write a suite's files."
    )
    parser.add_argument("name", metavar="NAME", help=", ".join(SUITES))
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--train", action="store_true", help="forward and backward instead of inference")
    parser.add_argument("--out", metavar="DIR", required=True)
    options = parser.parse_args()
    try:
        rows = suite_rows(options.name, size=options.size, training=options.train)
        paths = write_rows(rows, options.out)
    except (UnknownSuiteError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    for row in rows:
        if row.absent:
            sys.stderr.write(f"{row.name}: {row.absent}\n")
    sys.stdout.write(f"{len(paths)} files in {options.out}, {len(rows) - len(paths)} models absent\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
