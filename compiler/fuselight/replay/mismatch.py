"""Why no tuned result holds for a graph, in one sentence with the next step.

Invariant: nothing is named as a cause that the graph itself shows to be in place, and what is only likely is called so.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fuselight.replay.machine_key import MachineKey
from fuselight.shared.report import Numerics
from fuselight.shared.report.measured import Work
from fuselight.shared.report.tuned import TunedGraph, TunedResult

_SYMBOL = re.compile(r"[A-Za-z_]\w*")
_SHOWN = 3
"""Shapes, blocks and results that a message names."""


@dataclass(frozen=True)
class ReplayMismatch:
    """Why no result holds."""

    text: str
    """A sentence with the next step."""
    reason: str = ""
    """What of the text is said once for all graphs of a program; empty: all of it."""


def command(name: str, result: TunedResult) -> str:
    """A command of ours for the target of a result: `fuselight tune model.py --target Net`."""
    target = f" --target {shlex.quote(result.target)}" if result.target else ""
    return f"fuselight {name} {shlex.quote(result.file) if result.file else 'PATH'}{target}"


def tune_command(result: TunedResult) -> str:
    """The command that tunes a target again as it was tuned."""
    train = {Work.FORWARD_BACKWARD: " --train", Work.TRAINING_STEP: " --step"}.get(result.work, "")
    numerics = "" if result.numerics is Numerics.EXACT else f" --numerics {result.numerics.value}"
    return f"{command('tune', result)}{train}{numerics}"


def tune_again(result: TunedResult) -> str:
    """How to tune a target again."""
    return f"Tune again: `{tune_command(result)}`"


def name_of(result: TunedResult) -> str:
    """The file and the target of a result."""
    return f"{result.file} {result.target}".strip()


def reasons(result: TunedResult, machines: Sequence[MachineKey], *, training: bool) -> Iterator[str]:
    """Why a result for this graph does not hold."""
    if training != (result.work is not Work.INFERENCE):
        here = "records gradients" if training else "records no gradients"
        hint = " (torch.no_grad() around the call would not)" if training else ""
        yield f"tuned for {result.work.value.replace('_', ' ')}, this call {here}{hint}"
    for machine in machines:
        yield from machine.differences(result)


def no_graph(
    graph: TunedGraph,
    results: Sequence[TunedResult],
    path: str,
    *,
    by_gradients: Mapping[str, bool],
    files: Sequence[str] = (),
) -> ReplayMismatch:
    """Why none of the results in a tuned file is for a graph.

    `by_gradients` has the keys that the graph would have if its parameters had another `requires_grad`, and `files`
    are those of its code.
    """
    shapes = ", ".join(graph.inputs[:_SHOWN]) or "no inputs"
    text = f"no result of `{path}` is for this graph ({graph.operators} operators; {shapes})"
    for result in results:
        for tuned_graph in result.graphs:
            if tuned_graph.key in by_gradients:
                why = f"{_gradients(result, gradients=by_gradients[tuned_graph.key])}. {tune_again(result)}"
                return ReplayMismatch(f"{text}: {why}", why)
    result = _nearest(graph, results, files)
    tuned = "; ".join(", ".join(graph.inputs[:_SHOWN]) for graph in result.graphs[:_SHOWN] if graph.inputs)
    known = f"{name_of(result)} was tuned for {tuned}" if tuned else name_of(result)
    causes = list(_causes(graph, result))
    why = (
        causes[0]
        if len(causes) == 1
        else "likely causes, in this order: "
        + "; ".join(f"({number}) {cause}" for number, cause in enumerate(causes, 1))
    )
    why = f"{known}: {why}. {tune_again(result)}"
    return ReplayMismatch(f"{text}; {why}", why)


def _gradients(result: TunedResult, *, gradients: bool) -> str:
    with_or_without = (
        "with requires_grad=True, here it is False"
        if gradients
        else "with requires_grad=False, here it is True"
    )
    return (
        f"{name_of(result)} was tuned for parameters {with_or_without} "
        f"(model.requires_grad_({gradients}) before the first call)"
    )


def _nearest(graph: TunedGraph, results: Sequence[TunedResult], files: Sequence[str]) -> TunedResult:
    """The result that the program most likely expects: of the file, then of the same shapes, then the last."""

    def likeness(result: TunedResult) -> tuple[bool, bool]:
        is_of_file = any(file.replace("\\", "/").endswith(f"/{result.file}") for file in files)
        return is_of_file, _has_shapes(graph, result)

    return max(reversed(results), key=likeness)


def _has_shapes(graph: TunedGraph, result: TunedResult) -> bool:
    """Whether a graph of the result has the same inputs, with whatever names of symbolic sizes."""
    mine = _unnamed(graph)
    return any(_unnamed(tuned_graph) == mine for tuned_graph in result.graphs)


def _unnamed(graph: TunedGraph) -> list[tuple[str, str]]:
    parts = [argument.partition("[") for argument in graph.inputs]
    return [(dtype, _SYMBOL.sub("s", sizes)) for dtype, _, sizes in parts]


def _causes(graph: TunedGraph, result: TunedResult) -> Iterator[str]:
    """Why a graph may be another than the tuned one, most likely first."""
    if result.fixes:
        fix = command("fix", result)
        yield f"the source lacks the fixes that it was tuned with ({'; '.join(result.fixes)}): `{fix} --write`"
    is_dynamic = any(_SYMBOL.search(argument.partition("[")[2]) for argument in graph.inputs)
    was_dynamic = result.dynamic or any(
        _SYMBOL.search(argument.partition("[")[2]) for tuned in result.graphs for argument in tuned.inputs
    )
    if result.dynamic and not is_dynamic:
        yield "it was tuned with dynamic=True: pass torch.compile(..., dynamic=True)"
    if is_dynamic and not was_dynamic:
        cause = "dynamic=True, or calls with different sizes"
        fixed = ": pass torch.compile(..., dynamic=False)" if result.dynamic is False else ""
        yield f"sizes are dynamic here ({cause}), and were fixed when it was tuned{fixed}"
    if result.graphs and _has_shapes(graph, result):
        yield "the code, or the size, dtype or requires_grad of a parameter, has changed"
    else:
        yield "the code or the shapes have changed"
    if result.blocks:
        blocks = ", ".join(result.blocks[:_SHOWN]) + ", ..." * (len(result.blocks) > _SHOWN)
        yield (
            "the whole is compiled instead of its blocks "
            f"(model.get_submodule(name).compile(backend='fuselight') for {blocks})"
        )
