"""The words in the boxes of a picture. An estimate carries its `~`; what is not known is left out."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from fuselight.report import Outcome
from fuselight_server.findings.text import plain
from fuselight_server.formatting import format_count, format_estimate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuselight.report import Compile, GeneratedGraph, NotCompiled, Report

_NAMED = 3
"""Operators that are named in a box, those that are called most."""
_CALLS = 4
_LONGEST = 120


def target_facts(report: Report) -> tuple[str, ...]:
    """Say how the target was called, and how that failed if it did."""
    calls = report.inputs.calls if report.inputs is not None else ()
    facts = [_short(call.text) for call in calls[:_CALLS]]
    if len(calls) > _CALLS:
        facts.append(f"and {format_count(len(calls) - _CALLS, 'call')} more")
    facts += [f"failed: {_short(failure.message)}" for failure in report.failures[:1]]
    return tuple(facts)


def compile_facts(one: Compile, generated: Sequence[GeneratedGraph], suffix: str) -> list[str]:
    """Say what is in a compile: operators, guards, kernels."""
    facts = []
    if one.outcome is Outcome.FAILED:
        facts.append("the compiler failed")
    elif one.outcome is Outcome.EMPTY or (one.graph is None and one.outcome is Outcome.COMPILED):
        facts.append("no operators to compile")
    if one.graph is not None:
        facts.append(_operators(one.graph.operators, one.graph.targets))
    count = one.guard_count if one.guard_count is not None else len(one.guards)
    if count:
        checked = "" if one.guard_us is None else f", checked in {one.guard_us:.1f} µs"
        facts.append(format_count(count, "guard") + checked)
    return facts + [_kernels(graph) + suffix for graph in generated]


def _operators(count: int, targets: Sequence[str]) -> str:
    most = Counter(name.rpartition(".")[2] for name in targets).most_common(_NAMED + 1)
    if not most:
        return format_count(count, "operator")
    names = [f"{name} x {times}" if times > 1 else name for name, times in most[:_NAMED]]
    return f"{format_count(count, 'operator')}: {', '.join(names)}{', ...' if len(most) > _NAMED else ''}"


def _kernels(graph: GeneratedGraph) -> str:
    if graph.failure is not None:
        return f"{graph.phase.value}: no kernels: {_short(graph.failure)}"
    us = sum(kernel.estimate_us or 0.0 for kernel in graph.kernels)
    return f"{graph.phase.value}: {format_count(len(graph.kernels), 'kernel')}" + (
        f", {format_estimate(us)}" if us else ""
    )


def eager_words(left: NotCompiled) -> str:
    """Return the reason why a frame runs in eager mode."""
    kind = left.kind.value.replace("_", " ")
    return f"{kind}: {_short(left.reason)}" if left.reason else kind


def kernels_by_compile(report: Report, kernels: Report | None) -> dict[str, list[GeneratedGraph]]:
    """Return what was generated, by compile id of `report`, where both runs captured the same graph under that id."""
    found: dict[str, list[GeneratedGraph]] = defaultdict(list)
    if kernels is None:
        return found
    ours, theirs = _captured(report), _captured(kernels)
    for graph in kernels.generated:
        if graph.compile_id in ours and ours[graph.compile_id] == theirs.get(graph.compile_id):
            found[graph.compile_id].append(graph)
    return found


def _captured(report: Report) -> dict[str, object]:
    """Return of each compile what tells one graph from another: function, part of it, operators."""
    found: dict[str, object] = {}
    for one in report.compiles:
        if one.graph is not None and one.frame < len(report.frames):
            frame = report.frames[one.frame]
            found[one.id] = (frame.function, frame.resumes_at, one.graph.operators, one.graph.targets)
    return found


def _short(text: str) -> str:
    line = plain(text)
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."
