"""Leaves autotuners of the user's own Triton kernels with the configurations that were measured to be the fastest.

Invariant: nothing is written that Triton's autotuner did not measure on this machine: of each value of its key that the
run tuned for, the fastest configuration stays.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fuselight.shared.foreign_files import read_regular, write_whole
from fuselight.shared.report import OwnKernel, Report, TunedSizes, data_key
from fuselight_server.base.formatting import format_list, format_time
from fuselight_server.explain.kernels.own_kernels import by_function, config_words
from fuselight_server.source.autotune_decorators import (
    CannotKeepError,
    DecoratorEdit,
    applied,
    keep_configurations,
)


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


def edit_of(text: str, winner: Winners, line: int | None = None) -> DecoratorEdit:
    """Return the edit of the kernel's file; `line` is where its `def` is now. Raises CannotKeepError."""
    kernel = winner.kernel
    texts = [configuration.text for configuration in kernel.configurations]
    return keep_configurations(text, kernel.name, line or kernel.location.line, winner.kept, texts)


@dataclass(frozen=True)
class KeptConfigurations:
    """What became of one autotuner."""

    winner: Winners
    refusal: str = ""
    """Why its file stays as it is; empty for a file that was written."""


def write_fastest(reports: Sequence[Report]) -> list[KeptConfigurations]:
    """Leave the autotuners of the reports' files with their fastest configurations, each file as a whole or not at all.

    A file that is not the text that ran stays as it is.
    """
    files: dict[str, list[Winners]] = {}
    hashes: dict[str, str] = {}
    kernels = [kernel for report in reports for kernel in report.own_kernels if not kernel.library]
    for report in reports:
        hashes |= report.files
    for winner in winners(kernels):
        files.setdefault(winner.kernel.location.path, []).append(winner)
    return [
        KeptConfigurations(winner, refusal)
        for path, own in files.items()
        for winner, refusal in zip(own, _written(path, own, hashes.get(path)), strict=True)
    ]


def _written(path: str, own: Sequence[Winners], ran: str | None) -> list[str]:
    """Write the autotuners of one file; return why each is not written."""
    try:
        data = read_regular(path)
        text = data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return [f"the file cannot be read: {error}"] * len(own)
    if data_key(data) != ran:
        return ["the file has changed since the run"] * len(own)
    edits, refusals = [], []
    for winner in own:
        try:
            edits.append(edit_of(text, winner))
            refusals.append("")
        except CannotKeepError as error:
            refusals.append(str(error))
    for edit in sorted(edits, key=lambda edit: -edit.line):  # from the end: lines above stay where they are
        text = applied(text, edit)
    try:
        if edits:
            write_whole(
                os.path.realpath(path), text.encode("utf-8"), mode=stat.S_IMODE(Path(path).stat().st_mode)
            )
    except OSError as error:
        return [f"the file cannot be written: {error}"] * len(own)
    return refusals
