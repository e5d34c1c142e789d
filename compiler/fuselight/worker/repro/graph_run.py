"""A run of the user's program up to one call of what it compiles, whose captured graphs are recorded.

Invariant: the graphs are those of that call, or the one that the program's backend cannot compile; the program ends
with it.
"""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from fuselight.adapters.torch_api import replaced_parts, settings
from fuselight.adapters.torch_api.dynamo import errors, targets
from fuselight.capture import dynamo
from fuselight.capture.calls.rungs import Answered
from fuselight.capture.dynamo import stacks
from fuselight.shared.protocol import GraphsRequest
from fuselight.shared.report import RecordedCode, RecordedGraph, Report, Reproduction
from fuselight.shared.report.failure import first_line
from fuselight.worker.child.request_results import RequestResult
from fuselight.worker.child.state import RunState
from fuselight.worker.child.target_run import Climb, InputsCaptured, make_calls
from fuselight.worker.repro.graph_text import GraphText, UnprintableError
from fuselight.worker.repro.graph_values import GraphValues

_MAX_GRAPHS = 16
_WORDS = 300
_OPTIONS = ("dynamic", "fullgraph", "mode")


class CompileOptions:
    """What the program gives to torch.compile besides the backend, as Python text."""

    def __init__(self, roots: Sequence[str]) -> None:
        """Begin before the program. `roots`: folders with files of the user's."""
        self.texts: dict[str, str] = {}
        self._roots, self._before = tuple(roots), replaced_parts.changed_settings()

    def compile(self, real: Callable[..., Any], *given: Any, **asked: Any) -> Any:
        """Note what a torch.compile asks for."""
        chosen = {name: asked[name] for name in _OPTIONS if asked.get(name) is not None}
        options = asked.get("options")
        if isinstance(options, dict):
            chosen |= {f"options.{name}": value for name, value in options.items()}
        for name, value in chosen.items():
            text = settings.literal_text(value)
            if text is not None:
                self.texts[name] = text
        return real(*given, **asked)

    def optimize(self, real: Callable[..., Any], wanted: Any, /, *args: Any, **asked: Any) -> Any:
        """Leave the backend as it is, and note its name."""
        if isinstance(wanted, str):
            self.texts["backend"] = repr(wanted)
        return real(wanted, *args, **asked)

    def reproduction(
        self, graphs: Sequence[RecordedGraph] = (), codes: Sequence[RecordedCode] = ()
    ) -> Reproduction:
        """What was recorded, with what the program has changed since the beginning."""
        literal = settings.literal_settings()
        changed = {name: text for name, text in literal.items() if self._before.get(name) != text}
        own = replaced_parts.replaced_parts(lambda path: stacks.is_users(path, self._roots), self._before)
        unwritten = tuple(name for name in own if name not in changed)
        return Reproduction(tuple(graphs), dict(self.texts), changed, unwritten, tuple(codes))


class RecordGraphs:
    """Makes the calls of the target as the source compiles it, and records graphs (target_run.RunStrategy)."""

    runs_main = True

    @contextlib.contextmanager
    def compiling(self, state: RunState) -> Iterator[dynamo.CompileCalls]:
        """As in RunStrategy."""
        request = state.job.request
        if not isinstance(request, GraphsRequest):
            raise TypeError(f"{type(request).__name__} does not say what to record")
        run = state.result = _GraphsRun(request)
        with (
            targets.replaced_compile(run.options.compile, run.optimize),
            targets.changed_compiled_calls(run.call),
        ):
            yield dynamo.CompileCalls()

    def use(self, state: RunState, answered: Answered, climb: Climb, names: Mapping[str, Any]) -> None:
        """As in RunStrategy."""
        del climb
        make_calls(state, answered, names)


