"""How many versions of a function there will be, where nothing is known to need fewer.

Invariant: `one compile for each value` is said of a value whose values may end, and that alone decides the versions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from fuselight.shared.report import GuardCause, GuardFailure, Recompile
from fuselight_server.base.formatting import format_list
from fuselight_server.explain.findings.advice.expectations import CARRIED, NOT_TRIED
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.resume_functions import nearest, resumed_at
from fuselight_server.explain.findings.common.text import quoted
from fuselight_server.explain.findings.recompilations.recompile_limit import (
    growing_with,
    limit_of,
    stopped_at,
)

_ONE_FOR_EACH = re.compile(r"Expect one compile for each (?:value of|string|length of|difference in) ?")
_CHOSEN = frozenset({GuardCause.NUMBER, GuardCause.VALUE})
_MAX_NAMED = 3


def in_total(
    context: Context, recompilation: Recompile, failure: GuardFailure, texts: Iterable[str]
) -> Iterator[str]:
    """The texts, with what else decides the number of versions, or that no number of them is enough."""
    for text in texts:
        is_one_for_each = _ONE_FOR_EACH.match(text) is not None and failure.source
        yield (is_one_for_each and _in_total(context, recompilation, failure)) or text


def _in_total(context: Context, recompilation: Recompile, failure: GuardFailure) -> str:
    stopped = stopped_at(context, recompilation.location)
    growing = growing_with(context, stopped, recompilation)
    if {failure.source, f"len({failure.source})"} & {*growing}:
        listed, is_one = format_list(list(map(quoted, growing))), len(growing) == 1
        return (
            f"Keep what reads {listed} out of the compiled code{'' if is_one else ', all of them'}: "
            f"{'it is' if is_one else 'they are'} greater at each compile, and torch compiles no more than "
            f"{limit_of(context, recompilation).number} versions. {NOT_TRIED}"
        )
    names = _chosen(context, recompilation) if failure.cause in _CHOSEN else []
    if len(names) < 2 or failure.source not in names:  # noqa: PLR2004
        return ""
    listed = format_list([*map(quoted, names[:_MAX_NAMED]), *(["others"] if names[_MAX_NAMED:] else [])])
    return f"Expect one compile for each combination of {listed} that occurs"


def _chosen(context: Context, recompilation: Recompile) -> list[str]:
    """The values of which one alone told a version from the nearest one, in the function or its part."""
    part = (recompilation.location, resumed_at(context, recompilation))
    failures = (
        nearest(item)
        for item in context.report.recompiles
        if (item.location, resumed_at(context, item)) == part and not item.entries[0].other_object
    )
    alone = (each[0] for each in failures if len(each) == 1)
    return list(
        dict.fromkeys(
            failure.source
            for failure in alone
            if failure.cause in _CHOSEN and failure.source and CARRIED not in failure.code
        )
    )
