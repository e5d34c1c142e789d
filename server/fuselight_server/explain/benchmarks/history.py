"""The benchmarks of a target that were made before, kept in the workspace's `.fuselight/` folder.

Invariant: files are 0600 and replaced as a whole, the newest `KEPT` of each target stay, and a damaged one reads as
absent. Texts of kernels and what the program printed are not kept; the lines that the numbers are of are.
"""

from __future__ import annotations

import contextlib
import gzip
import itertools
import json
import os
import re
import zlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from fuselight.shared.codec import DecodeError, decode, encode
from fuselight.shared.folder_lock import locked_folder
from fuselight.shared.foreign_data import parse_json, unpack_line
from fuselight.shared.foreign_files import open_regular, read_regular, write_whole
from fuselight.shared.notebooks.cells import SUFFIX
from fuselight.shared.notebooks.commands import MARKER
from fuselight.shared.report import Measured, Output, Report, data_key
from fuselight_server.base.finding import SourceLine
from fuselight_server.base.formatting import format_ratio
from fuselight_server.base.store import Store, check_not_a_link, files_of, is_own, make_folder, read_gzip
from fuselight_server.explain.benchmarks import words
from fuselight_server.explain.benchmarks.page_types import PastRun
from fuselight_server.explain.benchmarks.profile import times_by_line
from fuselight_server.explain.benchmarks.timing_stats import (
    compiled_of,
    has_times,
    shown_of,
    speedup,
    wrong_results,
)

KEPT = 20
"""Runs of one target."""
KEPT_TARGETS = 100
"""Targets of one workspace, those whose last run is oldest go."""
KEPT_BYTES = 256 * 1024 * 1024
"""Of all runs in one workspace, as they lie on the disk: the oldest go."""
_MAX_BYTES = 256 * 1024 * 1024
"""Of one run, unpacked."""
ENDING = ".json.gz"
"""Of the file of a run."""
_OWNER = "target.json"
"""In the folder of a target: which one it is. The folder's name does not tell."""
_OWNER_BYTES = 1 << 16
_GIT_BYTES = 1 << 16
_SCHEMA = 1
_HEAD = "fuselight benchmark"
UNREADABLE = (OSError, EOFError, zlib.error, ValueError, DecodeError, RecursionError)
"""What the file of a run is read with that is damaged, or gone."""


class NotKeptError(Exception):
    """A run could not be kept, and why."""


@dataclass(frozen=True)
class BenchmarkRun:
    """One benchmark, as it is kept and exported."""

    past: PastRun
    root: str
    """Folder of the project: paths of another checkout are compared below it."""
    report: Report
    lines: dict[str, dict[str, str]] = field(default_factory=dict)
    """By path, then by 1-based line in digits: the text of each line that numbers are of, and where cells begin."""

    def cell(self, at: SourceLine) -> tuple[int, int] | None:
        """Return the number of a notebook's cell and the line in it, both 1-based; None for another file."""
        lines = self.lines.get(at.path, {})
        starts = [int(number) for number, text in lines.items() if text == MARKER and int(number) < at.line]
        return (len(starts), at.line - max(starts)) if starts else None

    def line(self, path: str, number: int) -> str | None:
        """Return a line's text as it was measured."""
        return self.lines.get(path, {}).get(str(number))


def run_of(
    report: Report,
    root: str,
    read_line: Callable[[str, int], str | None],
    *,
    notes: tuple[str, ...] = (),
) -> BenchmarkRun | None:
    """Make of a report what is kept of it; None where nothing was measured.

    `read_line` gives lines as they were when it ran; `notes` say what was seen of the benchmark from outside.
    """
    measured = report.measured
    if measured is None:
        return None
    past = PastRun(
        id=re.sub(r"\W", "", measured.started) or "run",
        when=measured.started,
        device=words.device(measured.machine),
        label=_label(report, measured, branch(Path(root))),
    )
    lines: dict[str, dict[str, str]] = {}
    for configuration in measured.configurations:
        for line in times_by_line(configuration, report.roots):
            place = line.place
            text = read_line(place.path, place.line) if place is not None else None
            if place is not None and text is not None:
                lines.setdefault(place.path, {})[str(place.line)] = text
    for path, texts in lines.items():
        if path.endswith(SUFFIX):
            rows = range(1, max(map(int, texts)))
            texts.update({str(row): MARKER for row in rows if read_line(path, row) == MARKER})
    there = replace(measured.machine, notes=(*measured.machine.notes, *notes))
    measured = replace(measured, machine=there)
    light = replace(report, texts={}, output=Output(), assembled={}, measured=measured)
    return BenchmarkRun(past, root, light, lines)


