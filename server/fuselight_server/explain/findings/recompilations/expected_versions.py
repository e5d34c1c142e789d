"""How many versions of a function there will be, where nothing is known to need fewer.

Invariant: `one compile for each value` is said of a value that torch keeps fixed, and of which each version of the run
has another one; `one extra compile` where nothing that differed compiles again. All else is what the run had.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from fuselight.shared.report import GuardCause, GuardFailure, Recompile
from fuselight_server.base.formatting import cut_list, format_list
from fuselight_server.explain.findings.advice.expectations import CARRIED, NOT_TRIED
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.resume_functions import nearest
from fuselight_server.explain.findings.common.text import quoted
from fuselight_server.explain.findings.recompilations.own_state import same_code
from fuselight_server.explain.findings.recompilations.recompile_limit import (
    growing_with,
    limit_of,
    stopped_at,
)
from fuselight_server.explain.findings.recompilations.specializations import made_dynamic, stays_fixed

_ONE_FOR_EACH = re.compile(r"Expect one compile for each (?:value of|string|length of|difference in) ?")
_RESULT = re.compile(r" was \S+, now ")
"""How a guard differs that is on the result of a calculation: each other result compiles."""
_CHOSEN = frozenset({GuardCause.NUMBER, GuardCause.VALUE})
_MAX_NAMED = 3
IN_THIS_RUN = "Expect what this run had: "
"""How the sentence begins that says only what was seen."""


def in_total(
    context: Context, recompilation: Recompile, failure: GuardFailure, texts: Iterable[str]
) -> Iterator[str]:
    """The texts, with what else decides the number of versions, or that no number of them is enough."""
    for text in texts:
        is_one_for_each = _ONE_FOR_EACH.match(text) is not None and failure.source
        yield (is_one_for_each and _in_total(context, recompilation, failure, text)) or text


def _in_total(context: Context, recompilation: Recompile, failure: GuardFailure, text: str) -> str:
    stopped = stopped_at(context, recompilation.location)
    growing = growing_with(context, stopped or recompilation, recompilation)
    is_growing = not {failure.source, f"len({failure.source})"}.isdisjoint(growing)
    if is_growing and stopped is None:
        return f"{text}, up to the recompile limit of {limit_of(context, recompilation).number} versions"
    if is_growing:
        listed, is_one = format_list(list(map(quoted, growing))), len(growing) == 1
        return (
            f"Keep what reads {listed} out of the compiled code{'' if is_one else ', all of them'}: "
            f"{'it is' if is_one else 'they are'} greater at each compile, and torch compiles no more than "
            f"{limit_of(context, recompilation).number} versions. {NOT_TRIED}"
        )
    names = _chosen(context, recompilation) if failure.cause in _CHOSEN else []
    if failure.source in names[:1] == names or failure.source not in names:
        return _unless_one_each(context, recompilation, failure)
    listed = format_list([*map(quoted, names[:_MAX_NAMED]), *(["others"] if names[_MAX_NAMED:] else [])])
    return f"Expect one compile for each combination of {listed} that occurs"


def _chosen(context: Context, recompilation: Recompile) -> list[str]:
    """The fixed values that told a version from the nearest one, in the function or its part."""
    same = (item for item in _same(context, recompilation) if not item.entries[0].other_object)
    return list(
        dict.fromkeys(
            failure.source
            for item in same
            for failure in nearest(item)
            if failure.cause in _CHOSEN
            and failure.source
            and CARRIED not in failure.code
            and stays_fixed(context, item, failure)
        )
    )


def _unless_one_each(context: Context, recompilation: Recompile, failure: GuardFailure) -> str:
    """What differed, if a value was compiled for more often than it had values, or not each time; else empty."""
    changes = [
        (again, item)
        for again in _same(context, recompilation)
        for item in nearest(again)
        if _name(item) == _name(failure)
    ]
    values = {value for _, item in changes for value in (item.was, item.now)}
    is_repeated = None not in values and len(values) <= len(changes)
    is_free = any(not stays_fixed(context, again, item) for again, item in changes)
    return differing(context, recompilation) if is_repeated or is_free else ""


def of_free_values(context: Context, recompilation: Recompile) -> str:
    """What to expect where torch has no guard any longer on the values that differed; what differed if it has one."""
    failures = nearest(recompilation)
    later = list(
        itertools.dropwhile(
            lambda item: item.compile_id != recompilation.compile_id, _same(context, recompilation)
        )
    )
    known, counts = (
        set(map(_name, failures)),
        Counter(_name(item) for again in later for item in nearest(again)),
    )
    is_fixed = any(stays_fixed(context, recompilation, failure) for failure in failures)
    if is_fixed or any(counts[name] > 1 for name in known):
        return differing(context, recompilation)
    relations = [item.difference for again in later for item in nearest(again)[:1] if not item.source]
    results = [text for text in relations if _RESULT.search(text)]
    dynamic = made_dynamic(context, recompilation, failures)
    names = [name for name in dynamic if not any(name in text for text in results)]
    if dynamic and not names:
        return differing(context, recompilation)
    if not names:
        unguarded = format_list([quoted(failure.source) for failure in failures])
        return f"Expect one extra compile: what torch compiled next does not check {unguarded}"
    values = "the second value" if len(names) == 1 else "their second values"
    shown = format_list(cut_list(map(quoted, names), _MAX_NAMED))
    is_compared = any(name in text for name in names for text in relations if text not in results)
    more = ", and compiles for another outcome of a comparison with it" if is_compared else ""
    return f"Expect one extra compile: torch keeps {shown} dynamic from {values} on{more}"


def differing(context: Context, recompilation: Recompile) -> str:
    """How often a function or its part was compiled, and in how many of these compiles which values differed."""
    same = list(_same(context, recompilation))
    counts = Counter(name for item in same for name in {_name(failure) for failure in nearest(item)} - {""})
    values = [f"{quoted(name)} differed in {times} of them" for name, times in counts.most_common(_MAX_NAMED)]
    return f"{IN_THIS_RUN}{', '.join([f'{len(same) + 1} compiles', *values])}"


def _name(failure: GuardFailure) -> str:
    size = failure.sizes[0] if failure.sizes else None
    return f"{size.name}.size({size.dimension})" if size is not None else failure.source


def _same(context: Context, recompilation: Recompile) -> Iterator[Recompile]:
    return (item for item in same_code(context, recompilation) if item.compile_id is not None)
