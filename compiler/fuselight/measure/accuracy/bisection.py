"""Bisection of a wrong configuration: finds the first line whose operator, when compiled, makes the results differ.

The search goes by graph first (the first N captured graphs go to the suspect backend), then by operator within that
graph. Each trial is compared as the whole is. Invariant: a line is named only if a trial with its operator
compiled failed and a trial without it passed; otherwise a message says what is still open.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

import torch

from fuselight.adapters.torch_api.dynamo import errors
from fuselight.measure.accuracy import rules
from fuselight.measure.accuracy.narrowing import SECONDS, Narrowed, SpentError, kernel_of, narrow
from fuselight.measure.accuracy.partial_compile import (
    Backend,
    Captured,
    Operator,
    compile_stretch,
    read_captured,
)
from fuselight.measure.accuracy.results import CallResults
from fuselight.shared.report import Accuracy, GeneratedGraph, Stack
from fuselight.shared.report.failure import first_line

Run = Callable[[Backend], CallResults]
"""Builds the target again with the same seeds, compiles it with the backend, makes one call and returns its results."""

_WORDS = 200


@dataclass(frozen=True)
class First:
    """The first operator that differs, or the reason why none is named."""

    words: str
    stack: Stack = ()
    operator: str = ""
    graph: str | None = None
    """Compile id."""
    trials: int = 0


def find_first(
    run: Run,
    suspect: Backend,
    compare: Callable[[CallResults], Accuracy],
    *,
    trials: int = 40,
    seconds: float = SECONDS,
    first_seconds: float = 0.0,
) -> First:
    """Bisect a failure. Calls `run` at most `trials` times, and stops before a call would exceed `seconds`.

    The previous call predicts how long a call takes; the first is assumed to take `first_seconds`, as the cold compile
    did.

    Every call begins with `torch.compiler.reset()`, which discards earlier compiled code, so bisect after everything
    else is measured. If `run` raises, that trial stays undecided. A `run` with several suspects, such as a source with
    several torch.compile calls, calls the backend with `suspect=`.
    """
    runner = _TrialRunner(run, suspect, compare, trials, seconds, first_seconds)
    try:
        first_difference = _find(runner)
    finally:
        torch.compiler.reset()
    return replace(first_difference, trials=runner.trials_run)


def with_first(accuracy: Accuracy, first: First, generated: Sequence[GeneratedGraph] = ()) -> Accuracy:
    """Add the bisection's result and the kernel that computes the operator to the verdict."""
    wrong = [tensor.what for tensor in accuracy.tensors if not tensor.passed]
    backward = bool(wrong) and all(what.startswith("gradient of ") for what in wrong)
    kernel = kernel_of(
        first.stack, generated, operator=first.operator, compile_id=first.graph, backward=backward
    )
    return replace(
        rules.with_note(accuracy, first.words),
        first=first.stack,
        first_operator=first.operator,
        first_graph=first.graph,
        first_kernel=kernel,
    )


@dataclass(frozen=True)
class _Stretch:
    """A range of operators of one graph that are compiled."""

    graph: int
    first: int
    end: int


@dataclass
class _TrialRunner:
    """Runs trials: the suspect compiles some captured graphs, and a range of operators of one of them."""

    run: Run
    suspect: Backend
    compare: Callable[[CallResults], Accuracy]
    trials: int
    seconds: float
    takes: float
    """Seconds that the next trial takes, as far as it can be predicted."""
    trials_run: int = 0
    captured: list[Captured] = field(default_factory=list)
    error: str = ""
    """Message of the last trial that raised."""
    _graphs: range | None = range(0)
    _stretch: _Stretch | None = None
    _seen: int = 0

    def __post_init__(self) -> None:
        self._until = time.monotonic() + self.seconds

    def fails(self, graphs: range | None, stretch: _Stretch | None = None) -> bool | None:
        """Whether the results differ with these graphs (None: all) and this range compiled; None if it raised."""
        began = time.monotonic()
        if self.trials_run >= self.trials or began + self.takes > self._until:
            raise SpentError
        self.trials_run += 1
        self._graphs, self._stretch, self._seen = graphs, stretch, 0
        torch.compiler.reset()
        try:
            return self.compare(self.run(self)).passed is False
        except Exception as error:  # noqa: BLE001 - a part of a graph may be what the compiler does not expect
            self.error = f"{type(error).__name__}: {first_line(error)}"[:_WORDS]
            return None
        finally:
            self.takes = time.monotonic() - began

    def __call__(
        self,
        gm: torch.fx.GraphModule,
        inputs: Sequence[Any],
        *,
        suspect: Backend | None = None,
        **options: Any,
    ) -> Callable[..., Any]:
        """Return the backend that all trials use."""
        index, self._seen = self._seen, self._seen + 1
        if index == len(self.captured):
            self.captured.append(read_captured(gm))
        try:
            return self._compile(index, gm, inputs, functools.partial(suspect or self.suspect, **options))
        except errors.Restart:
            # Dynamo captures the frame again and passes another graph for this index.
            self._seen = index
            if self.trials_run == 1:
                del self.captured[index:]
            raise

    def _compile(
        self, index: int, gm: torch.fx.GraphModule, inputs: Sequence[Any], suspect: Backend
    ) -> Callable[..., Any]:
        stretch = self._stretch
        if stretch is not None and stretch.graph == index:
            if len(read_captured(gm).operators) != len(self.captured[index].operators):
                suspect(gm, inputs)  # the suspect asks for another capture again
                raise ValueError("another graph was captured this time")
            return compile_stretch(gm, inputs, suspect, stretch.first, stretch.end)
        if self._graphs is None or index in self._graphs:
            return suspect(gm, inputs)
        forward: Callable[..., Any] = gm.forward
        return forward


