"""The results of a target with one release of torch, compared with those of an earlier one.

Invariant: what was not compared is None, and `refused` or a note says why. Both releases had the same inputs,
parameters and buffers.
"""

from __future__ import annotations

from dataclasses import dataclass

from fuselight.shared.report.measured import Accuracy
from fuselight.shared.report.place import Location


@dataclass(frozen=True)
class CallErrors:
    """The largest error of any result against float64, as a part of the largest element of that result.

    The float64 result is that of the same release. None: there is none, or the call was not made.
    """

    eager_before: float | None = None
    compiled_before: float | None = None
    eager_after: float | None = None
    compiled_after: float | None = None


@dataclass(frozen=True)
class ReleaseCall:
    """One call with both releases."""

    call: int
    text: str
    """The call, as its directive has it."""
    eager: Accuracy
    """The later eager results against the earlier ones, with the earlier float64 results as the reference."""
    is_eager_equal: bool
    """Whether each bit is equal."""
    float64: Accuracy | None = None
    """The later float64 results against the earlier ones: what differs there is no rounding."""
    compiled_before: Accuracy | None = None
    """The earlier compiled results against the earlier eager ones."""
    compiled_after: Accuracy | None = None
    """The later compiled results against the later eager ones."""
    is_compiled_equal: bool | None = None
    errors: CallErrors = CallErrors()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Deprecation:
    """A warning that something of torch is deprecated or will change."""

    text: str
    category: str
    """`FutureWarning`."""
    location: Location
    """The user's line that led to it; warnings without a frame of the user's are left out."""


@dataclass(frozen=True)
class ReleaseOutputs:
    """All calls of a target with both releases; without calls on the side that runs first."""

    calls: tuple[ReleaseCall, ...] = ()
    refused: str = ""
    """Why nothing was compared; empty if something was, or on the side that runs first."""
    deprecations: tuple[Deprecation, ...] = ()
    """Of this side, each once."""
