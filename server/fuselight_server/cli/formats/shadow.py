"""`fuselight run --accuracy`: what processes compared of their compiled calls, as lines of a terminal.

Invariant: how many calls were compared, and how much of the time that took, is always said.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fuselight.shared.report import FirstNonFinite, Location, Shadow, ShadowedCall
from fuselight_server.base.formatting import format_count, format_target
from fuselight_server.base.result_verdicts import AS_EAGER, NOT_COMPARED
from fuselight_server.base.terminal import Terminal
from fuselight_server.commands.sources import shown_path

_MAX_STEPS = 8
"""Calls of a function whose errors are printed."""
_MAX_REASONS = 6


def print_shadows(shadows: Sequence[Shadow], share: float, terminal: Terminal) -> None:
    """The comparison of each process."""
    if not shadows:
        terminal.print("accuracy: no process called anything that torch.compile compiled.")
    for shadow in shadows:
        name = f"rank {shadow.rank}" if shadow.rank is not None else f"process {shadow.process}"
        of = f" of {name}" if len(shadows) > 1 or shadow.rank is not None else ""
        is_wrong = any(known.call.is_wrong for known in shadow.calls) or shadow.first_non_finite is not None
        terminal.print((f"accuracy{of}:", "bold red" if is_wrong else "bold"), f" {_summary(shadow, share)}")
        for line in _lines(shadow):
            terminal.print(f"  {line}")


def _summary(shadow: Shadow, share: float) -> str:
    wrong = sum(known.call.is_wrong for known in shadow.calls)
    compared = sum(known.call.is_wrong or known.call.is_as_eager for known in shadow.calls)
    verdict = f"{wrong} differ by more than rounding" if wrong else AS_EAGER if compared else NOT_COMPARED
    spent = shadow.seconds / shadow.all_seconds if shadow.all_seconds else 0.0
    calls = format_count(shadow.call_count, "call")
    return (
        f"{compared} of {calls} compared with eager mode: {verdict} (comparing took {spent:.0%} of the time since the "
        f"first call; --accuracy-budget {share:.0%})"
    )


def _lines(shadow: Shadow) -> Iterator[str]:
    functions: dict[str, list[ShadowedCall]] = {}
    for known in shadow.calls:
        functions.setdefault(known.call.name, []).append(known)
    for name, calls in functions.items():
        yield from _of_function(name, calls)
    if shadow.first_non_finite is not None:
        yield from _non_finite(shadow.first_non_finite)
    reasons = dict(shadow.not_compared)
    for known in shadow.calls:
        if not (known.call.is_wrong or known.call.is_as_eager):
            why = known.call.accuracy.why or "no reason is known"
            reasons[why] = reasons.get(why, 0) + 1
    for why, count in list(reasons.items())[:_MAX_REASONS]:
        yield f"not compared: {format_count(count, 'call')}: {why}"
    if shadow.without_cuda_graphs:
        yield "note: CUDA graphs were left out while calls were compared"
    if shadow.problem:
        yield f"problem: a comparison failed: {shadow.problem}"


def _of_function(name: str, calls: Sequence[ShadowedCall]) -> Iterator[str]:
    first = next((known for known in calls if known.call.is_wrong), None)
    if first is not None:
        call = first.call
        at = _at(call.caller)
        others = call.others[0].text if call.others else ""
        why = call.accuracy.why if call.accuracy.passed is False else others
        yield f"`{format_target(name)}` parts from eager mode at its call {first.step}{at}: {why}"
        if call.accuracy.first:
            operator = f" (`{call.accuracy.first_operator}`)" if call.accuracy.first_operator else ""
            yield f"  first line that differs:{_at(call.accuracy.first[-1], of='')}{operator}"
    errors = [known for known in calls if known.error is not None]
    if errors and first is not None:
        shown = ", ".join(f"{known.step}: {known.error:.2g}" for known in _spread(errors))
        yield f"  largest error by call, each from the state that the program had: {shown}"


def _spread(calls: Sequence[ShadowedCall]) -> list[ShadowedCall]:
    """The first and the last call, and others at equal distances."""
    if len(calls) <= _MAX_STEPS:
        return list(calls)
    indices = (round(index * (len(calls) - 1) / (_MAX_STEPS - 1)) for index in range(_MAX_STEPS))
    return [calls[index] for index in dict.fromkeys(indices)]


def _non_finite(first: FirstNonFinite) -> Iterator[str]:
    where = f"call {first.step} of `{format_target(first.name)}`{_at(first.caller)}"
    if first.inputs:
        yield (
            f"first NaN or infinity: {where} got it with {', '.join(first.inputs)}: it comes from before that call "
            "(a backward, the optimizer, the data)"
        )
    elif first.is_compiled_only:
        yield f"first NaN or infinity: {where}: compiled code alone, the same call in eager mode has none"
    elif first.eager:
        operator = f" (`{first.operator}`)" if first.operator else ""
        yield f"first NaN or infinity: {where}: in eager mode it begins{_at(first.eager[-1])}{operator}"
    else:
        yield f"first NaN or infinity: {where}"


def _at(place: Location | None, of: str = " at") -> str:
    return f"{of} {shown_path(place.path)}:{place.line}" if place is not None else ""
