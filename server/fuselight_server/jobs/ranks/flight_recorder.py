"""Dumps of torch's flight recorder next to the logs: in which collective each rank waits.

Those that `fuselight run` has a rank write also have where its main thread is, and how the rank ended.

Invariant: a dump is a file of others: its size is bounded, a pickle is read by `plain_pickle` alone, and what does not
have the form of a dump is ignored. Of ranks without a dump nothing is said but that.
"""

from __future__ import annotations

import collections
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fuselight.shared.foreign_data import parse_json
from fuselight.shared.foreign_files import open_regular
from fuselight.shared.report import Location
from fuselight.shared.report.visible import one_line
from fuselight_server.base.rank_words import ranks_in_words
from fuselight_server.jobs.ranks.model import CollectiveWait
from fuselight_server.jobs.ranks.plain_pickle import NotPlainError, load_plain
from fuselight_server.jobs.trace_log.libraries import is_generated, is_library

MAX_DUMP = 64 << 20
MAX_DUMPS = 20_000
_NAME = re.compile(r"(?=.*(?:trace|flight|recorder|fr_)).*?(?P<rank>\d{1,7})(?:\.(?:json|pkl|pickle|bin))?$")
_COMPILED_BELOW = "/torch/_dynamo/eval_frame.py"
"""Calls a graph from the function that was compiled."""
_RESUME = re.compile(r"(?:torch_dynamo_resume_in_)+(?P<name>\w+?)_at_\d+(?:_at_\d+)*")
_LOG = re.compile(r"\.log(?:\.gz)?$")
_PICKLE = b"\x80"
_MAX_FRAMES = 200
_MAX_TEXT = 4096
"""Characters of a text of a dump that are read: torch's longest are paths."""
_MAX_PARTS = 4
"""Parts of the name of a process group."""


@dataclass(frozen=True, slots=True)
class RecordedCollective:
    """A collective that a rank has started."""

    group: str
    sequence: int
    name: str
    is_done: bool
    location: Location | None
    is_in_graph: bool = False
    """Whether a compiled graph calls it: the line is then the first one of the graph's function."""


@dataclass(frozen=True, slots=True)
class WaitingCall:
    """The function of torch.distributed in which a rank has been for a while: gloo records no send and no receive."""

    name: str
    peer: int | None
    """The other rank of a send or receive."""


@dataclass(frozen=True, slots=True)
class FlightDump:
    """The flight recorder of a rank."""

    rank: int
    collectives: tuple[RecordedCollective, ...]
    """In the order of their start; the recorder keeps the last ones."""
    members: Mapping[str, frozenset[int]]
    """The ranks of each process group, where the dump has them."""
    position: Location | None = None
    """The user's line of the main thread; None if the dump has no stack of it."""
    call: WaitingCall | None = None
    ended: str = ""
    """`ended`, or the exception that ended the rank; empty while it runs."""

    @property
    def open(self) -> RecordedCollective | None:
        """The first collective that has started and not ended."""
        return next((item for item in self.collectives if not item.is_done), None)

    @property
    def waits(self) -> bool:
        """Whether the rank waits."""
        return self.open is not None or self.call is not None

    def started(self, group: str, sequence: int) -> str:
        """What it started as a collective of a group; empty if it did not, or the recorder no longer has it."""
        names = (item.name for item in self.collectives if (item.group, item.sequence) == (group, sequence))
        return next(names, "")

    def last(self, group: str) -> int:
        """The number of the last collective that the rank has started in a group; 0 without one."""
        return max((item.sequence for item in self.collectives if item.group == group), default=0)


@dataclass(frozen=True)
class DumpPlace:
    """Where the user has torch write its dumps, maybe among those of other jobs, as may be the folder of the logs."""

    start: str
    """The start of their paths, to which torch appends the rank; empty if the user named none."""
    since: float
    """Seconds since the epoch: older files are of other jobs."""

    def files(self) -> Iterator[tuple[str, int]]:
        """Yield the path and the rank of each."""
        if not self.start:
            return
        start = Path(self.start).absolute()
        try:
            for path in sorted(start.parent.iterdir()):
                number = path.name.removeprefix(start.name)
                is_dump = path.name.startswith(start.name) and number.isascii() and number.isdecimal()
                if is_dump and path.stat().st_mtime >= self.since:
                    yield str(path), int(number)
        except OSError:
            return


def read_dumps(folders: Iterable[str], place: DumpPlace | None = None) -> list[FlightDump]:
    """The dumps in some folders and at a place of the user, by rank; one for each rank, the newest by name."""
    dumps: dict[int, FlightDump] = {}
    elsewhere = place.files() if place is not None else ()
    since = place.since if place is not None else None
    for path, rank in itertools.chain(_candidates(folders, since), itertools.islice(elsewhere, MAX_DUMPS)):
        dump = _read(path, rank)
        if dump is not None:
            dumps[rank] = dump
    return [dumps[rank] for rank in sorted(dumps)]


