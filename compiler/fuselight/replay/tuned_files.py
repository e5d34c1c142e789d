"""Which tuned file a program replays, and what is in it: the same on every rank of a distributed job.

Invariant: nothing here raises; what is wrong is said in `TunedSource.problem`, with the next step. A file is read again
when it has changed. With torch.distributed initialized, rank 0 decides for all ranks, through the job's key-value store
and with a time limit, so that no rank can wait forever.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from fuselight.adapters.torch_api.inductor import job_store
from fuselight.replay.machine_key import MachineKey
from fuselight.shared import tuned_file
from fuselight.shared.foreign_files import folders_to_root
from fuselight.shared.report.tuned import TunedResult

VARIABLE = "FUSELIGHT_TUNED"
_KEPT = 8
"""Files and jobs that are remembered."""
_SECONDS = 120.0
"""Time that rank 0 waits for the devices of the other ranks, and they for its decision."""


@dataclass(frozen=True)
class TunedSource:
    """The results that a program may replay."""

    results: tuple[TunedResult, ...] = ()
    path: str = ""
    """The file that they are from; empty if none was found."""
    problem: str = ""
    """Why there are none, in one sentence with the next step."""
    machines: tuple[MachineKey, ...] = ()
    """The devices of all ranks of a distributed job; a result must hold for each. Empty: this process alone."""

    @property
    def folder(self) -> str:
        """The folder of the file."""
        return os.path.dirname(self.path)


@dataclass(frozen=True)
class TunedPlace:
    """Where a tuned file is."""

    path: str
    is_named: bool = False
    """Whether the program or the user names it; else it was looked for, and must be the user's own."""


@dataclass
class TunedSources:
    """What was read, by the file that the program asked for."""

    _read: dict[tuple[TunedPlace, float, int], TunedSource] = field(default_factory=dict)
    _agreed: dict[tuple[str, int], TunedSource] = field(default_factory=dict)

    def source(self, asked: str | None, machine: MachineKey) -> TunedSource:
        """The results for this process. `asked` is the file that the program names, None to look for one."""
        store = job_store.job_store()
        if store is None:
            place, problem = find(asked)
            return self._parsed(place) if place is not None else TunedSource(problem=problem)
        known = self._agreed.get((asked or "", id(store)))
        if known is None:
            _make_room(self._agreed)
            known = self._agreed[asked or "", id(store)] = agree(store, asked, machine)
        return known

    def _parsed(self, place: TunedPlace) -> TunedSource:
        try:
            state = os.stat(place.path) if place.is_named else os.lstat(place.path)
        except OSError as error:
            return TunedSource(problem=f"`{place.path}` cannot be read: {error.strerror}")
        key = (place, state.st_mtime, state.st_size)
        if key not in self._read:
            _make_room(self._read)
            self._read[key] = _source(place)
        return self._read[key]


def _make_room(kept: dict[Any, TunedSource]) -> None:
    while len(kept) >= _KEPT:
        del kept[next(iter(kept))]


def _source(place: TunedPlace) -> TunedSource:
    path = place.path
    try:
        file = tuned_file.read(path, is_named=place.is_named)
    except tuned_file.TunedFileError as error:
        return TunedSource(path=path, problem=str(error))
    if file is None:
        return TunedSource(path=path, problem=f"`{path}` does not exist. Tune with `fuselight tune PATH`")
    return TunedSource(file.results, path)


def find(asked: str | None) -> tuple[TunedPlace | None, str]:
    """Where the tuned file is, else why there is none.

    `asked`, then the environment variable, then the working folder and those above, then the main script's, both up to
    the project's root.
    """
    named = [(asked, "the option `file`"), (os.environ.get(VARIABLE), f"the variable {VARIABLE}")]
    for path, by in named:
        if path:
            text = os.path.abspath(os.path.expanduser(path))
            if os.path.isdir(text):
                text = os.path.join(text, tuned_file.NAME)
            if os.path.exists(text):
                return TunedPlace(text, is_named=True), ""
            return None, f"`{path}`, which {by} names, does not exist. Tune with `fuselight tune PATH`"
    for folder in _folders():
        text = os.path.join(folder, tuned_file.NAME)
        if os.path.lexists(text) and not os.path.isdir(text):
            return TunedPlace(text), ""
    return None, (
        f"there is no {tuned_file.NAME} in the working folder or above, up to the project's root. Tune with "
        "`fuselight tune PATH`"
    )


def _folders() -> Iterator[str]:
    """The working folder and those above it, then the folder of the main script and those above it."""
    starts = []
    with contextlib.suppress(OSError):  # it was removed
        starts.append(os.getcwd())
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    if main:
        starts.append(os.path.dirname(os.path.abspath(main)))
    for start in starts:
        yield from map(str, folders_to_root(start))


def agree(store: job_store.JobStore, asked: str | None, machine: MachineKey) -> TunedSource:
    """The results that every rank of a job uses: rank 0's file, and the devices of all ranks."""
    name = f"fuselight/tuned/{asked or ''}"
    store.set(f"{name}/{store.rank}", json.dumps(asdict(machine)))
    if store.rank != 0:
        text = store.get(f"{name}/decision", _SECONDS * 1.5)
        return _late("rank 0 has not compiled anything") if text is None else _from_decision(text)
    machines = _machines(store, name)
    if machines is None:
        decision: dict[str, Any] = {"problem": _late("another rank has not compiled anything").problem}
    else:
        place, problem = find(asked)
        path = place.path if place is not None else ""
        decision = {
            "path": path,
            "problem": problem,
            "machines": [asdict(machine_key) for machine_key in machines],
        }
        if place is not None:
            try:
                decision["text"] = tuned_file.read_text(path, is_named=place.is_named) or ""
            except tuned_file.TunedFileError as error:
                decision["problem"] = f"on rank 0, {error}"
    text = json.dumps(decision)
    store.set(f"{name}/decision", text)
    return _from_decision(text)


def _late(why: str) -> TunedSource:
    return TunedSource(
        problem=f"{why} within {_SECONDS:.0f} s, so the ranks could not agree on a tuned result. Compile the same "
        "code on all ranks, or set no backend"
    )


def _machines(store: job_store.JobStore, name: str) -> Sequence[MachineKey] | None:
    machine_keys: list[MachineKey] = []
    for rank in range(store.size):
        text = store.get(f"{name}/{rank}", _SECONDS)
        if text is None:
            return None
        machine_keys.append(MachineKey(**json.loads(text)))
    return tuple(dict.fromkeys(machine_keys))


def _from_decision(text: str) -> TunedSource:
    decision = json.loads(text)
    machines = tuple(MachineKey(**machine) for machine in decision.get("machines", ()))
    path, problem = decision.get("path", ""), decision.get("problem", "")
    if problem or "text" not in decision:
        return TunedSource(path=path, problem=problem or "rank 0 found no tuned file", machines=machines)
    try:
        return TunedSource(tuned_file.parse(decision["text"], path).results, path, machines=machines)
    except tuned_file.TunedFileError as error:
        return TunedSource(path=path, problem=str(error), machines=machines)
