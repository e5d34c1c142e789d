"""Generates the kernels of each captured graph for a device and records Inductor's decisions.

Invariant: a graph whose code generation fails is reported as a graph with a failure. The user's program continues with
the captured graph in both cases.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from fuselight.adapters.torch_api.dynamo import compiled_results, errors, frames
from fuselight.adapters.virtual_gpu import autotune_choices, codegen, cudagraphs, partitioner, scheduler_nodes
from fuselight.capture.dynamo import stacks
from fuselight.capture.inductor import launches, shared_tensors
from fuselight.capture.inductor.repeats import read_repeated
from fuselight.capture.inductor.shared_tensors import Given, PassedTensors, read_handed
from fuselight.shared.report import (
    CudagraphSkip,
    Device,
    GeneratedGraph,
    Handed,
    Kernel,
    Phase,
    Problem,
    Recomputed,
    Refusal,
    Repeated,
    Stack,
    text_key,
)

_REFUSALS = 500
"""Maximum number of kinds of refusals kept per graph, the most frequent first."""


@dataclass(frozen=True)
class _Cut:
    """What is known of a joint graph since it was cut in two."""

    joint_key: str | None = None
    saved: shared_tensors.Saved = field(default_factory=shared_tensors.Saved)
    recomputed: tuple[Recomputed, ...] = ()


@dataclass
class _OpenGraph:
    """A graph whose code is being generated."""

    aten_key: str | None = None
    kernels: list[Kernel] = field(default_factory=list)
    touched: list[scheduler_nodes.Touched] = field(default_factory=list)
    """Of each launch."""
    refusals: tuple[Refusal, ...] = ()
    skips: dict[CudagraphSkip, None] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)
    """Scheduler nodes whose bytes are counted already."""
    started: float = field(default_factory=time.perf_counter)


class Generation:
    """A Dynamo backend that generates code for `device` and runs the graph as it was captured.

    `on_graph(count)` is called when a graph is done.
    """

    def __init__(self, device: Device, on_graph: Callable[[int], None] | None = None) -> None:
        self.device = device
        self.graphs: list[GeneratedGraph] = []
        self.texts: dict[str, str] = {}
        self.problems: dict[Problem, None] = {}
        self._on_graph = on_graph
        self._open = _OpenGraph()
        self._cut = _Cut()
        self._mutation: Stack = ()
        self._passed = PassedTensors()
        self._inputs: dict[int, int] = {}
        """Bytes of the inputs of the current graph that the target made itself, by position."""
        self._given: dict[int, Given] = {}
        self._repeated: Repeated | None = None
        self._positions = 0
        """Inputs of the captured graph."""
        self._captured = 0

    def __call__(
        self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **asked: Any
    ) -> Callable[..., Any]:
        """Take a captured graph from Dynamo."""
        self._begin(gm)
        options = dict(asked.get("options") or {})
        options.pop("backend", None)
        options = {**codegen.mode_options(options.pop("mode", None)), **options}
        for name in sorted(autotune_choices.UNDECIDABLE & {key for key, value in options.items() if value}):
            what = f"{name} times kernels against each other"
            self._problem(
                what,
                "that needs the device itself: what Inductor takes without it is shown, with what it would try",
            )
        before = len(self.graphs)
        real = partitioner.real_inputs(gm)
        self._inputs, self._given = self._passed.inputs(real)
        self._positions = len(real)
        try:
            with cudagraphs.watching_cudagraphs(self._not_recorded, self.broke):
                codegen.generate(gm, example_inputs, self.device, self, options)
        except codegen.BREAKS:
            raise  # Dynamo breaks the graph here, as it does for torch.compile's own backend, and comes again
        except errors.Restart:
            del self.graphs[before:]
            raise  # Dynamo captures the frame again
        except Exception as error:  # noqa: BLE001 - the compiler may raise anything; the captured graph still runs
            self._fail(error, before)
        for position in self._cut.saved.carried:
            self._passed.count(real[position])
        run = compiled_results.with_compiled_results(gm)
        run = self._passed.noting(self._captured, run, self._cut.saved)
        self._captured += 1
        return run

    def _begin(self, gm: torch.fx.GraphModule) -> None:
        self._open, self._cut = _OpenGraph(), _Cut()
        self._repeated = read_repeated(gm)

    def _fail(self, error: Exception, before: int) -> None:
        words = _words(error)
        if len(self.graphs) > before:  # the forward graph is there: it was the backward one
            phase = Phase.BACKWARD
        else:
            phase = Phase.FORWARD if torch.is_grad_enabled() else Phase.INFERENCE
        self.graphs.append(GeneratedGraph(self._compile_id(), phase, graph=self._captured, failure=words))

    def _compile_id(self) -> str:
        return frames.current_compile_id() or "?"

    def _problem(self, what: str, why: str) -> None:
        self.problems.setdefault(Problem("kernels", what, why))

    def _text(self, text: str) -> str:
        key = text_key(text)
        self.texts.setdefault(key, text)
        return key

    def _not_recorded(self, reason: str) -> None:
        """A graph that is written is kept out of CUDA graphs as a whole."""
        last = self.graphs[-1]
        skip = _skip(reason, stacks.from_text(reason) or (self._mutation if "mutat" in reason else ()))
        if skip not in last.cudagraph_skips:
            self.graphs[-1] = replace(last, cudagraph_skips=(*last.cudagraph_skips, skip))

    # What follows is virtual_gpu's GenerationObserver.

    def partitioned(
        self, joint: str, forward: torch.fx.GraphModule, backward: torch.fx.GraphModule, outputs: int
    ) -> None:
        """AOTAutograd partitioned the joint graph."""
        saved_tensors = shared_tensors.read_saved(forward, outputs, self._inputs)
        recomputed = shared_tensors.read_recomputed(forward, backward)
        self._cut = _Cut(self._text(joint) if joint else None, saved_tensors, recomputed)
        if saved_tensors.unknown:
            names = ", ".join(saved_tensors.unknown)
            self._problem(f"the bytes of {names}, kept for backward", "their sizes depend on data")

    def lowered(self, graph: Any, module: torch.fx.GraphModule) -> None:
        """Code generation of a graph starts."""
        del graph
        self._open = _OpenGraph(aten_key=self._text(str(module.code).strip()), refusals=self._open.refusals)
        self._mutation = shared_tensors.first_mutation(module)

    def launched(
        self, name: str, nodes: Sequence[Any], scheduled: Any, candidates: Sequence[str] = ()
    ) -> None:
        """Inductor wrote a kernel launch, or the call of an operator."""
        if scheduler_nodes.is_view(nodes):
            return
        results = scheduler_nodes.members_of(nodes, scheduled)
        members = tuple(result for result in results if id(result) not in self._open.seen)
        self._open.seen.update(map(id, members))
        kernel = launches.read_launch(name, nodes, members, len(self._open.kernels), self.device)
        touched = scheduler_nodes.touched(members)
        self._open.kernels.append(replace(kernel, candidates=tuple(candidates)))
        # In step with the kernels: launches are known by their position in both.
        self._open.touched.append(touched)
        if any(candidate.startswith("padded to") for candidate in candidates):
            self._problem(
                "whether multiplications are padded",
                "a GPU times both: they are shown as they are, and both are listed",
            )

    def refused(self, counts: Mapping[tuple[Any, Any, str], int]) -> None:
        """Inductor finished a schedule."""
        folded: dict[Refusal, int] = {}
        for (first, second, reason), count in counts.items():
            refusal = Refusal(reason, launches.place_of(first), launches.place_of(second))
            folded[refusal] = folded.get(refusal, 0) + count
        most = sorted(folded.items(), key=lambda item: -item[1])[:_REFUSALS]
        self._open.refusals = tuple(replace(refusal, count=count) for refusal, count in most)

    def not_replayed(self, reason: str, nodes: Sequence[Any]) -> None:
        """Something is kept out of CUDA graphs."""
        if cudagraphs.cudagraphs_asked():
            stack = launches.place_of_nodes(nodes) if nodes else stacks.from_text(reason)
            self._open.skips.setdefault(_skip(reason, stack))

    def written(self, graph: Any, text: str) -> None:
        """Inductor wrote the code of a graph."""
        phase = scheduler_nodes.phase(graph)
        kernels = [
            replace(kernel, text_key=None if source is None else self._text(source))
            for kernel, source in launches.with_calls(self._open.kernels, text)
        ]
        handed = () if phase is Phase.BACKWARD else self._hand_over(graph, phase)
        self.graphs.append(
            GeneratedGraph(
                compile_id=self._compile_id(),
                phase=phase,
                graph=self._captured,
                text_key=self._text(text),
                aten_key=self._open.aten_key,
                kernels=tuple(kernels),
                refusals=self._open.refusals,
                cudagraph_skips=tuple(self._open.skips),
                joint_key=self._cut.joint_key if phase is Phase.FORWARD else None,
                saved=self._cut.saved.tensors if phase is Phase.FORWARD else (),
                recomputed=self._cut.recomputed if phase is Phase.BACKWARD else (),
                handed=handed,
                repeated=None if phase is Phase.BACKWARD else self._repeated,
                seconds={"codegen": time.perf_counter() - self._open.started},
            )
        )
        self._open = _OpenGraph()
        if self._on_graph is not None:
            self._on_graph(len(self.graphs))

    def _hand_over(self, graph: Any, phase: Phase) -> tuple[Handed, ...]:
        """Return the tensors that a graph gets from the one before it, and keep its results for the one after it."""
        outputs = scheduler_nodes.output_names(graph)
        if phase is Phase.FORWARD:
            outputs = outputs[: self._cut.saved.num_outputs]
        self._passed.wrote(self._captured, outputs, self._open.touched, self._cut.saved.outputs)
        names = list(graph.graph_input_names)
        kept = frozenset(tensor.name for tensor in self._cut.saved.tensors)
        aligned = self._given if len(names) == self._positions else {}
        return read_handed(aligned, names, self._open.touched, kept)

    def broke(self, stage: str, error: Exception) -> None:
        """A hook of ours failed."""
        where = f"{stage} ({stacks.innermost_of_ours(error)})"  # as `launched (launches.py:88)`
        self._problem(f"a fact was lost at {where}", f"{type(error).__name__}: {error}"[:500])


def _skip(reason: str, stack: Stack) -> CudagraphSkip:
    """Why CUDA graphs do not replay something, without the stack that torch prints after the reason."""
    return CudagraphSkip(reason.split("Found from", 1)[0].strip().rstrip("."), stack)


def _words(error: BaseException) -> str:
    """The compiler's message, without the graph and the stack that it prints after the message."""
    inner = error
    while inner.__cause__ is not None:
        inner = inner.__cause__
    text = str(inner).split("\nWhile executing", 1)[0].strip()
    first = "\n".join(text.splitlines()[:6])
    return f"{type(inner).__name__}: {first}"[:1000]
