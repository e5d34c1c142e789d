"""What to do where a line compares two objects by `is`, and they were one at the compile."""

from __future__ import annotations

import re

from fuselight.shared.report import GuardCause, GuardFailure
from fuselight_server.explain.findings.advice.expectations import SAME_OBJECT
from fuselight_server.explain.findings.common.context import Context

_IS = re.compile(r"(?<![\w.])is(?: not)? (?!None\b|True\b|False\b)")
_ADVICE = (
    (
        "Compare what torch has guards on, as a number, a string or a flag of the objects: the code for two objects "
        "has no guard that they are two. It can answer calls in which they are one, with wrong results"
    ),
    f"Otherwise {SAME_OBJECT[0].lower()}{SAME_OBJECT[1:]}",
)


def of_comparison(context: Context, failure: GuardFailure) -> tuple[str, ...]:
    """The advice for a guard that two objects are one, if its line compares by `is`; else nothing."""
    home = context.reading_frame(failure.born) if failure.cause is GuardCause.ALIASING else None
    text = context.read_line(home.path, home.line) if home is not None else None
    return _ADVICE if _IS.search(text or "") else ()