class _GraphsRun(RequestResult):
    """Records the graphs of one run."""

    def __init__(self, request: GraphsRequest) -> None:
        self._request = request
        self._graphs: list[RecordedGraph] = []
        self.options = CompileOptions(request.roots)
        self._count = 0
        self._is_inside = self._records = False
        self._thread = threading.get_ident()

    def complete_report(self, report: Report) -> Report:
        """As in RequestResult."""
        return replace(report, reproduction=self.options.reproduction(self._graphs))

    def optimize(self, real: Callable[..., Any], wanted: Any, /, *args: Any, **asked: Any) -> Any:
        """Put a recorder in front of a backend."""
        if isinstance(wanted, _Recorder) or asked.get("disable"):
            return real(wanted, *args, **asked)
        backend = (
            targets.backend_named(wanted or "inductor") if isinstance(wanted, (str, type(None))) else wanted
        )
        return real(_Recorder(self, backend), *args, **asked)

    def call(
        self, function: Any, compiled: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Make a call of what the program compiles; ends the program after the one whose graphs are recorded."""
        del function
        if self._is_inside or threading.get_ident() != self._thread:
            return compiled(*args, **kwargs)
        index, self._count = self._count, self._count + 1
        self._is_inside = True
        try:
            if index != self._request.call:
                return compiled(*args, **kwargs)
            torch.compiler.reset()  # else Dynamo uses the code of an earlier call
            self._records = True
            compiled(*args, **kwargs)
        finally:
            self._is_inside = False
        raise InputsCaptured

    def captured(
        self,
        gm: torch.fx.GraphModule,
        inputs: Sequence[Any],
        backend: Callable[..., Any],
        asked: dict[str, Any],
    ) -> Callable[..., Any]:
        """Compile a graph, or record it."""
        kept = copy.deepcopy(gm)
        if self._records:
            return _RecordedOnce(kept, gm, self._request, self._graphs)
        try:
            compiled: Callable[..., Any] = backend(gm, inputs, **asked)
        except Exception as error:
            if self._request.call is None and not self._graphs and not isinstance(error, errors.CONTROL_FLOW):
                words = f"{type(error).__name__}: {first_line(error)}"[:_WORDS]
                recorded = recorded_graph(kept, inputs, with_values=self._request.with_values)
                self._graphs.append(replace(recorded, error=words))
            raise
        return compiled


class _Recorder:
    """A backend that records."""

    def __init__(self, run: _GraphsRun, backend: Callable[..., Any]) -> None:
        self._run, self._backend = run, backend

    def __call__(self, gm: torch.fx.GraphModule, inputs: Sequence[Any], **asked: Any) -> Callable[..., Any]:
        """Compile a captured graph for Dynamo."""
        return self._run.captured(gm, inputs, self._backend, asked)


class _RecordedOnce:
    """A captured graph that runs in eager mode, and is recorded at its first call."""

    def __init__(
        self,
        kept: torch.fx.GraphModule,
        gm: torch.fx.GraphModule,
        request: GraphsRequest,
        graphs: list[RecordedGraph],
    ) -> None:
        self._kept: torch.fx.GraphModule | None = kept
        self._gm, self._request, self._graphs = gm, request, graphs

    def __call__(self, *given: Any) -> Any:
        """Run the graph."""
        kept, self._kept = self._kept, None
        if kept is not None and len(self._graphs) < _MAX_GRAPHS:
            self._graphs.append(recorded_graph(kept, given, with_values=self._request.with_values))
        return self._gm.forward(*given)


def recorded_graph(gm: torch.fx.GraphModule, given: Sequence[Any], *, with_values: bool) -> RecordedGraph:
    """A graph as Python, with the traits of its values when it is run on `given`, which stay as they are."""
    try:
        text = GraphText(gm)
    except UnprintableError as why:
        return RecordedGraph(unprintable=str(why))
    values = GraphValues(gm, text, given, with_values=with_values)
    return RecordedGraph(
        tuple(name for name in text.inputs if name in values.traits),
        (*values.numbers, *text.nodes),
        tuple(name for name in text.outputs if name in values.traits),
        values.traits,
        grad=torch.is_grad_enabled(),
    )
