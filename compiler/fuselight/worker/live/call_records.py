"""The effects of one call as data, and the comparison of two calls.

Invariant: a record is bounded in size and can be read by another process. Values are compared bit by bit first, then by
what rounding does (rounding); NaN equals NaN, and equals nothing else.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import json
import math
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
from fuselight.measure.accuracy.results import CHANGED, CallResults, Value
from fuselight.shared.report import Aspect, Difference
from fuselight.shared.report.failure import first_line
from fuselight.shared.report.verification import OTHER_ORDER
from fuselight.worker.child.state import put
from fuselight.worker.live.call_traits import (
    GRADIENT,
    MEMORY,
    STRIDES,
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
from fuselight.worker.live.rounding import (
    agrees_in_float64,
    is_measured_rounding,
    is_near,
    is_within_tolerance,
    largest_of,
    vanishes,
    vanishing_agree,
)

_ELEMENTS, _ALL_ELEMENTS = 1 << 19, 1 << 22
"""Most elements kept of one tensor, and of all tensors of one call."""
_PRINTED = 1 << 16
"""Most characters kept of each stream."""
_SHOWN = 80
_PLACE = re.compile(r":\d+: ")
"""The line number in a warning or a log line, which an edit may move."""
_SINGLE, _DOUBLE = "torch.float32", "torch.float64"
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


@dataclass(frozen=True)
class MeasuredRounding:
    """The same call of the old text in both modes: how far compiling moves its values."""

    eager: CallRecord
    compiled: CallRecord
    is_near: bool = False
    """Whether a difference counts that is only near that: what a comparison in float64 then decides."""

    def explains(self, new: Value, old: Value) -> bool:
        """Whether it explains the distance of two values that have one name, dtype and shape."""
        if self.is_near and old.dtype != _SINGLE:
            return replace(self, is_near=False).explains(new, old)
        eager, compiled = (_value_of(record, old) for record in (self.eager, self.compiled))
        ours, theirs = _flat(new.tensor), _flat(old.tensor)
        if self.is_near and is_near(ours, theirs):
            return True
        if eager is None or compiled is None:
            return False
        moved = _flat(eager.tensor), _flat(compiled.tensor)
        return is_measured_rounding(ours, theirs, *moved, old.dtype, is_near=self.is_near)


def has_float32(record: CallRecord) -> bool:
    """Whether a call gives float32 results, which the same call in float64 can explain."""
    return any(value.dtype == _SINGLE for value in record.results.values)


def agree_in_float64(
    new: CallRecord, old: CallRecord, single: CallRecord, *, vanishing_only: bool = False
) -> bool:
    """Whether each float32 result of a call is the same before and after a change when it is computed in float64.

    `single`: the call as it is. A result that is not float64 then has constants or conversions of float32: no answer.
    `vanishing_only`: whether only the elements of gradients that may be zero but for rounding are looked at.
    """
    if new.raised or old.raised:
        return False
    largest = _largest_gradient(old)
    for value in single.results.values:
        vanishing = _vanishing(value, single)
        is_whole = value.dtype == _SINGLE and not vanishing_only
        if not is_whole and not bool(vanishing.any()):
            continue
        wanted = replace(value, dtype=_DOUBLE)
        ours, theirs = (_value_of(record, wanted) for record in (new, old))
        if ours is None or theirs is None:
            return False
        flat = [_flat(known.tensor) for known in (ours, theirs, value)]
        if not vanishing_agree(flat[0][vanishing], flat[1][vanishing], largest):
            return False
        if is_whole and not agrees_in_float64(*flat):
            return False
    return True


def has_vanishing_gradients(record: CallRecord) -> bool:
    """Whether elements of gradients may be zero but for rounding, which the same call in float64 can show."""
    for value in filter(_is_gradient, record.results.values):
        vanishing = _vanishing(value, record)
        # Single zeros say nothing, as those of the rows of an embedding.
        if bool(vanishing.all()) or bool(_flat(value.tensor)[vanishing].any()):
            return True
    return False


def _vanishing(value: Value, record: CallRecord) -> torch.Tensor:
    """Which elements of a gradient may be zero but for rounding; none of any other value."""
    flat = _flat(value.tensor)
    if not _is_gradient(value):
        return torch.zeros_like(flat, dtype=torch.bool)
    return vanishes(flat, _largest_gradient(record), value.dtype)


def _largest_gradient(record: CallRecord) -> float:
    gradients = filter(_is_gradient, record.results.values)
    return max((largest_of(_flat(value.tensor)) for value in gradients), default=0.0)


def _is_gradient(value: Value) -> bool:
    return _aspect(value.name) is Aspect.GRADIENT and value.tensor.is_floating_point()


def _value_of(record: CallRecord, wanted: Value) -> Value | None:
    """The value of the same name; None if it has another dtype or shape."""
    kind = wanted.name, wanted.dtype, wanted.shape
    return next(
        (value for value in record.results.values if (value.name, value.dtype, value.shape) == kind), None
    )


def compare_records(
    new: CallRecord,
    old: CallRecord,
    *,
    compiled: bool,
    measured: MeasuredRounding | None = None,
    vanish: bool = False,
) -> tuple[Difference, ...]:
    """List the first difference of each aspect.

    `compiled`: `new` ran compiled, so that torch may print more. `measured`: for such a call, the rounding of the old
    text. `vanish`: whether elements of gradients that are near zero in both calls are rounding, which float64 decides.

    Without `measured`, a compiled call would be refused for adding in another order than both calls of the old text. It
    may be twice as far from the old text as the compiled and eager calls of that are from each other, the rule of
    torch's benchmark suite.
    """
    if new.raised != old.raised:
        return (Difference(Aspect.EXCEPTION, _exceptions(new, old)),)
    differences: list[Difference] = []
    if not new.raised:
        differences += _values(new, old, measured, _largest_gradient(old) if vanish else 0.0)
        differences += _described_differences(new, old)
        differences += _gradient_differences(new, old)
        differences += _unused_differences(new, old)
        differences += _kind_differences(new, old)
        differences += () if compiled else _trait_differences(new, old)
    differences += _number_differences(new, old)
    differences += _change_differences(new.reached, old.reached)
    for name in sorted(new.random.keys() & old.random.keys()):
        if new.random[name] != old.random[name]:
            differences.append(Difference(Aspect.RANDOM, f"the state of {name} differs after the call"))
    printed = _first_line_that_differs(old.stdout, new.stdout)
    if not printed and compiled:
        missing = _missing_line(old.stderr, new.stderr)
        printed = f"no longer prints `{missing}`" if missing else ""
    elif not printed:
        printed = _first_line_that_differs(old.stderr, new.stderr)
    if printed:
        differences.append(Difference(Aspect.PRINTED, printed))
    return tuple(_first_of_each_aspect(differences))


def _first_of_each_aspect(differences: list[Difference]) -> Iterator[Difference]:
    """Keep the first real difference of each aspect, else the first that is rounding."""
    kept: dict[Aspect, Difference] = {}
    for difference in sorted(differences, key=lambda difference: difference.rounding):
        kept.setdefault(difference.aspect, difference)
    yield from kept.values()


def _exceptions(new: CallRecord, old: CallRecord) -> str:
    if not new.raised:
        return f"no longer raises {old.raised}"
    raised = f"raises {new.raised}: {new.message}"
    return f"{raised}, instead of {old.raised}" if old.raised else raised


def _values(
    new: CallRecord, old: CallRecord, measured: MeasuredRounding | None, largest_gradient: float
) -> Iterator[Difference]:
    ours = {value.name: value for value in new.results.values}
    theirs = {value.name: value for value in old.results.values}
    numbers = [name for name, kind in old.kinds.items() if kind == "a number"]
    as_number = {f"{owner}{name}{CHANGED}" for name in (*numbers, *old.numbers) for owner in ("", "buffer ")}
    for name, value in theirs.items():
        if name not in ours:
            yield Difference(Aspect.STRUCTURE, f"{name} is missing")
            continue
        difference = _compare_values(ours[name], value, measured, largest_gradient)
        if difference is not None:
            yield difference
    for name in ours:
        if name not in theirs and name not in as_number:
            yield Difference(Aspect.STRUCTURE, f"{name} is new")
    if new.results.skipped != old.results.skipped:
        lists = (", ".join(record.results.skipped) or "none" for record in (old, new))
        yield Difference(Aspect.STRUCTURE, "values of other types were {}, are {}".format(*lists))


def _compare_values(
    new: Value, old: Value, measured: MeasuredRounding | None, largest_gradient: float
) -> Difference | None:
    """Compare one tensor or number; None if every bit is equal, except for the payload of a NaN.

    `largest_gradient`: next to it, elements of gradients that are near zero are rounding.
    """
    aspect = _aspect(old.name)
    if (new.dtype, new.shape) != (old.dtype, old.shape):
        return Difference(Aspect.STRUCTURE, f"{old.name} was {_kind(old)}, is {_kind(new)}")
    ours, theirs = _flat(new.tensor), _flat(old.tensor)
    if torch.equal(ours, theirs) and (
        not ours.is_floating_point() or torch.equal(ours.signbit(), theirs.signbit())
    ):
        return None
    if not ours.is_floating_point():
        return Difference(aspect, _first_element(old, ours, theirs, ours != theirs))
    equal = (ours == theirs) & (ours.signbit() == theirs.signbit()) | ours.isnan() & theirs.isnan()
    if bool(equal.all()):
        return None
    close = is_within_tolerance(ours, theirs, old.dtype) | equal
    if _is_gradient(old) and largest_gradient:
        near_zero = (vanishes(gradient, largest_gradient, old.dtype) for gradient in (ours, theirs))
        close |= functools.reduce(torch.logical_and, near_zero)
    rounding = bool(close.all()) or (measured is not None and measured.explains(new, old))
    return Difference(aspect, _first_element(old, ours, theirs, ~equal if rounding else ~close), rounding)


def _aspect(name: str) -> Aspect:
    if name.startswith("gradient of "):
        return Aspect.GRADIENT
    return Aspect.STATE if name.endswith(CHANGED) else Aspect.OUTPUT


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """The elements in one dimension: floating-point ones in float64, pairs of numbers for complex ones."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.to(torch.complex128))
    return (tensor.double() if tensor.is_floating_point() else tensor).reshape(-1)


