"""What torch made symbolic in the compile that followed a recompilation, and for which values that version is valid.

Invariant: what is said are the symbols of the last version and its guards. That other values need no compile is not
said: Inductor may add guards of its own, and no call of the run has shown it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from fuselight.shared.report import Recompile
from fuselight.shared.torch_texts import in_user_words
from fuselight_server.base.formatting import cut_list, format_list
from fuselight_server.explain.findings.advice.expectations import is_calculated
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.resume_functions import nearest
from fuselight_server.explain.findings.common.text import plain, quoted
from fuselight_server.explain.findings.recompilations.specializations import made_dynamic

_MAX_NAMED = 3
_RANGE = re.compile(r"(?P<low>-?\d+) <= (?P<value>.+) and (?P=value) <= (?P<high>-?\d+)$")
_ANY_SIZE = re.compile(r"2 <= [^=<>]+$")
"""What holds for each size that torch keeps symbolic."""
_OF_NOTHING = re.compile(r"isnan|\.stride\(|//|\bmath\.|\bfloat\(|\bmin\(|\bmax\(|\(-1\)|___stack")
"""In guards that a contiguous tensor and a number pass, and in those with torch's own arithmetic."""


def about_dynamic(context: Context, again: Sequence[Recompile]) -> str:
    """Say what the last recompilation of a finding made symbolic, with the guards on it; empty if it made nothing."""
    last = again[-1]
    changed = [failure for item in again for failure in nearest(item) if failure.was is not None]
    if not made_dynamic(context, last, [failure for failure in nearest(last) if failure.was is not None]):
        return ""
    names = made_dynamic(context, last, changed)
    shown = format_list(cut_list(map(quoted, names), _MAX_NAMED))
    relations = list(dict.fromkeys(_relations(context, last, names)))
    if not relations:
        return f"torch then made {shown} dynamic."
    listed = format_list(cut_list((f"`{words}`" for words in relations), _MAX_NAMED))
    return f"torch then made {shown} dynamic, in a version for calls with {listed}."


def about_calculated(again: Iterable[Recompile]) -> str:
    """What torch's caches change where compiled code is for one result of a calculation; empty for any other."""
    if not any(is_calculated(failure) for item in again for failure in nearest(item)):
        return ""
    return (
        "torch adds this guard on a calculated number after it has traced the code, and code that it takes from its "
        "caches, which are on by default, comes without it: the program may then compile less often, and get the "
        "results of another value. `fuselight accuracy` compares the results."
    )


def _relations(context: Context, recompilation: Recompile, names: Sequence[str]) -> Iterator[str]:
    """The guards of the version on symbolic values, as `x.size(0) <= 64`, without what holds for each size."""
    compiled = context.compile_of(recompilation.compile_id)
    guards = compiled.guards if compiled is not None else ()
    for part in (part for guard in guards if guard.kind == "SHAPE_ENV" for part in guard.code):
        words = plain(in_user_words(part))
        words = _RANGE.sub(r"\g<low> <= \g<value> <= \g<high>", words)
        is_named = any(re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.\[])", words) for name in names)
        if is_named and not _OF_NOTHING.search(words) and not _ANY_SIZE.match(words):
            yield words