def _label(report: Report, measured: Measured, on: str) -> str:
    shown = shown_of(measured) or next(iter(compiled_of(measured)), None)
    faster = speedup(measured, shown) if shown is not None else None
    parts = [on, f"torch {report.versions.torch}" if report.versions.torch else "", words.WORK[measured.work]]
    if shown is not None and faster is not None:
        wrong = " with WRONG results" if wrong_results(shown) else ""
        parts.append(f"{shown.name} {format_ratio(faster)}{wrong}")
    return ", ".join(part for part in parts if part)


def branch(root: Path) -> str:
    """Return git's current branch of a folder; empty where there is none."""
    folder = next((parent for parent in (root, *root.parents) if (parent / ".git").exists()), None)
    if folder is None:
        return ""
    git = folder / ".git"
    try:
        if git.is_file():  # a worktree's
            git = folder / read_regular(git, _GIT_BYTES).decode().partition("gitdir:")[2].strip()
        head = read_regular(git / "HEAD", _GIT_BYTES).decode().strip()
    except (OSError, ValueError):
        return ""
    name = head.removeprefix("ref: refs/heads/")
    return name if name != head else head[:10]


@dataclass(frozen=True)
class Owner:
    """Whose runs lie in a folder."""

    path: str
    """Of the file, below the project's root, with `/`."""
    target: str


def relative(store: Store, path: str) -> str:
    """Return a file's path below the root of a store's project."""
    return Path(os.path.relpath(os.path.realpath(path), store.folder.parent)).as_posix()


def owners(store: Store) -> Iterator[tuple[Path, Owner]]:
    """Yield the folders of a store in which runs lie, and whose each is; one that does not tell is left out."""
    for folder in sorted(files_of(_benches(store), "*")):
        try:
            check_not_a_link(folder)
            owner: Owner = decode(
                Owner, parse_json(read_regular(folder / _OWNER, _OWNER_BYTES, follow_link=False))
            )
        except UNREADABLE:
            continue
        at = PurePosixPath(owner.path)
        # Else its files would be moved out of the workspace.
        if not at.is_absolute() and ".." not in at.parts:
            yield folder, owner


def read_text(path: Path) -> str:
    """Return the text of a run's file. Raises OSError, EOFError, zlib.error, ValueError."""
    return read_gzip(path, _MAX_BYTES).decode()