def _first_element(value: Value, ours: torch.Tensor, theirs: torch.Tensor, wrong: torch.Tensor) -> str:
    index = int(wrong.nonzero()[0])
    was, now = (_element(tensor[index]) for tensor in (theirs, ours))
    count, total = int(wrong.sum()), wrong.numel()
    place = ""
    if value.sampled:
        place = "a sampled element "
    elif value.shape:
        place = f"element {list(_position(index * math.prod(value.shape) // total, value.shape))} "
    more = f" ({count:,} of {total:,} differ)" if total > 1 else ""
    return f"{value.name}: {place}was {was}, is {now}{more}"


def _position(index: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The index of an element, by dimension."""
    positions: list[int] = []
    for size in reversed(shape):
        index, last = divmod(index, size)
        positions.append(last)
    return tuple(reversed(positions))


def _element(tensor: torch.Tensor) -> str:
    value = tensor.item()
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _kind(value: Value) -> str:
    dtype = value.dtype.removeprefix("torch.")
    return f"{dtype}[{', '.join(map(str, value.shape))}]" if value.dtype.startswith("torch.") else dtype


def _described_differences(new: CallRecord, old: CallRecord) -> Iterator[Difference]:
    for words in (*old.uncompared, *new.uncompared):
        yield Difference(Aspect.STRUCTURE, f"{words}, which cannot be compared")
    for name in {**old.described, **new.described}:
        was, now = old.described.get(name), new.described.get(name)
        if was != now:
            was, now = ((text or "a number")[:_SHOWN] for text in (was, now))
            yield Difference(Aspect.OUTPUT, f"{name} was {was}, is {now}")


def _gradient_differences(new: CallRecord, old: CallRecord) -> Iterator[Difference]:
    for name in filter(new.traits.__contains__, old.traits):
        was, now = old.traits[name], new.traits[name]
        if name.endswith(GRADIENT) and was != now:
            yield Difference(
                Aspect.GRADIENT, f"the gradient of {name.removesuffix(GRADIENT)} was {was}, is {now}"
            )


def _unused_differences(new: CallRecord, old: CallRecord) -> Iterator[Difference]:
    for name in filter(new.unused.__contains__, old.unused):
        if old.unused[name] != new.unused[name]:
            was, now = ("None" if unused else "zeros" for unused in (old.unused[name], new.unused[name]))
            yield Difference(Aspect.UNUSED_GRADIENT, f"the gradient of {name} was {was}, is {now}")


def _kind_differences(new: CallRecord, old: CallRecord) -> Iterator[Difference]:
    for name in filter(new.kinds.__contains__, old.kinds):
        if old.kinds[name] != new.kinds[name]:
            yield Difference(Aspect.KIND, f"{name} was {old.kinds[name]}, is {new.kinds[name]}")


def _trait_differences(new: CallRecord, old: CallRecord) -> Iterator[Difference]:
    for name in filter(new.traits.__contains__, old.traits):
        was, now = old.traits[name], new.traits[name]
        if was != now and not name.endswith(GRADIENT):
            was, now = was[:_SHOWN], now[:_SHOWN]
            if name.endswith(MEMORY):
                words = f"{name.removesuffix(MEMORY)} shared memory with {was}, and now with {now}"
                yield Difference(Aspect.MEMORY, words)
            else:
                output = name.removesuffix(STRIDES)
                yield Difference(Aspect.STRIDES, f"the strides of {output} were {was}, are {now}")


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


def _number_differences(new: CallRecord, old: CallRecord) -> Iterator[Difference]:
    buffers = {value.name for value in new.results.values}
    became = {name for name in old.numbers if f"buffer {name}{CHANGED}" in buffers}
    before = {
        name: change for name, change in old.numbers.items() if name in new.numbers or name not in became
    }
    yield from _change_differences(new.numbers, before)


def _change_differences(new: Mapping[str, str], old: Mapping[str, str]) -> Iterator[Difference]:
    for name in {**old, **new}:
        was, now = old.get(name), new.get(name)
        if was == now:
            continue
        words = [change_words(text) for text in (was, now)]
        yield Difference(Aspect.STATE, f"{name} {words[0]} in the old text, {words[1]} in the new text")


def change_words(change: str | None) -> str:
    """`changes by +1`, `becomes a tensor`, `stays as it is` without a change."""
    if not change:
        return "stays as it is"
    return f"changes by {change}" if change[0] in "+-" else f"becomes {change}"


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


def _first_line_that_differs(old: str, new: str) -> str:
    if old == new:
        return ""
    was, now = old.splitlines(), new.splitlines()
    if was != now and sorted(was) == sorted(now):
        return OTHER_ORDER
    for number in range(max(len(was), len(now))):
        before, after = (lines[number] if number < len(lines) else None for lines in (was, now))
        if before == after:
            continue
        if after is None:
            return f"no longer prints `{_short(before)}`"
        if before is None:
            return f"also prints `{_short(after)}`"
        return f"printed `{_short(before)}`, prints `{_short(after)}`"
    return "prints other line ends"


def _missing_line(old: str, new: str) -> str:
    left = new.splitlines()
    for line in old.splitlines():
        if line not in left:
            return _short(line)
        left.remove(line)
    return ""


def _short(line: str | None) -> str:
    return (line or "")[:_SHOWN]


def without_reached(record: CallRecord) -> CallRecord:
    """The record without what it shows of plain objects: a call may leave it as an equal call before has left it."""
    values = tuple(value for value in record.results.values if value.name not in record.reached)
    return replace(record, reached={}, results=replace(record.results, values=values))


def without_printed(record: CallRecord) -> CallRecord:
    """The record without its text."""
    return replace(record, stdout="", stderr="")
