"""A snapshot of torch's caching allocator, from its pickle.

Invariant: a snapshot is a file of others. It is read by `plain_pickle` alone, and a value of another kind than torch
writes is an error of the whole file. Equal stacks are one object, so that a million events need few bytes each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from fuselight.shared.report.visible import one_line
from fuselight_server.jobs.ranks.plain_pickle import NotPlainError, PlainLimits, RecordKind, load_plain

_LIMITS = PlainLimits(nodes=16_000_000, seconds=120.0)
_MAX_TEXT = 4096
"""Characters of a path or a name that are kept."""
_MAX_FRAMES = 400
_MAX_NUMBER = (1 << 64) - 1
_MAX_SETTINGS = 100
_MAX_BLOCKS = 4_000_000
_ACTIONS = {
    name: name
    for name in (
        *("alloc", "free_requested", "free_completed", "oom", "snapshot"),
        *("segment_alloc", "segment_free", "segment_map", "segment_unmap"),
    )
}


class SnapshotError(ValueError):
    """The file is not a snapshot: the message says why."""


class SnapshotFrame(NamedTuple):
    """A frame of a Python stack, with its path on the job's machine."""

    path: str
    line: int
    function: str


class CallStack:
    """The stack of an allocation, innermost frame first; equal stacks of a snapshot are the same object."""

    __slots__ = ("frames",)

    def __init__(self, frames: tuple[SnapshotFrame, ...]) -> None:
        self.frames = frames


NO_STACK = CallStack(())


class AllocatorEvent(NamedTuple):
    """What the allocator did."""

    action: str
    """As torch names it: `alloc`, `free_requested`, `oom`, ..."""
    address: int
    """Of an `oom`: the bytes that the device reports as free."""
    size: int
    """Bytes that were asked for."""
    time_us: int | None
    """Microseconds since the epoch."""
    stack: CallStack


class Block(NamedTuple):
    """A part of a segment."""

    address: int | None
    """None in snapshots of earlier releases."""
    size: int
    requested: int
    state: str
    stack: CallStack

    @property
    def is_allocated(self) -> bool:
        """Whether a tensor uses it."""
        return self.state == "active_allocated"

    @property
    def is_free(self) -> bool:
        """Whether it can be given to a tensor."""
        return self.state == "inactive"


class Segment(NamedTuple):
    """Memory that the allocator has from the driver."""

    device: int
    address: int
    total: int
    blocks: tuple[Block, ...]
    is_expandable: bool


@dataclass(frozen=True)
class AllocatorSnapshot:
    """The state of the allocator of one process, and what led to it."""

    segments: tuple[Segment, ...]
    traces: tuple[tuple[AllocatorEvent, ...], ...]
    """Of each device, the earliest first; empty where no history was recorded."""
    settings: Mapping[str, str]
    """The allocator's, as texts."""


def parse_snapshot(data: bytes) -> AllocatorSnapshot:
    """The snapshot in a pickle. Raises SnapshotError."""
    records = _Records()
    try:
        body = load_plain(data, limits=_LIMITS, compactor=records)
    except NotPlainError as error:
        raise SnapshotError(str(error)) from None
    except (TypeError, KeyError, ValueError, OverflowError) as error:
        raise SnapshotError(f"a value is not of a kind that torch writes: {error}") from None
    if not isinstance(body, dict) or not isinstance(body.get("segments"), list):
        raise SnapshotError("the pickle has no `segments`: it is not from `torch.cuda.memory._dump_snapshot`")
    traces = body.get("device_traces") or []
    if not isinstance(traces, list) or not all(isinstance(trace, list) for trace in traces):
        raise SnapshotError("`device_traces` is not a list for each device")
    events = tuple(tuple(_all_of(AllocatorEvent, trace)) for trace in traces)
    return AllocatorSnapshot(
        tuple(_all_of(Segment, body["segments"])),
        events,
        _settings(body.get("allocator_settings")),
    )


def _all_of(kind: type[Any], items: Iterable[Any]) -> Iterable[Any]:
    for item in items:
        if type(item) is not kind:
            raise SnapshotError(f"a record is not of the form that torch writes: {kind.__name__} expected")
        yield item