def _candidates(folders: Iterable[str], since: float | None) -> Iterator[tuple[str, int]]:
    """The files whose names are those of dumps; `since`: only newer ones, in seconds since the epoch."""
    count = 0
    for folder in dict.fromkeys(folders):
        try:
            entries = [
                entry for entry in os.scandir(folder) if since is None or entry.stat().st_mtime >= since
            ]
            names = sorted(entry.name for entry in entries)
        except OSError:
            continue
        for name in names:
            match = None if _LOG.search(name) else _NAME.match(name)
            if match is not None:
                count += 1
                if count > MAX_DUMPS:
                    return
                yield str(Path(folder, name)), int(match["rank"])


def _read(path: str, rank: int) -> FlightDump | None:
    try:
        with open_regular(path) as file:
            data = file.read(MAX_DUMP + 1)
    except OSError:
        return None
    if len(data) > MAX_DUMP:
        return None
    try:
        body = load_plain(data) if data.startswith(_PICKLE) else parse_json(data)
        return _dump(body, rank)
    except (
        NotPlainError,
        ValueError,
        TypeError,
        KeyError,
        IndexError,
        AttributeError,
        OverflowError,
        RecursionError,
    ):
        return None


def _text(value: Any) -> str:
    """A text or a number of a dump. Raises TypeError: the text of a list would contain all that the list contains."""
    if isinstance(value, str):
        return one_line(value[:_MAX_TEXT])
    if isinstance(value, int | float):
        return str(value)
    raise TypeError("neither a text nor a number")


def _dump(body: Any, rank: int) -> FlightDump | None:
    if not isinstance(body, dict) or not isinstance(body.get("entries"), list) or "version" not in body:
        return None
    entries = [_collective(entry) for entry in body["entries"] if not entry.get("is_p2p")]
    call = body.get("call")
    return FlightDump(
        rank,
        tuple(entries),
        _members(body, entries),
        _location(body.get("stack") or ()),
        None if call is None else WaitingCall(_text(call["name"]), call["peer"] and int(call["peer"])),
        _text(body.get("ended", "")),
    )


def _collective(entry: Mapping[str, Any]) -> RecordedCollective:
    group = entry.get("process_group") or (entry.get("pg_id", ""),)
    is_done = entry.get("state") == "completed" or bool(entry.get("retired"))
    name = _text(entry.get("profiling_name", "")).rpartition(":")[2] or "a collective"
    return RecordedCollective(
        " ".join(part for part in map(_text, group[:_MAX_PARTS]) if part not in {"", "undefined"}),
        int(entry["collective_seq_id"]),
        name,
        is_done,
        *_place(entry.get("frames") or ()),
    )


def _location(frames: Sequence[Mapping[str, Any]]) -> Location | None:
    """The innermost frame outside of libraries; the dump has the innermost first."""
    return _place(frames)[0]


def _place(frames: Sequence[Mapping[str, Any]]) -> tuple[Location | None, bool]:
    """The same, and whether it is a function that Dynamo has compiled, whose graph is the next frame."""
    inner = ""
    for frame in frames[:_MAX_FRAMES]:
        path = _text(frame["filename"])
        if not (is_library(path) or path.startswith("<") or is_generated(path)):
            name = _text(frame["name"])
            resumed = _RESUME.fullmatch(name)
            place = Location(path, int(frame["line"]), function=resumed["name"] if resumed else name)
            return place, inner.endswith(_COMPILED_BELOW) or is_generated(inner)
        inner = path.replace("\\", "/")
    return None, False


def _members(body: Mapping[str, Any], entries: Sequence[RecordedCollective]) -> dict[str, frozenset[int]]:
    configurations = body.get("pg_config") or {}
    only = configurations.get("") if len(configurations) == 1 else None
    groups = {entry.group: entry.group.split(" ")[0] for entry in entries}
    ranks = {key: _ranks(configurations.get(key) or only) for key in set(groups.values())}
    return {group: ranks[key] for group, key in groups.items() if ranks[key]}


def _ranks(configuration: Mapping[str, Any] | None) -> frozenset[int]:
    """The ranks that a process group is configured with: torch writes a list as a text."""
    if configuration is None:
        return frozenset()
    return frozenset(map(int, parse_json(_whole_text(configuration.get("ranks", "[]")) or "[]")))


