"""Hand-made profiles, as small as their case, with the names that torch writes into real ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fuselight.measure.profile import torch_records
from fuselight.measure.profile.recording import (
    CUPTI,
    RECORD_FUNCTIONS,
    Event,
    EventKind,
    PlacedOperator,
    Recording,
    read_windows,
)
from fuselight.shared.report import (
    Break,
    GeneratedGraph,
    Kernel,
    KernelKind,
    Location,
    Phase,
    Stack,
)

MAIN, ENGINE = 1, 2
"""The calling thread, and autograd's thread."""


@dataclass
class Stream:
    """Events in microseconds; `recording` sorts them."""

    events: list[Event] = field(default_factory=list)
    correlation: int = 0

    def host(
        self,
        name: str,
        start: int,
        end: int,
        *,
        kind: EventKind = EventKind.OPERATOR,
        thread: int = MAIN,
        correlation: int | None = None,
        sequence: int | None = None,
    ) -> None:
        """One event of the host."""
        self.events.append(
            Event(name, kind, start * 1000, (end - start) * 1000, thread, correlation, sequence)
        )

    def call(self, start: int, end: int) -> None:
        """A profiled call."""
        self.host(torch_records.CALL, start, end, kind=EventKind.ANNOTATION)

    def launch(
        self,
        at: int,
        *work: tuple[str, int, int],
        name: str = "cudaLaunchKernel",
        thread: int = MAIN,
        took: int = 2,
        stream: int = 7,
    ) -> None:
        """A call of the runtime, and its work on the device as (name, start, end)."""
        self.correlation += 1
        self.host(name, at, at + took, kind=EventKind.RUNTIME, thread=thread, correlation=self.correlation)
        self.device(*work, correlation=self.correlation, stream=stream)

    def device(self, *work: tuple[str, int, int], correlation: int | None = None, stream: int = 7) -> None:
        """Work on the device."""
        for named, start, end in work:
            kind = EventKind.COPY if named.startswith("Mem") else EventKind.KERNEL
            self.events.append(Event(named, kind, start * 1000, (end - start) * 1000, stream, correlation))

    def recording(self, *, on_device: bool = True, operators: Sequence[PlacedOperator] = ()) -> Recording:
        """The recording of a profiler."""
        events = tuple(sorted(self.events, key=lambda event: (event.start_ns, -event.ns)))
        return Recording(
            source=CUPTI if on_device else RECORD_FUNCTIONS,
            device="cuda:0" if on_device else "cpu",
            events=events,
            windows=read_windows(events),
            operators=tuple(operators),
        )


def graph_call(key: str) -> str:
    """The record of a call of a compiled graph."""
    return f"## Call CompiledFxGraph {key} ##"


def region(compile_id: str) -> str:
    """The record of a compiled region."""
    return f"Torch-Compiled Region: {compile_id}"


def generated(key: str, *names: str, phase: Phase = Phase.INFERENCE) -> GeneratedGraph:
    """A graph with kernels of these names; a name with a dot is a library kernel."""
    kernels = tuple(
        Kernel(name, KernelKind.EXTERN if "." in name else KernelKind.TRITON, at)
        for at, name in enumerate(names)
    )
    return GeneratedGraph(key.split(maxsplit=1)[0], phase, kernels=kernels, cache_key=key)


def line(number: int, path: str = "/w/m.py") -> Stack:
    """One frame."""
    return (Location(path, number, function="forward"),)


def broken(compile_id: str, number: int, *, skipped: bool = False) -> Break:
    """A break on a line of `forward`."""
    return Break(
        compile_id, (None,), ("break",), line(number), frame_function="M.forward", frame_skipped=skipped
    )