@dataclass(frozen=True)
class History:
    """The runs of one target. Nothing is created before one is kept."""

    store: Store
    path: str
    target: str

    @property
    def owner(self) -> Owner:
        """Whose runs they are."""
        return Owner(relative(self.store, self.path), self.target)

    @property
    def folder(self) -> Path:
        """Where they lie: by the file's path below the project, so that they move with it."""
        key = data_key(f"{self.owner.path}\0{self.target}".encode("utf-8", "surrogatepass"))
        return _benches(self.store) / key

    def keep_run(self, run: BenchmarkRun) -> BenchmarkRun | None:
        """Keep a run that came to its end with a time; return it under the id that it has here, None for any other.

        Raises NotKeptError.
        """
        measured = run.report.measured
        if measured is None or not measured.finished or not has_times(measured):
            return None
        try:
            self.store.prepare()
            self.claim()
            with locked_folder(str(self.folder)):  # another process may keep one of the same second
                run = replace(run, past=replace(run.past, id=self._free(run.past.id)))
                text = dump(run).encode()
                if len(text) > _MAX_BYTES:
                    raise NotKeptError(f"a benchmark of {len(text):,} bytes is too large to be kept")
                write_whole(self.folder / f"{run.past.id}{ENDING}", gzip.compress(text, 1))
                self._drop_oldest()
        except OSError as error:
            why = error.strerror or error
            raise NotKeptError(f"benchmarks cannot be kept in {self.folder}: {why}") from None
        return run

    def claim(self) -> None:
        """Make the folder, which says whose it is. Raises OSError."""
        make_folder(self.folder)
        if not (self.folder / _OWNER).exists():
            write_whole(self.folder / _OWNER, json.dumps(encode(self.owner)).encode())

    def _free(self, identity: str) -> str:
        """Return the id; append a number if a run of the same second already has it."""
        taken = {past.id for past in self.runs()}
        numbered = (f"{identity}-{number}" for number in itertools.count(2))
        return next(text for text in itertools.chain([identity], numbered) if text not in taken)

    def runs(self) -> tuple[PastRun, ...]:
        """Return what there is, the newest first."""
        runs = [past for path in self._files() if (past := _past(path)) is not None]
        return tuple(sorted(runs, key=lambda past: (past.when, len(past.id), past.id), reverse=True))

    def read(self, identity: str) -> BenchmarkRun | None:
        """Return a run; None where there is none of this id that can be read."""
        for path in self._files(identity):
            with contextlib.suppress(*UNREADABLE):
                return load(read_text(path))
        return None

    def remove(self, identity: str) -> bool:
        """Remove a run; whether there was one of this id. Raises OSError."""
        there = self._files(identity)
        for path in there:
            path.unlink(missing_ok=True)
        _remove_folder(self.folder, only_empty=True)
        return bool(there)

    def newest(self) -> BenchmarkRun | None:
        """Return the last run that can be read."""
        return next((run for past in self.runs() if (run := self.read(past.id)) is not None), None)

    def _files(self, identity: str | None = None) -> list[Path]:
        """Return the files of all runs, or of the one of this id."""
        paths = files_of(self.folder, f"*{ENDING}")
        return [path for path in paths if identity is None or path.name == f"{identity}{ENDING}"]

    def _drop_oldest(self) -> None:
        kept = {f"{past.id}{ENDING}" for past in self.runs()[:KEPT]}
        for path in self._files():
            if path.name not in kept:
                path.unlink(missing_ok=True)
        by_folder = {file: files_of(file, f"*{ENDING}") for file in _benches(self.store).iterdir()}
        newest = sorted(
            by_folder, key=lambda path: max(map(_written, by_folder[path]), default=(0.0, 0)), reverse=True
        )
        for folder in newest[KEPT_TARGETS:]:
            _remove_folder(folder)
        left = KEPT_BYTES
        runs = (path for folder in newest[:KEPT_TARGETS] for path in by_folder[folder])
        for path in sorted(runs, key=_written, reverse=True):
            left -= _written(path)[1]
            if left < 0:
                path.unlink(missing_ok=True)


def forget(store: Store) -> None:
    """Remove all benchmarks that are kept in a store."""
    folder = _benches(store)
    for file in files_of(folder, "*"):
        _remove_folder(file)
    if is_own(folder):
        with contextlib.suppress(OSError):
            folder.rmdir()


def dump(run: BenchmarkRun) -> str:
    """Return a run as text: a line of JSON that lists can be made of, then one with all of it."""
    head = {"kind": _HEAD, "schema": _SCHEMA, **encode(run.past)}
    return f"{json.dumps(head)}\n{json.dumps(encode(run), separators=(',', ':'))}\n"


def load(text: str) -> BenchmarkRun:
    """Return the run of a text. Raises ValueError or DecodeError for what is none."""
    head, _, rest = text.partition("\n")
    _check(parse_json(head))
    run: BenchmarkRun = decode(BenchmarkRun, parse_json(rest))
    return run


def _check(head: Any) -> None:
    if not isinstance(head, dict) or head.get("kind") != _HEAD:
        raise DecodeError("this is no benchmark of Fuselight's")
    if not isinstance(head.get("schema"), int) or head["schema"] > _SCHEMA:
        raise DecodeError("this benchmark was written by a newer version of Fuselight")


def _past(path: Path) -> PastRun | None:
    try:
        with open_regular(path, follow_link=False) as packed:
            head = parse_json(unpack_line(packed, 1 << 16))
        _check(head)
        past: PastRun = decode(PastRun, head)
    except UNREADABLE:
        return None
    return past if past.id == path.name.removesuffix(ENDING) else None


