"""A profile as it is kept: the recording, and what it was joined to when it was made.

Invariant: what is read is what was recorded, but for paths, which are neutral: `/fuselight`, `/python`, `/torch`.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fuselight.measure.profile.recording import Recording
from fuselight.shared.codec import decode, encode
from fuselight.shared.report import Break, GeneratedGraph, Kernel, NotCompiled

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "recordings" / "profiles"


@dataclass(frozen=True)
class KeptProfile:
    """One recorded profile; `recording.made` says of what, on what and how."""

    recording: Recording
    generated: tuple[GeneratedGraph, ...] = ()
    breaks: tuple[Break, ...] = ()
    not_compiled: tuple[NotCompiled, ...] = ()


def write(path: Path, kept: KeptProfile, torch_folder: Path) -> None:
    """Keep a profile, the same bytes for the same profile."""
    text = json.dumps(encode(kept), separators=(",", ":"))
    for name, neutral in (
        (str(torch_folder), "/torch"),
        (str(Path(__file__).resolve().parents[2]), "/fuselight"),
        (sys.prefix, "/python"),
        (sys.base_prefix, "/python"),
    ):
        text = text.replace(name, neutral)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def read(path: Path) -> KeptProfile:
    """A kept profile. Raises OSError, and ValueError where the file is no such profile."""
    return decode(KeptProfile, json.loads(gzip.decompress(path.read_bytes())))


def bare(graphs: Sequence[GeneratedGraph]) -> tuple[GeneratedGraph, ...]:
    """The facts that a profile is joined to, without other texts."""
    return tuple(
        GeneratedGraph(
            graph.compile_id,
            graph.phase,
            graph.graph,
            kernels=tuple(Kernel(kernel.name, kernel.kind, kernel.launch) for kernel in graph.kernels),
            cache_key=graph.cache_key,
        )
        for graph in graphs
    )


def short(breaks: Sequence[Break]) -> tuple[Break, ...]:
    """Breaks without their explanations."""
    return tuple(
        replace(each, reason="", explanation="", hints=(), context="", types=each.types[:1], ids=each.ids[:1])
        for each in breaks
    )
