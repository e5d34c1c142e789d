"""The effects of one call as data.

Invariant: a record is bounded in size and can be read by another process.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import pickle
import random
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from fuselight.adapters.torch_api.dynamo.installed_globals import globals_of_dynamo, recorded_constants
from fuselight.capture.calls.calls import Prepared
from fuselight.measure.accuracy import results
from fuselight.measure.accuracy.results import CHANGED, CallResults
from fuselight.shared.report.failure import first_line
from fuselight.worker.child.state import put
from fuselight.worker.live.call_traits import (
    ChangedAttributes,
    HookCounts,
    attributes_of,
    kinds_of,
    output_traits,
    unused_gradients,
)
from fuselight.worker.live.number_changes import number_changes, without_durations
from fuselight.worker.live.output_objects import OutputObjects
from fuselight.worker.live.reachable import ReachableState

_ELEMENTS, _ALL_ELEMENTS = 1 << 19, 1 << 22
"""Most elements kept of one tensor, and of all tensors of one call."""
_PRINTED = 1 << 16
"""Most characters kept of each stream."""
_SHOWN = 80
_PLACE = re.compile(r":\d+: ")
"""The line number in a warning or a log line, which an edit may move."""
_NUMBERS = 2000
"""Most attributes and globals that are read."""


class RecordingStream(io.TextIOBase):
    """A standard stream that also keeps what is written while a call is recorded."""

    def __init__(self, stream: Any) -> None:
        super().__init__()
        self._stream = stream
        self._parts: list[str] | None = None
        self._room = 0

    def start(self) -> None:
        """Keep the text from here on."""
        self._parts, self._room = [], _PRINTED

    def stop(self) -> str:
        """Return the text since `start`, and keep no more."""
        parts, self._parts = self._parts or [], None
        return "".join(parts)

    def write(self, text: str) -> int:
        """Write to the stream."""
        if self._parts is not None and self._room > 0:
            self._parts.append(text[: self._room])
            self._room -= len(text)
        return int(self._stream.write(text))

    def flush(self) -> None:
        """Flush the stream."""
        self._stream.flush()

    def fileno(self) -> int:
        """Return the descriptor of the stream."""
        return int(self._stream.fileno())

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        return bool(self._stream.isatty())

    def writable(self) -> bool:
        """Return true."""
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]  # as io.TextIOWrapper has it
        """The encoding of the stream."""
        return str(self._stream.encoding)


@dataclass(frozen=True)
class CallRecord:
    """The effects of one call."""

    results: CallResults
    raised: str = ""
    """Type of the exception; empty if there was none."""
    message: str = ""
    random: dict[str, str] = field(default_factory=dict)
    """A digest of the state of each random number generator."""
    numbers: dict[str, str] = field(default_factory=dict)
    """Attributes and globals that the call changed: how a number changed, else the new value."""
    reached: dict[str, str] = field(default_factory=dict)
    """The same of all else that the call reaches; of a tensor, which is among the results, nothing."""
    traits: dict[str, str] = field(default_factory=dict)
    """What values do not show: strides, gradients and shared memory of tensors."""
    described: dict[str, str] = field(default_factory=dict)
    """What outputs are that are no numbers: text, devices, types of containers and objects."""
    uncompared: list[str] = field(default_factory=list)
    """Outputs that cannot be compared: `output[1] is a generator`."""
    unused: dict[str, bool] = field(default_factory=dict)
    """Of parameters and inputs in training: whether they have no gradient."""
    kinds: dict[str, str] = field(default_factory=dict)
    """Which attributes are numbers, and which are tensors."""
    stdout: str = ""
    stderr: str = ""

    def save(self, path: str) -> None:
        """Write the record to `path` and `path.json`. Raises OSError."""
        values = io.BytesIO()
        self.results.save(values)
        plain = {
            name: getattr(self, name)
            for name in (
                "reached",
                "raised",
                "message",
                "random",
                "numbers",
                "traits",
                "described",
                "uncompared",
                "unused",
                "kinds",
                "stdout",
                "stderr",
            )
        }
        put(path, values.getvalue())
        put(f"{path}.json", json.dumps(plain).encode())


def load_record(path: str) -> CallRecord:
    """Read what `CallRecord.save` wrote. Raises OSError, ValueError, and what torch.load raises."""
    with open(f"{path}.json", encoding="utf-8") as file:
        return CallRecord(results.load(path), **json.load(file))


def record_call(
    prepared: Prepared,
    names: Mapping[str, Any],
    streams: tuple[RecordingStream, RecordingStream],
    make: Callable[[], Any],
    *,
    roots: tuple[str, ...] = (),
    since: str = "",
    compiled: bool = False,
) -> tuple[CallRecord, Exception | None]:
    """Make one call and record its effects. `names`: the globals of the user's file. `roots`: folders of such files.

    `since`: as in `ReachableState`. `compiled`: it is compiled, so that nothing that it guards on may be replaced.
    Returns the record, and the exception that the call raised.
    """
    collector = results.ResultCollector(prepared, elements=_ELEMENTS, all_elements=_ALL_ELEMENTS)
    before = dict(_numbers(prepared, names))
    attributes, reachable = ChangedAttributes(prepared), ReachableState(prepared, names, roots, since=since)
    hooks = HookCounts(prepared) if not compiled else None
    error: Exception | None = None
    for stream in streams:
        stream.start()
    start = time.perf_counter()
    try:
        with recorded_constants() if compiled else contextlib.nullcontext():
            outputs = make()
    except Exception as raised:  # noqa: BLE001 - user code may raise anything, which is an effect like any other
        error, outputs = raised, None
    finally:
        seconds = time.perf_counter() - start
        stdout, stderr = (stream.stop() for stream in streams)
        if hooks is not None:
            hooks.stop()
    tensors, words = reachable.changes()
    words = without_durations(words, seconds, names)
    numbers = without_durations(number_changes(before, dict(_numbers(prepared, names))), seconds, names)
    for name, value in (*attributes.changed(), *tensors) if error is None else ():
        collector.add_value(f"{name}{CHANGED}", value)
    objects = OutputObjects(outputs)
    for name, value in objects.tensors:
        collector.add_value(name, value)
    counts = {name: str(count) for name, count in hooks.counts.items()} if hooks is not None else {}
    record = CallRecord(
        collector.outputs(outputs) if error is None else CallResults(),
        raised=type(error).__name__ if error is not None else "",
        message=first_line(getattr(error, "inner_exception", error))[:_SHOWN] if error is not None else "",
        random=random_digests(),
        numbers={**numbers, **counts},
        reached={**words, **dict.fromkeys((f"{name}{CHANGED}" for name, _ in tensors), "")},
        traits=output_traits(prepared, outputs),
        described=objects.texts,
        uncompared=objects.uncompared,
        unused=unused_gradients(prepared) if prepared.options.train and error is None else {},
        kinds=kinds_of(prepared),
        stdout=stdout,
        stderr=_PLACE.sub(": ", stderr),
    )
    return record, error


# Numbers that are no tensors


def _numbers(prepared: Prepared, names: Mapping[str, Any]) -> Iterator[tuple[str, float | str]]:
    """Attributes of modules, and globals of the file, that hold a number or a text.

    A tensor of one number counts as that: a change may make one of the other.
    """
    left = _NUMBERS
    for name, attribute in attributes_of(prepared):
        value = _number_in(attribute) if isinstance(attribute, torch.Tensor) else attribute
        if isinstance(value, (int, float, str)) and left > 0:
            left -= 1
            yield name, value
    for_torch = globals_of_dynamo(names)
    for name, value in list(names.items()):
        if isinstance(value, (int, float, str)) and not name.startswith("__") and name not in for_torch:
            yield f"global {name}", value


def _number_in(tensor: torch.Tensor) -> object:
    """The number of a tensor without dimensions in the memory of the CPU; else None."""
    is_number = tensor.dim() == 0 and tensor.device.type == "cpu" and not tensor.is_complex()
    return tensor.detach().item() if is_number and type(tensor) is torch.Tensor else None


# Generators and text


def random_digests() -> dict[str, str]:
    """What tells the states of the generators of Python, NumPy and torch apart, by name."""
    states: dict[str, Any] = {
        "random": repr(random.getstate()).encode(),
        "torch's generator": torch.get_rng_state().numpy().tobytes(),
    }
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        states["numpy.random"] = pickle.dumps(numpy.random.get_state())
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        states["torch.cuda's generator"] = b"".join(
            tensor.cpu().numpy().tobytes() for tensor in torch.cuda.get_rng_state_all()
        )
    return {name: hashlib.sha256(state).hexdigest()[:16] for name, state in states.items()}


def without_reached(record: CallRecord) -> CallRecord:
    """The record without what it shows of plain objects: a call may leave it as an equal call before has left it."""
    values = tuple(value for value in record.results.values if value.name not in record.reached)
    return replace(record, reached={}, results=replace(record.results, values=values))


def without_printed(record: CallRecord) -> CallRecord:
    """The record without its text."""
    return replace(record, stdout="", stderr="")
