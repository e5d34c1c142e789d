"""FL803: NaN and infinities that a call has in eager mode as well, with the line where the first appears.

Invariant: it accuses nothing. What compiling adds or removes is said by FL801.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fuselight.shared.report import ComparedCall, NonFinite, NonFiniteKind
from fuselight_server.base.finding import Finding, Related
from fuselight_server.base.formatting import format_target
from fuselight_server.base.remedies import FindingRemedy
from fuselight_server.explain.findings.common.context import Context, span_of
from fuselight_server.explain.findings.common.result_words import (
    change_of_non_finite,
    non_finite_words,
    origin_words,
)

_REMEDIES = {
    NonFiniteKind.NAN: "Keep the arguments of this operator in its domain: a small constant in a divisor or below a "
    "root, a bound below a logarithm, a row of a mask that is not empty",
    NonFiniteKind.INFINITY: "Bound the arguments of this operator, or compute it in a wider dtype",
}


def non_finite_findings(context: Context) -> Iterator[Finding]:
    """One finding for each kind and line."""
    results = context.report.results
    groups: dict[tuple[NonFiniteKind, object], list[tuple[ComparedCall, NonFinite]]] = {}
    for call in results.calls if results is not None else ():
        for value in call.non_finite:
            if value.origin is not None and not _is_of_float64_too(value):
                groups.setdefault((value.kind, value.origin.stack[-1:] or call.location), []).append(
                    (call, value)
                )
    for pairs in groups.values():
        yield _finding(context, pairs)


def _is_of_float64_too(value: NonFinite) -> bool:
    """Whether it is an infinity by its value, and not one of a narrow dtype."""
    return value.kind is NonFiniteKind.INFINITY and value.float64 == value.eager == value.compiled


def _finding(context: Context, pairs: list[tuple[ComparedCall, NonFinite]]) -> Finding:
    call, value = pairs[0]
    origin = value.origin
    if origin is None:
        raise ValueError("a value without an origin has no line")
    place = context.innermost_user_frame(origin.stack)
    verb = (
        "removes it"
        if value.compiled < value.eager
        else "adds more"
        if change_of_non_finite(value)
        else "keeps it"
    )
    float64 = {None: "", True: " Float64 has it, too.", False: " Float64 has none: the dtype is too narrow."}
    in_float64 = None if value.float64 is None else value.float64 > 0
    related: tuple[Related, ...] = ()
    if origin.source is not None and context.is_user_file(origin.source.path):
        related = (Related(span_of(origin.source), "computes the argument"),)
    finding = context.finding(
        "FL803",
        f"{value.kind.value} in eager mode: {origin_words(origin)}",
        f"Call {call.index + 1} of the run, of `{format_target(call.name)}`: {non_finite_words(value)}.",
        f"The first one appears here in eager mode, and compiling {verb}.{float64[in_float64]}",
        at=place or context.first_of_user(call.location, call.caller),
        stack=origin.stack,
        hints=[FindingRemedy(_REMEDIES[value.kind])] if origin.stack else [],
        count=len(pairs),
    )
    return replace(finding, related=(*finding.related, *related))
