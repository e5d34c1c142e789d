"""The process that compares the results of a test for another process: `python -m` this module, JSON on its pipes.

Invariant: it has no event loop and no state of the test's process, which waits for its answer.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from fuselight.shared.codec import encode
from fuselight.shared.foreign_data import parse_json
from fuselight.shared.protocol import Limits
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.command_error import CommandError
from fuselight_server.base.default_limits import COMPILE_LIMITS
from fuselight_server.commands.accuracy import compare
from fuselight_server.commands.accuracy_options import accuracy_plan
from fuselight_server.commands.options import CommandOptions


def main() -> int:
    """Compare the program on stdin, and write its report to stdout."""
    asked = parse_json(sys.stdin.read())
    path = str(asked["path"])
    options = CommandOptions(
        paths=(Path(path),),
        targets=("__main__",),
        python=sys.executable,
        limits=Limits(*COMPILE_LIMITS),
        texts={path: str(asked["text"])},
    )
    try:
        outcome = asyncio.run(compare(options, _ignore, CancelToken(), plan=accuracy_plan(asked["options"])))
    except CommandError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    answer: dict[str, Any] = {
        "reports": encode(tuple(outcome.check.reports)),
        "problems": [f"{problem.what}: {problem.why}" for problem in outcome.check.problems],
    }
    sys.stdout.write(json.dumps(answer))
    return 0


def _ignore(_text: str) -> None:
    """Show no progress: the test's own output is captured."""


if __name__ == "__main__":
    sys.exit(main())
