"""Leaves autotuners of the user's own Triton kernels with the configurations that were measured to be the fastest.

Invariant: nothing is written that Triton's autotuner did not measure on this machine: of each value of its key that the
run tuned for, the fastest configuration stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuselight_server.base.formatting import format_list, format_time
from fuselight_server.explain.kernels.own_kernels import by_function, config_words
from fuselight_server.source.autotune_decorators import (
    CannotKeepError,
    ConfigurationsEdit,
    applied,
    keep_configurations,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fuselight.shared.report import OwnKernel, TunedSizes


@dataclass(frozen=True)
class Winners:
    """The fastest configurations of one autotuner, by position."""

    kernel: OwnKernel
    kept: tuple[int, ...]
    words: str
    """`BLOCK=128, 4 warps, 3 stages: 10 µs for n=1000`, for each value of the key."""

    @property
    def title(self) -> str:
        """What the change does."""
        return f"Keep the fastest of {len(self.kernel.configurations)} configurations: {self.words}"


def winners(kernels: Iterable[OwnKernel]) -> list[Winners]:
    """Return the autotuners of which two or more configurations were measured, and one need not stay."""
    chosen = []
    for own in by_function(kernels).values():
        tuned = _distinct(own)
        fastest = {sizes.values: at for sizes in tuned if (at := _fastest(sizes)) is not None}
        kept = tuple(sorted(set(fastest.values())))
        count = len(own[0].configurations)
        if kept and len(kept) < count:
            words = [
                _words(own[0], sizes, fastest[sizes.values]) for sizes in tuned if sizes.values in fastest
            ]
            chosen.append(Winners(own[0], kept, "; ".join(words)))
    return chosen


def _distinct(kernels: Sequence[OwnKernel]) -> list[TunedSizes]:
    """What was measured of one function, once for each value of the key."""
    return list({sizes.values: sizes for kernel in reversed(kernels) for sizes in kernel.tuned}.values())


def _fastest(sizes: TunedSizes) -> int | None:
    """The position of the fastest configuration; None where fewer than two were measured."""
    times = {at: us for at, us in enumerate(sizes.times_us) if us is not None}
    return min(times, key=lambda at: times[at]) if len(times) > 1 else None


def _words(kernel: OwnKernel, sizes: TunedSizes, at: int) -> str:
    us = sizes.times_us[at]
    named = [f"{name}={value}" for name, value in zip(kernel.key, sizes.values, strict=False)]
    time = format_time(us) if us is not None else "?"
    return f"{config_words(kernel.configurations[at].config)}, {time} for {format_list(named)}"


def edit_of(text: str, winner: Winners, line: int | None = None) -> ConfigurationsEdit:
    """Return the edit of the kernel's file; `line` is where its `def` is now. Raises CannotKeepError."""
    kernel = winner.kernel
    texts = [configuration.text for configuration in kernel.configurations]
    return keep_configurations(text, kernel.name, line or kernel.location.line, winner.kept, texts)


def with_fastest(text: str, kernels: Iterable[OwnKernel]) -> str | CannotKeepError:
    """Return the text of a file with every autotuner of it left with its fastest configurations, or why it stays."""
    edits = []
    for winner in winners(kernels):
        try:
            edits.append(edit_of(text, winner))
        except CannotKeepError as error:
            return error
    for edit in sorted(edits, key=lambda edit: -edit.line):  # from the end: lines above stay where they are
        text = applied(text, edit)
    return text
