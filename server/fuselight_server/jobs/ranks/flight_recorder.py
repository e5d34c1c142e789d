"""Dumps of torch's flight recorder next to the logs: in which collective each rank waits.

Invariant: a dump is a file of others: its size is bounded, a pickle is read by `plain_pickle` alone, and what does not
have the form of a dump is ignored. Of ranks without a dump nothing is said but that.
"""

from __future__ import annotations

import collections
import itertools
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuselight.shared.foreign_files import open_regular
from fuselight.shared.report import Location
from fuselight_server.base.rank_words import ranks_in_words
from fuselight_server.jobs.ranks.model import CollectiveWait
from fuselight_server.jobs.ranks.plain_pickle import NotPlainError, load_plain
from fuselight_server.jobs.trace_log.libraries import is_library

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

MAX_DUMP = 64 << 20
MOST_DUMPS = 20_000
_NAME = re.compile(r"(?=.*(?:trace|flight|recorder|fr_)).*?(?P<rank>\d{1,7})(?:\.(?:json|pkl|pickle|bin))?$")
_GENERATED = re.compile(r"/(?P<folder>[a-z0-9]{2})/c(?P=folder)[a-z2-7]{20,}\.py$")
"""Inductor's own modules in its cache: the frames around them have the user's line."""
_LOG = re.compile(r"\.log(?:\.gz)?$")
_PICKLE = b"\x80"
_MOST_FRAMES = 200


@dataclass(frozen=True, slots=True)
class RecordedCollective:
    """A collective that a rank has started."""

    group: str
    sequence: int
    name: str
    is_done: bool
    location: Location | None


@dataclass(frozen=True, slots=True)
class FlightDump:
    """The flight recorder of a rank."""

    rank: int
    collectives: tuple[RecordedCollective, ...]
    """In the order of their start; the recorder keeps the last ones."""
    members: Mapping[str, frozenset[int]]
    """The ranks of each process group, where the dump has them."""

    def last(self, group: str) -> int:
        """The number of the last collective that the rank has started in a group; 0 without one."""
        return max((item.sequence for item in self.collectives if item.group == group), default=0)


@dataclass(frozen=True)
class DumpPlace:
    """Where the user has torch write its dumps, maybe among those of other jobs."""

    start: str
    """The start of their paths, to which torch appends the rank."""
    since: float
    """Seconds since the epoch: older files are of other jobs."""

    def files(self) -> Iterator[tuple[str, int]]:
        """Yield the path and the rank of each."""
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
    for path, rank in itertools.chain(_candidates(folders), itertools.islice(elsewhere, MOST_DUMPS)):
        dump = _read(path, rank)
        if dump is not None:
            dumps[rank] = dump
    return [dumps[rank] for rank in sorted(dumps)]


def _candidates(folders: Iterable[str]) -> Iterator[tuple[str, int]]:
    count = 0
    for folder in dict.fromkeys(folders):
        try:
            names = sorted(entry.name for entry in Path(folder).iterdir())
        except OSError:
            continue
        for name in names:
            match = None if _LOG.search(name) else _NAME.match(name)
            if match is not None:
                count += 1
                if count > MOST_DUMPS:
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
        body = load_plain(data) if data.startswith(_PICKLE) else json.loads(data)
        return _dump(body, rank)
    except (NotPlainError, ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        return None


def _dump(body: Any, rank: int) -> FlightDump | None:
    if not isinstance(body, dict) or not isinstance(body.get("entries"), list) or "version" not in body:
        return None
    entries = [_collective(entry) for entry in body["entries"] if not entry.get("is_p2p")]
    return FlightDump(rank, tuple(entries), _members(body, entries))


def _collective(entry: Mapping[str, Any]) -> RecordedCollective:
    group = entry.get("process_group") or (str(entry.get("pg_id", "")),)
    is_done = entry.get("state") == "completed" or bool(entry.get("retired"))
    name = str(entry.get("profiling_name", "")).rpartition(":")[2] or "a collective"
    return RecordedCollective(
        " ".join(str(part) for part in group if str(part) not in {"", "undefined"}),
        int(entry["collective_seq_id"]),
        name,
        is_done,
        _location(entry.get("frames") or ()),
    )


def _location(frames: Sequence[Mapping[str, Any]]) -> Location | None:
    """The innermost frame outside of libraries; the dump has the innermost first."""
    for frame in frames[:_MOST_FRAMES]:
        path = str(frame["filename"])
        if not (is_library(path) or path.startswith("<") or _GENERATED.search(path.replace("\\", "/"))):
            return Location(path, int(frame["line"]), function=str(frame["name"]))
    return None


def _members(body: Mapping[str, Any], entries: Sequence[RecordedCollective]) -> dict[str, frozenset[int]]:
    members: dict[str, frozenset[int]] = {}
    configurations = body.get("pg_config") or {}
    for group in {entry.group for entry in entries}:
        key = group.split(" ")[0]
        configuration = configurations.get(key) or (
            configurations.get("") if len(configurations) == 1 else None
        )
        ranks = [] if configuration is None else json.loads(str(configuration.get("ranks", "[]")) or "[]")
        if ranks:
            members[group] = frozenset(int(rank) for rank in ranks)
    return members


def waits_of(dumps: Sequence[FlightDump]) -> tuple[CollectiveWait, ...]:
    """The collective that each rank has started and not finished, one entry for ranks in the same one."""
    waiting: dict[tuple[str, int, str, Location | None], list[int]] = collections.defaultdict(list)
    for dump in dumps:
        item = next((entry for entry in dump.collectives if not entry.is_done), None)
        if item is not None:
            waiting[item.group, item.sequence, item.name, item.location].append(dump.rank)
    return tuple(_wait(key, ranks, dumps) for key, ranks in waiting.items())


def _wait(
    key: tuple[str, int, str, Location | None], ranks: list[int], dumps: Sequence[FlightDump]
) -> CollectiveWait:
    group, sequence, name, location = key
    members = frozenset(rank for dump in dumps for rank in dump.members.get(group, ()))
    known = {dump.rank for dump in dumps}
    behind = [
        dump.rank for dump in dumps if (dump.rank in members or not members) and dump.last(group) < sequence
    ]
    verb = "wait" if len(ranks) > 1 else "waits"
    message = f"{ranks_in_words(ranks)} {verb} in `{name}` (number {sequence} of group `{group}`)"
    if behind:
        message += f", which {ranks_in_words(behind)} {'have' if len(behind) > 1 else 'has'} not started"
    missing = members - known
    if missing:
        message += f"; {ranks_in_words(missing)} {'have' if len(missing) > 1 else 'has'} no dump"
    return CollectiveWait(tuple(ranks), name, sequence, group, location, message)
