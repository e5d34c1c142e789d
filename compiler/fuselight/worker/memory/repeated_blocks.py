"""The peak of a target of many equal blocks, extrapolated from the same target with few of them.

Invariant: a peak is extrapolated only where the target with 4 blocks needs of each use what 2 and 3 of them predict.
The target is whole afterwards.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from fuselight.adapters.torch_api.patching import patched
from fuselight.shared.report import Device, MemoryPeak
from fuselight.worker.memory.forms import FormPeak
from fuselight.worker.memory.peaks import summed

LEAST_OPERATORS = 4000
"""Of a step in eager mode: with fewer, the whole is compiled in about 10 s of processor time."""
_COUNTS = (2, 3, 4)
_LEAST_FACTOR = 2
"""How many times fewer modules must be compiled."""
_TOLERANCE = 0.01
"""Of the peak: what all uses together may differ by."""


@dataclass(frozen=True)
class RepeatedBlocks:
    """A list of modules that makes up most of a target."""

    name: str
    container: torch.nn.Module
    count: int

    @property
    def label(self) -> str:
        """`24 blocks of `layers``; `24 blocks` of a target that is the list."""
        return f"{self.count} blocks" + (f" of `{self.name}`" if self.name else "")

    def shortened(self, count: int) -> contextlib.AbstractContextManager[None]:
        """Inside, the list has its first `count` modules alone."""
        modules = vars(self.container)["_modules"]
        return patched(self.container, "_modules", type(modules)(itertools.islice(modules.items(), count)))

    def folded(self, peak: MemoryPeak) -> MemoryPeak:
        """The peak with all blocks as one module: `blocks.*.mlp`."""
        start = f"{self.name}." if self.name else ""

        def name(module: str) -> str:
            index, dot, rest = module.removeprefix(start).partition(".")
            return f"{start}*{dot}{rest}" if module.startswith(start) and index.isdecimal() else module

        return replace(peak, modules=tuple(replace(row, module=name(row.module)) for row in peak.modules))


def repeated_blocks(target: torch.nn.Module | None) -> RepeatedBlocks | None:
    """The list of modules without most of which much less would be compiled; None if there is no such list."""
    if target is None:
        return None
    whole = _size(target)
    for name, part in target.named_modules():
        if isinstance(part, (torch.nn.ModuleList, torch.nn.Sequential)) and len(part) > max(_COUNTS):
            inside = _size(part) - 1
            short = len(_COUNTS) * (whole - inside) + sum(_COUNTS) * inside / len(part)
            if _LEAST_FACTOR * short <= whole:
                return RepeatedBlocks(name, part, len(part))
    return None


def _size(module: torch.nn.Module) -> int:
    return sum(1 for _ in module.modules())


def extrapolated(blocks: RepeatedBlocks, form: Callable[[], FormPeak], device: Device) -> FormPeak:
    """The form of the whole target, from `form()` of the target with 2, 3 and 4 blocks, or why they do not give it."""
    if len(set(map(_structure, blocks.container.children()))) > 1:
        return FormPeak(None, "their modules or parameters differ")
    short, peaks = FormPeak(None, "nothing was run"), list[list[MemoryPeak]]()
    for count in _COUNTS:
        with blocks.shortened(count):
            short = form()
        if short.record is None:
            return FormPeak(None, f"the target does not run with {count} of them: {short.why_not}")
        peaks.append([blocks.folded(peak) for peak in short.record.peaks_of_parts(device)])
    whole = whole_peak(peaks, blocks.count - _COUNTS[-1])
    if whole is None:
        return FormPeak(None, "with 4 of them the peak is not what 2 and 3 predict")
    return short._replace(peak=replace(whole, extrapolated=f"2, 3 and 4 of the {blocks.label}"))


def _structure(block: torch.nn.Module) -> tuple[object, ...]:
    """What is the same for blocks with modules of the same classes, whose tensors have the same sizes."""
    return tuple(
        (name, type(part), *((tensor.shape, tensor.dtype, tensor.requires_grad) for tensor in tensors))
        for name, part in block.named_modules()
        for tensors in ([*part.parameters(recurse=False), *part.buffers(recurse=False)],)
    )


def whole_peak(peaks: Sequence[Sequence[MemoryPeak]], further: int) -> MemoryPeak | None:
    """The peak with `further` blocks more than 4, if 2 and 3 predict 4.

    `peaks`: with 2, 3 and 4 blocks those of the parts of a step, each of which grows as a line; the peak of all may be
    in another part with more blocks.
    """
    if len({len(parts) for parts in peaks}) != 1:
        return None
    most: tuple[MemoryPeak, ...] = max(
        zip(*peaks, strict=True), key=lambda of: of[2].bytes + further * (of[2].bytes - of[1].bytes)
    )
    two, three, four = most
    kinds = summed(
        (three.held, 2), (two.held, -1), (four.held, -1), key=lambda row: replace(row, location=None)
    )
    error = sum(abs(row.bytes) for row in kinds)
    # Compiled code may keep either of two equal buffers: which one, and so its line, alternates from block to block.
    held = summed((four.held, 2 + further), (two.held, -further), parts=2)
    saved = summed((four.saved, 2 + further), (two.saved, -further), parts=2)
    modules = summed((four.modules, 2 + further), (two.modules, -further), parts=2)
    size, by_module = sum(row.bytes for row in held), sum(row.bytes for row in modules)
    least = min(row.bytes for rows in (held, saved, modules) for row in rows)
    if error > _TOLERANCE * four.bytes or least <= 0 or size != by_module:
        return None
    before = four.before + further * (four.before - two.before) // 2
    return replace(four, bytes=size, before=before, held=held, saved=saved, modules=modules, timeline=None)
