"""What torch.compile meets inside a call of Python's standard library that itself breaks the graph.

After `log.warning(...)` broke the graph, torch compiles the functions of `logging` that the call runs, one by one, with
breaks and recompilations of their own. Invariant: all of that goes with the break of the user's line, whose finding
counts the lines that break: nothing in the library can be changed, and moving the call out removes everything.
"""

from __future__ import annotations

import re

from fuselight.shared.report import Stack
from fuselight_server.explain.findings.common.context import Context

_STANDARD = re.compile(r"/lib(?:64)?/python3[^/]*/(?!(?:site|dist)-packages/)|/Lib/(?!site-packages/)")


def is_standard_library(path: str) -> bool:
    """Whether a file is one of Python's standard library, and no installed package."""
    return _STANDARD.search(path.replace("\\", "/")) is not None


def is_inside_broken_call(context: Context, stack: Stack, above: Stack) -> bool:
    """Whether frames are of the standard library alone, below a line of the user's that breaks the graph itself.

    `above` is the stack above the compiled frame.
    """
    home = context.innermost_user_frame(above)
    # Dynamo traces functions of its own in the place of some of Python's.
    paths = [frame.path for frame in stack if "/torch/_dynamo/" not in frame.path.replace("\\", "/")]
    if home is None or not paths or not all(map(is_standard_library, paths)):
        return False
    return any(
        item.stack
        and (item.stack[-1].path, item.stack[-1].line) == (home.path, home.line)
        and not item.frame_skipped
        for item in context.report.breaks
    )
