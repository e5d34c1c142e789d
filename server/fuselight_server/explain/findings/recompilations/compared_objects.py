"""What to do where a line compares two objects by `is` or looks one up in a dict, and they were one at the compile."""

from __future__ import annotations

import re

from fuselight.shared.report import GuardCause, GuardFailure, Recompile
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


def of_objects(context: Context, recompilation: Recompile, failure: GuardFailure) -> tuple[str, ...]:
    """The advice for a guard that two objects are one, of a comparison by `is` or a key of a dict; else nothing."""
    if _is_key(failure):
        number = _keys(context, recompilation)
        return (f"Expect one compile for each object that is looked up: {number} in this run",)
    home = context.reading_frame(failure.born) if failure.cause is GuardCause.ALIASING else None
    text = context.read_line(home.path, home.line) if home is not None else None
    return _ADVICE if _IS.search(text or "") else ()


def _is_key(failure: GuardFailure) -> bool:
    return failure.cause is GuardCause.ALIASING and failure.difference.startswith("list(")


def _keys(context: Context, recompilation: Recompile) -> int:
    """How many objects a function looked up: that of a call, and those of all versions that do not fit for it."""
    same = (item for item in context.report.recompiles if item.location == recompilation.location)
    versions = ([filter(_is_key, entry.failures) for entry in item.entries] for item in same)
    keys = ({frozenset(failure.difference for failure in entry) for entry in item} for item in versions)
    return 1 + max(len(item - {frozenset()}) for item in keys)
