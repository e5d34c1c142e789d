"""What a started test writes of the memory of its check, and its reader.

Invariant: the file is in a folder of the process that started the test.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuselight.shared.codec import decode, encode
from fuselight.shared.devices import FALLBACK, find
from fuselight.shared.foreign_data import parse_json
from fuselight.shared.foreign_files import read_regular
from fuselight.shared.report import MemoryEstimate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from fuselight.capture.calls.observed_calls import ObservedCall

_FILE = "estimates.json"


def write_estimates(
    model: Callable[..., Any],
    calls: Sequence[ObservedCall],
    settings: Mapping[str, Any],
    roots: tuple[str, ...],
    folder: str,
) -> None:
    """In a started test: estimate the calls of its check, and write what they need into a folder."""
    from fuselight.worker.memory.object_estimate import estimate_calls  # noqa: PLC0415 - imports torch

    estimates = tuple(estimate_calls(model, calls, find(FALLBACK), roots, settings))
    Path(folder, _FILE).write_text(json.dumps(encode(estimates)), encoding="utf-8")


def read_estimates(folder: str) -> Iterator[MemoryEstimate]:
    """What `write_estimates` has written. Raises OSError and ValueError."""
    rows = parse_json(read_regular(Path(folder, _FILE)))
    yield from (decode(MemoryEstimate, row) for row in rows)