def _benches(store: Store) -> Path:
    return store.folder / "bench"


def _written(path: Path) -> tuple[float, int]:
    """Return when a file was written, and its size; zeros if another process removed it."""
    try:
        stat = path.stat()
    except OSError:
        return 0.0, 0
    return stat.st_mtime, stat.st_size


def _remove_folder(folder: Path, *, only_empty: bool = False) -> None:
    """Remove a target's folder with its runs; `only_empty`: if there is none in it. A link stays as it is."""
    if not is_own(folder) or (only_empty and any(folder.glob(f"*{ENDING}"))):
        return
    for path in (*folder.glob(f"*{ENDING}*"), *folder.glob(f"{_OWNER}*")):
        path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def runs_of_removed(history: History, names: Collection[str]) -> tuple[PastRun, ...]:
    """Return the runs of the file's targets that are none of `names`, the newest first."""
    runs = [
        replace(past, id=f"{folder.name}/{past.id}", label=_gone_label(owner.target, past))
        for folder, owner in owners(history.store)
        if owner.path == history.owner.path and owner.target not in names and owner != history.owner
        for past in replace(history, target=owner.target).runs()
    ]
    return tuple(sorted(runs, key=lambda past: past.when, reverse=True))


def read_run(history: History, identity: str) -> BenchmarkRun | None:
    """Return a run of the target's own, or of one that is gone; None where there is none of this id."""
    resolved = _resolved(history, identity)
    if resolved is None:
        return None
    there, own = resolved
    run = there.read(own)
    if run is None or own == identity:
        return run
    return replace(run, past=replace(run.past, id=identity, label=_gone_label(there.target, run.past)))


def remove_run(history: History, identity: str) -> bool:
    """Remove a run of the target's own, or of one that is gone; whether there was one. Raises OSError."""
    resolved = _resolved(history, identity)
    return resolved is not None and resolved[0].remove(resolved[1])


def _resolved(history: History, identity: str) -> tuple[History, str] | None:
    """Return in whose history a run is, and its id there."""
    folder, separator, own = identity.rpartition("/")
    if not separator:
        return history, identity
    for path, owner in owners(history.store):
        if path.name == folder and owner.path == history.owner.path:
            return replace(history, target=owner.target), own
    return None


def _gone_label(target: str, past: PastRun) -> str:
    return f"{target or '__main__'}, which is not in this file any more: {past.label}"


def take_along(old: str, new: str) -> Iterator[History]:
    """Move the benchmarks of the file or folder `old`, which is `new` by now; yield each target's new history.

    Raises OSError where the new place cannot be written: the rest is where it was.
    """
    store = Store.of(Path(old))
    was = relative(store, old)
    for folder, owner in owners(store):
        if owner.path != was and not owner.path.startswith(f"{was}/"):
            continue
        path = str(Path(new, owner.path[len(was) + 1 :])) if owner.path != was else new
        there = History(Store.of(Path(path)), path, owner.target)
        if there.folder == folder:
            continue
        there.store.prepare()
        there.claim()
        for run in sorted(files_of(folder, f"*{ENDING}")):
            _move(run, there, old, new, same=there.store == store)
        _remove_folder(folder, only_empty=True)
        yield there


def _move(run: Path, there: History, old: str, new: str, *, same: bool) -> None:
    """Move one run; one that cannot be read stays. Raises OSError."""
    place = there.folder / run.name
    if place.exists():
        return
    try:
        text = _speaking_of(read_text(run), old, new)
        if not same:
            text = dump(replace(load(text), root=str(there.store.folder.parent)))
    except UNREADABLE:
        return
    stat = run.stat()
    write_whole(place, gzip.compress(text.encode(), 1))
    os.utime(place, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # the oldest go first
    run.unlink()


def _speaking_of(text: str, old: str, new: str) -> str:
    """Return JSON in which each text that begins with the path `old`, as a whole, begins with `new`."""
    before, after = (json.dumps(path)[1:-1] for path in (old, new))
    separators = "|".join(re.escape(json.dumps(name)[1:-1]) for name in {os.sep, "/"})
    return re.sub(rf'(?<!\\)"{re.escape(before)}(?="|{separators})', lambda _: f'"{after}', text)