def _find(runner: _TrialRunner) -> First:
    try:
        words = _confirm(runner)
        if words:
            return First(words)
        bounds = narrow(range(len(runner.captured) + 1), lambda count: runner.fails(range(count)))
        if bounds.bad - bounds.good > 1:
            return First(_open(runner, bounds, f"in one of the graphs {bounds.good + 1} to {bounds.bad}"))
        return _within(runner, bounds.bad - 1)
    except SpentError:
        return First(_gave_up(runner, "the first line that differs is not known"))


def _confirm(runner: _TrialRunner) -> str:
    """Repeat the failing call, and the call with capture only. Returns why there is nothing to bisect, else empty."""
    unknown = "the first line that differs is not known"
    failed = runner.fails(None)
    if failed is None:
        return f"{unknown}: another call raised {runner.error}"
    if not failed:
        return f"{unknown}: another call of it was right"
    if not runner.captured:
        return f"{unknown}: no graph was compiled again"
    captured = runner.fails(range(0))
    if captured is None:
        return f"{unknown}: the captured graphs alone raised {runner.error}"
    return _without_backend(runner, unknown) if captured else ""


def _without_backend(runner: _TrialRunner, unknown: str) -> str:
    """Describe what differs although no graph is compiled."""
    with torch.compiler.set_stance("force_eager"):
        eager = runner.fails(range(0))
    if eager:
        return (
            f"{unknown}: eager's results differ between calls as well: the target keeps state between calls, "
            "or its kernels add in another order each time"
        )
    return "the captured graphs differ from eager without the backend as well: the capture is wrong, no kernel is"


def _within(runner: _TrialRunner, graph: int) -> First:
    """Bisect the operators of one graph."""
    captured = runner.captured[graph]
    alone = runner.fails(range(0), _Stretch(graph, 0, len(captured.operators)))
    others = range(0) if alone else range(graph)

    def fails(first: int, end: int) -> bool | None:
        return runner.fails(others, _Stretch(graph, first, end))

    bounds = narrow(captured.cuts, lambda end: fails(0, end))
    stretch = captured.operators[bounds.good : bounds.bad]
    where = f" of graph {graph + 1} of {len(runner.captured)}" if len(runner.captured) > 1 else ""
    if bounds.spent or any(bounds.good < cut < bounds.bad for cut in captured.cuts):
        return First(_open(runner, bounds, f"{_lines(stretch)}{where}"), graph=captured.compile_id)
    chosen = next((operator for operator in stretch if operator.computes), stretch[0])
    others_too = "" if alone or not graph else ", where the graphs before it are compiled too"
    words = f"the first operator that differs is {_named(captured, chosen)}{where}{others_too}"
    company = _company(captured, bounds, fails)
    return First(f"{words}{company}", chosen.stack, chosen.name, captured.compile_id)


def _company(captured: Captured, bounds: Narrowed, fails: Callable[[int, int], bool | None]) -> str:
    """Describe whether the operator differs when compiled alone, else with which operators before it."""
    stretch = captured.operators[bounds.good : bounds.bad]
    computing = sum(operator.computes for operator in stretch)
    several = f", one of {computing} that are compiled together" if computing > 1 else ""
    if bounds.good == 0:
        return several
    try:
        alone = fails(bounds.good, bounds.bad)
    except SpentError:
        return f"{several}, compiled with all before it: there was no time to compile it by itself"
    if alone:
        return f"{several}, compiled by itself as well"
    starts = [cut for cut in reversed(captured.cuts) if cut <= bounds.good]
    since = narrow(starts, lambda first: fails(first, bounds.bad))
    with_it = captured.operators[since.bad : bounds.bad]
    why = "by itself it cannot be compiled" if alone is None else "compiled by itself it is right"
    beginning = "they differ where" if since.spent else "the smallest stretch that differs is where"
    return f"{several}: {why}, {beginning} {_lines(with_it)} are compiled together"


def _named(captured: Captured, operator: Operator) -> str:
    """`torch.relu at model.py:12`, with the number of the call if the line makes several."""
    same = [
        other_operator
        for other_operator in captured.operators
        if (other_operator.name, other_operator.stack) == (operator.name, operator.stack)
    ]
    which = next(index for index, other_operator in enumerate(same, 1) if other_operator is operator)
    count = f" (call {which} of {len(same)} there)" if len(same) > 1 else ""
    return f"{operator.name}{_at(operator)}{count}"


def _lines(operators: Sequence[Operator]) -> str:
    """`the 3 operators from torch.add at model.py:3 to torch.relu at model.py:12`."""
    shown = [operator for operator in operators if operator.computes] or list(operators)
    if len(shown) == 1:
        return f"{shown[0].name}{_at(shown[0])}"
    first, last = shown[0], shown[-1]
    return f"the {len(shown)} operators from {first.name}{_at(first)} to {last.name}{_at(last)}"


def _at(operator: Operator) -> str:
    place = operator.stack[-1] if operator.stack else None
    return f" at {PurePath(place.path).name}:{place.line}" if place is not None else ""


def _open(runner: _TrialRunner, bounds: Narrowed, where: str) -> str:
    """Describe what is known if the search did not end at one operator."""
    if bounds.spent:
        return _gave_up(runner, f"the first line that differs is {where}")
    return f"the first line that differs is {where}: parts of it alone raised {runner.error}"


def _gave_up(runner: _TrialRunner, words: str) -> str:
    limit = f"{runner.seconds:.0f} s, as the next one would take some {runner.takes:.0f} s"
    if runner.trials_run >= runner.trials:
        limit = f"{runner.trials} trials"
    return f"{words}: the bisection ended after {runner.trials_run} trials, at its limit of {limit}"
