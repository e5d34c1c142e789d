"""Calls of a running program that were also made in eager mode: `fuselight run --accuracy`."""

from __future__ import annotations

from dataclasses import dataclass, field

from fuselight.shared.report.place import Location, Stack
from fuselight.shared.report.results import ComparedCall


@dataclass(frozen=True)
class ShadowedCall:
    """One call that was compared."""

    call: ComparedCall
    step: int
    """1 for the first call of its function."""
    error: float | None = None
    """The largest absolute error of a result; None if none is a number."""


@dataclass(frozen=True)
class FirstNonFinite:
    """The first call of a process that returned NaN or infinity."""

    name: str
    step: int
    caller: Location | None = None
    inputs: tuple[str, ...] = ()
    """The arguments, parameters and buffers that already had it."""
    is_compiled_only: bool = False
    """Whether the same call in eager mode has none."""
    eager: Stack = ()
    """The first line of eager mode whose result has it, if that was looked at."""
    operator: str = ""


@dataclass(frozen=True)
class RecordedValue:
    """What identifies a result of a compiled call: another run has the same bits, or similar statistics, or neither."""

    what: str
    dtype: str
    shape: tuple[int, ...]
    checksum: str
    """Of the bits of all elements; of a large tensor, of those that are compared."""
    mean: float
    """Of the finite elements, as the next three; NaN if there are none."""
    size: float
    """The root mean square."""
    smallest: float
    largest: float
    non_finite: int = 0
    """Elements that are NaN or infinite."""


@dataclass(frozen=True)
class LineSums:
    """What an operator of a line gave in eager mode."""

    path: str
    """Relative to the project."""
    line: int
    time: int
    """1 for the first operator of the line in the call."""
    sums: tuple[float, ...]
    """Of each tensor its sizes, the sum of the absolute values, and a sum of values weighted by their place."""


@dataclass(frozen=True)
class CallValues:
    """One call, recorded so that another run can be compared with it."""

    name: str
    step: int
    """1 for the first call of its function."""
    values: tuple[RecordedValue, ...]
    """What compiled code returns, changes in place, and its gradients."""
    lines: tuple[LineSums, ...]
    """In the order in which eager mode runs them."""


@dataclass(frozen=True)
class Shadow:
    """What one process compared."""

    process: int
    rank: int | None = None
    calls: tuple[ShadowedCall, ...] = ()
    call_count: int = 0
    """Calls of compiled functions, compared or not."""
    not_compared: dict[str, int] = field(default_factory=dict)
    """Why calls were not compared, with their number."""
    seconds: float = 0.0
    """That comparing took."""
    all_seconds: float = 0.0
    """From the first call to the last."""
    first_non_finite: FirstNonFinite | None = None
    problem: str = ""
    """Why nothing was compared; empty if something was."""
    without_cuda_graphs: bool = False
    recorded: tuple[CallValues, ...] = ()
    """If asked for."""
    torch: str = ""
    """Its version."""
    device: str = ""
    """The name of the GPU; `cpu` without one."""
