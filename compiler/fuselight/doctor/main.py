"""`launch.py doctor`: runs the checks and writes each result as one line of JSON when the check ends.

Invariant: stdout carries nothing else; what torch or a compiler prints goes to stderr.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Sequence

from fuselight.doctor import checks, compiling
from fuselight.doctor.check import Check, Status
from fuselight.shared.codec import encode


def main(arguments: Sequence[str]) -> int:
    """Run all checks, or compile on one device. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="launch.py doctor")
    parser.add_argument("--compile", metavar="DEVICE")
    parser.add_argument("--seconds", type=float, default=180.0, help="for the compile on one device")
    parser.add_argument("--no-compile", action="store_true")
    options = parser.parse_args(arguments)
    if options.compile:
        return compiling.main(options.compile)
    pipe = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def tell(some: Iterable[Check]) -> bool:
        usable = True
        for check in some:
            usable &= check.key not in {"python", "torch"} or check.status is not Status.FAILED
            pipe.write(json.dumps(encode(check)) + "\n")
            pipe.flush()
        return usable

    if tell(checks.quick()) and not options.no_compile:
        tell(checks.compiles(options.seconds))
    return 0
