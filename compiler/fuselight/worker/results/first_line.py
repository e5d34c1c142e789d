"""The first line at which a wrong call differs, by compiling parts of its graphs from the same state.

What was traced wrong is found by the values of its lines instead (traced_line).

Invariant: the backend of a part is the program's own, with the mode and the options that it asked for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from fuselight.adapters.torch_api import replaced_parts, settings
from fuselight.adapters.torch_api.dynamo import aot_graphs, targets
from fuselight.adapters.torch_api.inductor.inductor_backend import without_cuda_graphs
from fuselight.adapters.torch_api.inductor.kernel_recording import KernelRecorder, without_graph_caches
from fuselight.capture.calls.calls import module_of
from fuselight.capture.dynamo import stacks
from fuselight.measure.accuracy import bisection, rules
from fuselight.measure.accuracy.kernel_replay import ReplayedLine, replay_kernels
from fuselight.measure.accuracy.results import CallResults
from fuselight.shared.report import STAGE_BACKENDS, Accuracy, Stack, Stage
from fuselight.worker.results.eager_calls import RepeatedCall
from fuselight.worker.results.noted_lines import EagerLines, LineValues, NotedGraph, NotedRunner
from fuselight.worker.results.traced_line import departure, is_near, unmatched_line
from fuselight.worker.results.verdicts import References, judged

Backend = Callable[..., Callable[..., Any]]
_AOT_BACKENDS = (STAGE_BACKENDS[Stage.FUNCTIONALIZATION], STAGE_BACKENDS[Stage.DECOMPOSITION])

_MOVED = "Compiled code makes this call after the graph: the program says that it may be moved."
_OF_KERNEL = "A kernel returns another value for this line, replayed on its own inputs."


class _Switched:
    """A backend that another one can replace for a while."""

    def __init__(self, backends: SwitchedBackends, wanted: Any) -> None:
        self._backends, self._wanted = backends, wanted

    def __call__(self, gm: torch.fx.GraphModule, inputs: Sequence[Any], **asked: Any) -> Callable[..., Any]:
        """Compile a captured graph for Dynamo."""
        instead = self._backends.instead
        if self._backends.is_capture:
            return NotedGraph(gm, lambda: self._backends.noted)
        if instead is None:
            compiled: Callable[..., Any] = self._wanted(gm, inputs, **asked)
            return compiled
        return instead(gm, inputs, suspect=self._wanted, **asked)


class SwitchedBackends:
    """The backends of a program's torch.compile calls: its own, another one, or those that a search replaces."""

    def __init__(self, backend: str, *, switches: bool, left_out: Collection[str] = ()) -> None:
        """`backend`: the name of the one that replaces the program's own, if not empty; `switches`: for a search.

        `left_out`: options that no torch.compile gets.
        """
        self._backend, self._switches, self._left_out = backend, switches, left_out
        self.options: dict[str, None] = {}
        """Options that the program gives to torch.compile."""
        self.is_capture = backend == "eager"
        """Whether graphs run as they were captured."""
        self.notes_graphs = backend in _AOT_BACKENDS
        """Whether graphs of AOTAutograd run in eager mode."""
        self.recorder = KernelRecorder() if switches and not backend else None
        """For kernels of generated code, if a search may replay them."""
        self.noted: LineValues | None = None
        """What captured graphs note while they run."""
        self._known: list[tuple[Any, _Switched]] = []
        """Dynamo shares the code of equal backends: one for each that the program asks for."""
        self.instead: Backend | None = None
        self.leaves_alone = False
        """Whether a backend that torch.compile is given is neither replaced nor switched."""
        self.without_cuda_graphs = False
        """Whether the program asks for CUDA graphs, which are left out: a call that is made twice writes its results
        over those that the program still has."""

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Inside, torch.compile takes these backends."""
        with targets.replaced_compile(self._compile, self._optimize), self._noting_graphs(), self._keeping():
            yield

    def _keeping(self) -> contextlib.AbstractContextManager[None]:
        """Inside, generated code is kept, so that its buffers can be recorded."""
        return contextlib.nullcontext() if self.recorder is None else self.recorder.active()

    def _noting_graphs(self) -> contextlib.AbstractContextManager[None]:
        """Inside, graphs of AOTAutograd that run in eager mode can note what they compute."""
        if not self._switches or self._backend not in _AOT_BACKENDS:
            return contextlib.nullcontext()
        return aot_graphs.replaced_runners(
            lambda graph, runner: NotedRunner(graph, runner, lambda: self.noted)
        )

    def _compile(self, real: Callable[..., Any], *given: Any, **asked: Any) -> Any:
        return real(*given, **replaced_parts.without_options(asked, self.options, self._left_out))

    def _optimize(self, real: Callable[..., Any], wanted: Any, /, *args: Any, **asked: Any) -> Any:
        if isinstance(wanted, _Switched) or asked.get("disable"):
            return real(wanted, *args, **asked)
        self.without_cuda_graphs |= without_cuda_graphs(wanted)
        if self.leaves_alone:
            return real(wanted, *args, **asked)
        if self._backend:
            wanted = targets.backend_named(self._backend)
        return real(self._switched(wanted) if self._switches else wanted, *args, **asked)

    def _switched(self, wanted: Any) -> _Switched:
        callable_one = (
            targets.backend_named(wanted or "inductor") if isinstance(wanted, (str, type(None))) else wanted
        )
        for known, switched in self._known:
            if known is callable_one or known == callable_one:
                return switched
        switched = _Switched(self, callable_one)
        self._known.append((callable_one, switched))
        return switched


@dataclass
class LineSearch:
    """Searches the first line of one wrong call."""

    call: RepeatedCall
    references: References
    compiled: Callable[..., Any]
    backends: SwitchedBackends

    def located(self, verdict: Accuracy, seconds: float) -> Accuracy:
        """The verdict with the first operator that differs, or with why none is named."""
        if self.references.eager.raised:
            self.call.eager()
            if self.call.error is not None:
                why = f"Eager mode raises {self.references.eager.raised} on this line."
                return replace(verdict, first=stacks.from_traceback(self.call.error), first_why=why)
        if self.backends.is_capture:
            captured, eager = self._noted()
            moved, departed = moved_call(captured, eager), departure(captured, eager)
            places = [(each[-1].path, each[-1].line) for each in (moved, departed.stack) if each]
            is_inside = bool(moved) and places.count(places[0]) > 1
            stack, why = (moved[:-1], _MOVED) if is_inside else (departed.stack, departed.why)
            return replace(verdict, first=stack, first_why=why)
        # Before the search, which compiles the call again: the fault may be code that was compiled for another state.
        noted = unmatched_line(*self._noted()) if self.backends.notes_graphs else ()
        replayed = self._replayed()
        first = bisection.find_first(
            self._tried, targets.backend_named("inductor"), self._compared, seconds=seconds
        )
        located = bisection.with_first(verdict, first)
        if not located.first:
            located = replace(located, first=noted)
        if replayed is None:  # a cache had the graphs
            replayed = self._replayed_without_caches()
        return located if replayed is None else _with_replay(located, replayed)

    def with_kernels(self, verdict: Accuracy) -> Accuracy:
        """The verdict on a call with what its kernels do on their own inputs, if they are known."""
        replayed = self._replayed()
        return verdict if replayed is None else replace(verdict, replay=replayed.replay)

    def _replayed(self) -> ReplayedLine | None:
        """What the kernels of the call do on their own inputs; None if they are not known."""
        recorder = self.backends.recorder
        if recorder is None:
            return None
        with recorder.recording():
            self.call.repeated(self.compiled, compiled=True)
        return replay_kernels(recorder.graphs) if recorder.graphs else None

    def _replayed_without_caches(self) -> ReplayedLine | None:
        """The same of code that is generated again; None if it is right, as then a cache is at fault."""
        if self.backends.recorder is None:
            return None
        with without_graph_caches():
            try:
                is_wrong = self._compared(self._tried(None)).passed is False
            except Exception:  # noqa: BLE001 - a compile may fail
                return None
            return self._replayed() if is_wrong else None

    def _noted(self) -> tuple[LineValues, LineValues]:
        """What the call computes on each line, compiled and in eager mode."""
        function = self.call.prepared.function
        module = module_of(function)
        eager, captured = LineValues(targets.code_of(function if module is None else module)), LineValues()
        self.call.eager(EagerLines(eager), begin=eager.clear)
        self.backends.noted = captured
        try:
            self.call.repeated(self.compiled, compiled=True, begin=captured.clear)
        finally:
            self.backends.noted = None
        return captured, eager

    def _tried(self, backend: Backend | None) -> CallResults:
        torch.compiler.reset()  # otherwise Dynamo reuses the code of the call before
        self.backends.instead = backend
        try:
            record = self.call.repeated(self.compiled, compiled=True)
        finally:
            self.backends.instead = None
        if self.call.error is not None:
            raise self.call.error
        self._record = record
        return record.results

    def _compared(self, results: CallResults) -> Accuracy:
        del results  # of the record that was kept
        verdict, others = judged(self._record, self.references, training=False)
        if others and verdict.passed is not False:
            return rules.with_note(Accuracy(passed=False), others[0].text)
        return verdict


def moved_call(compiled: LineValues, eager: LineValues) -> Stack:
    """The first call of a function that the program lets torch move, and the line in it that then has another value."""
    functions: Any = settings.setting("reorderable_logging_functions") or ()
    codes = [getattr(function, "__code__", None) for function in functions]
    names = {(code.co_filename, code.co_name) for code in codes if code is not None}
    for operator in eager.operators:
        values = [each.sums for each in compiled.operators if each.place == operator.place]
        frame = operator.stack[-1]
        is_moved = len(operator.stack) > 1 and (frame.path, frame.function) in names
        if is_moved and values and not any(is_near(operator.sums, sums) for sums in values):
            return operator.stack
    return ()


def _with_replay(located: Accuracy, replayed: ReplayedLine) -> Accuracy:
    """The verdict with the wrong kernel, and with its line if the search over operators named none."""
    kernel = replayed.replay.kernel or located.first_kernel
    located = replace(located, replay=replayed.replay, first_kernel=kernel)
    if located.first or not replayed.stack:
        return located
    return replace(located, first=replayed.stack, first_why=_OF_KERNEL)