def _whole_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def waits_of(dumps: Sequence[FlightDump]) -> tuple[CollectiveWait, ...]:
    """The collective that each rank has started and not finished, one entry for ranks in the same one.

    Those that wait for a rank that does not wait itself come first: the others can follow from them.
    """
    waiting: dict[RecordedCollective, list[int]] = collections.defaultdict(list)
    calling: dict[tuple[WaitingCall, Location | None], list[int]] = collections.defaultdict(list)
    for dump in dumps:
        item = dump.open
        if item is not None:
            waiting[item].append(dump.rank)
        elif dump.call is not None:
            calling[dump.call, dump.position].append(dump.rank)
    waits = [
        *(_wait(item, ranks, dumps) for item, ranks in waiting.items()),
        *(_wait_in_call(call, place, ranks, dumps) for (call, place), ranks in calling.items()),
    ]
    return tuple(wait for _, wait in sorted(waits, key=lambda pair: pair[0]))


def _wait(
    item: RecordedCollective, ranks: list[int], dumps: Sequence[FlightDump]
) -> tuple[bool, CollectiveWait]:
    """The wait, and whether all ranks that it waits for wait as well."""
    group, sequence, name = item.group, item.sequence, item.name
    members = frozenset(rank for dump in dumps for rank in dump.members.get(group, ()))
    known = {dump.rank for dump in dumps}
    others = [dump for dump in dumps if dump.rank not in ranks and (dump.rank in members or not members)]
    behind = [dump for dump in others if dump.last(group) < sequence]
    where = ", in the graph that starts on this line" if item.is_in_graph else ""
    message = f"{_wait_words(ranks)} in `{name}` (number {sequence} of group `{group}`{where})"
    instead: dict[str, list[int]] = collections.defaultdict(list)
    for dump in others:
        if dump.started(group, sequence) not in {"", name}:
            instead[dump.started(group, sequence)].append(dump.rank)
    for other, odd in instead.items():
        message += f", for which {ranks_in_words(odd)} {_verb(odd, 'call')} `{other}`"
    if behind:
        numbers = [dump.rank for dump in behind]
        message += f", which {ranks_in_words(numbers)} {_verb(numbers, 'have')} not started"
        message += "".join(_end_words(behind))
    missing = sorted(members - known)
    if missing:
        message += f"; {ranks_in_words(missing)} {_verb(missing, 'have')} no dump"
    concerned = [dump for dump in others if dump in behind or dump.started(group, sequence) not in {"", name}]
    wait = CollectiveWait(
        tuple(ranks), name, sequence, group, item.location, message, tuple(_positions(concerned))
    )
    return all(dump.waits for dump in concerned), wait


def _wait_in_call(
    call: WaitingCall, place: Location | None, ranks: list[int], dumps: Sequence[FlightDump]
) -> tuple[bool, CollectiveWait]:
    """The same of a call that the recorder does not have: the other rank is known of a send and of a receive alone."""
    message = f"{_wait_words(ranks)} in `{call.name}`"
    others = [dump for dump in dumps if dump.rank == call.peer]
    if call.peer is not None:
        message += f" {'to' if 'send' in call.name else 'from'} rank {call.peer}"
        message += "".join(_end_words(others))
    wait = CollectiveWait(tuple(ranks), call.name, None, "", place, message, tuple(_positions(others)))
    return all(dump.waits for dump in others), wait


def _wait_words(ranks: Sequence[int]) -> str:
    return f"{ranks_in_words(ranks)} {_verb(ranks, 'wait')}"


def _verb(ranks: Sequence[int], verb: str) -> str:
    return verb if len(ranks) > 1 else {"have": "has"}.get(verb, f"{verb}s")


def _end_words(dumps: Sequence[FlightDump]) -> Iterator[str]:
    """`; rank 1 has ended` of those that have."""
    ends: dict[str, list[int]] = collections.defaultdict(list)
    for dump in dumps:
        if dump.ended:
            ends[dump.ended].append(dump.rank)
    for end, ranks in ends.items():
        how = "" if end == _ENDED else f" by {end}"
        yield f"; {ranks_in_words(ranks)} {_verb(ranks, 'have')} ended{how}"


_ENDED = "ended"


def _positions(dumps: Sequence[FlightDump]) -> Iterator[tuple[Location, str]]:
    """Where other ranks are."""
    places: dict[tuple[Location, str, str], list[int]] = collections.defaultdict(list)
    for dump in dumps:
        item = dump.open
        place = dump.position if item is None or item.location is None else item.location
        name = item.name if item is not None else dump.call.name if dump.call is not None else ""
        if place is not None:
            places[place, name, dump.ended].append(dump.rank)
    for (place, name, ended), ranks in places.items():
        verbs = {"": "are", _ENDED: "were"} if len(ranks) > 1 else {"": "is", _ENDED: "was"}
        where = f"{_verb(ranks, 'wait')} in `{name}` here" if name else f"{verbs.get(ended, 'ended')} here"
        yield place, f"{ranks_in_words(ranks)} {where}"