def _settings(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    texts = [(key, item) for key, item in value.items() if isinstance(item, str | int | float)]
    return {str(key)[:_MAX_TEXT]: one_line(str(item)[:_MAX_TEXT]) for key, item in texts[:_MAX_SETTINGS]}


class _Records:
    """Makes records of the dicts of a snapshot while it is read (plain_pickle.Compactor)."""

    def __init__(self) -> None:
        self._frames: dict[tuple[str, int, str], SnapshotFrame] = {}
        self._stacks: dict[tuple[int, ...], CallStack] = {}
        self._texts: dict[str, str] = {}
        self._blocks = 0

    def kind_of(self, keys: tuple[Any, ...]) -> RecordKind | None:
        """As in Compactor."""
        for key, kind in (
            (
                "action",
                RecordKind(("action", "addr", "device_free", "size", "time_us", "frames"), self._event),
            ),
            ("filename", RecordKind(("filename", "line", "name"), self._frame)),
            (
                "blocks",
                RecordKind(("device", "address", "total_size", "blocks", "is_expandable"), self._segment),
            ),
            (
                "state",
                RecordKind(("address", "size", "requested_size", "state", "frames", "history"), self._block),
            ),
        ):
            if key in keys:
                return kind
        return None

    def list_in_record(self, values: list[Any]) -> Any:
        """As in Compactor."""
        return self._stack(values) if values and type(values[0]) is SnapshotFrame else values

    def _event(  # noqa: PLR0917 - as torch has them
        self, action: Any, address: Any, device_free: Any, size: Any, time_us: Any, frames: Any
    ) -> AllocatorEvent:
        known = _ACTIONS.get(action) if type(action) is str else None
        return AllocatorEvent(
            known or self._text(action),
            _integer(device_free if address is None else address),
            _integer(size),
            None if time_us is None else _integer(time_us),
            frames if type(frames) is CallStack else self._stack(frames),
        )

    def _frame(self, path: Any, line: Any, function: Any) -> SnapshotFrame:
        frame = SnapshotFrame(self._text(path), _integer(line or 0), self._text(function or ""))
        return self._frames.setdefault((frame.path, frame.line, frame.function), frame)

    def _block(  # noqa: PLR0917 - as torch has them
        self, address: Any, size: Any, requested: Any, state: Any, frames: Any, history: Any
    ) -> Block:
        if frames is None and type(history) is list and history and type(history[0]) is dict:
            frames = history[0].get("frames")  # of torch before 2.1
        return Block(
            None if address is None else _integer(address),
            _integer(size),
            _integer(size if requested is None else requested),
            self._text(state),
            self._stack(frames),
        )

    def _segment(self, device: Any, address: Any, total: Any, blocks: Any, is_expandable: Any) -> Segment:
        if type(blocks) is not list:
            raise SnapshotError("`blocks` is not a list")
        self._blocks += len(blocks)
        if self._blocks > _MAX_BLOCKS:  # one list may be that of many segments
            raise SnapshotError(f"it has more than {_MAX_BLOCKS:,} blocks")
        kept = tuple(_all_of(Block, blocks))
        return Segment(
            _integer(device or 0), _integer(address or 0), _integer(total), kept, is_expandable is True
        )

    def _stack(self, frames: Any) -> CallStack:
        if type(frames) is CallStack:
            return frames
        if not frames:
            return NO_STACK
        if type(frames) is not list:
            raise SnapshotError("`frames` is not a list")
        kept = tuple(_all_of(SnapshotFrame, frames[:_MAX_FRAMES]))
        key = tuple(map(id, kept))
        stack = self._stacks.get(key)
        if stack is None:
            stack = self._stacks[key] = CallStack(kept)
        return stack

    def _text(self, value: Any) -> str:
        if type(value) is not str:
            raise SnapshotError("a name or a path is not a text")
        known = self._texts.get(value)
        if known is None:
            known = self._texts[value] = one_line(value[:_MAX_TEXT])
        return known


def _integer(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _MAX_NUMBER:
        raise SnapshotError("a size, an address or a line is not a number as torch writes them")
    return value
