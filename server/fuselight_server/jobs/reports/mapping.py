"""Which local file is which file of a job: by the longest common end of their paths, and the quoted lines.

Invariant: a local path is one that was listed in a source folder, whatever the log names, so that no path of a log
leads out of it. A file of an installed package is local only if its path within the package is.
"""

from __future__ import annotations

import itertools
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from pathlib import Path

from fuselight.shared.foreign_files import read_regular
from fuselight.shared.report import Location
from fuselight_server.base.files import leaves, split_text, walk_sources
from fuselight_server.jobs.reports.definitions import LocalFunction, read_definitions
from fuselight_server.jobs.reports.left_out_callers import FileCalls, left_out_caller, read_calls
from fuselight_server.jobs.reports.moved_lines import MovedLines, SourceEvidence, has_quote

MAX_FILES = 200_000
"""Python files of the source folders that are listed."""
_MAX_BYTES = 8 << 20
"""Of a local file that is compared: source is not larger."""
_INSTALLED = re.compile(
    r"(?:^|/)(?:(?:lib(?:64)?/python\d[\d.]*/)?(?:site|dist)-packages/(?P<rest>.*)|lib(?:64)?/python\d[\d.]*/)",
    re.DOTALL,
)
_TORCH = re.compile(
    r"(?:^|/)(?:torch/(?:_\w+|amp|ao|autograd|compiler|cuda|distributed|distributions|export|fft|func|functional|fx|jit|"
    r"library|linalg|nn|onnx|optim|overrides|profiler|sparse|special|testing|utils)|torchgen|functorch/_src|"
    r"triton/(?:backends|compiler|language|runtime)|fuselight/(?:worker|capture|adapters|measure))(?=/|\.py$)"
)
"""Files of torch, Triton and Fuselight, wherever they are installed: an image may have torch built from its sources."""


_NONE = 0, 0
"""The score of a file that has no line of the log."""


class LineState(Enum):
    """How a local line compares with the line that ran."""

    CURRENT = "current"
    """The log quotes the line, and the local file has the same text there."""
    CHANGED = "changed"
    """The log quotes the line, and the local file has another text there."""
    UNKNOWN = "unknown"
    """The log does not quote the line, so that a change cannot be noticed."""
    ABSENT = "absent"
    """The file is not in the source folders."""


@dataclass(frozen=True)
class AmbiguousFile:
    """A file of the job that several local files may be."""

    path: str
    """In the job."""
    candidates: tuple[str, ...]
    """Local paths."""


class LocalSources:
    """The Python files of the source folders, by name, and their lines."""

    def __init__(self, folders: Sequence[Path]) -> None:
        """List the files; folders that do not exist have none."""
        self.folders = tuple(os.path.realpath(folder) for folder in folders)
        self._by_name: dict[str, list[str]] = {}
        self._lines: dict[str, list[str] | None] = {}
        self._definitions: dict[str, dict[tuple[int, str], LocalFunction]] = {}
        self._calls: dict[str, FileCalls] = {}
        files = dict.fromkeys(path for folder in folders for path in _python_files(folder.absolute()))
        for path in itertools.islice(files, MAX_FILES):
            self._by_name.setdefault(_parts(path)[-1], []).append(path)

    def named(self, name: str) -> Sequence[str]:
        """The paths of the files with this name."""
        return self._by_name.get(name, ())

    def has(self, path: str) -> bool:
        """Whether a path is that of a listed file."""
        parts = _parts(path)
        return bool(parts) and path in self.named(parts[-1])

    def lines(self, path: str) -> list[str] | None:
        """The lines of a listed file; None if it cannot be read."""
        if not self.has(path):
            return None
        if path not in self._lines:
            try:
                text = read_regular(path, _MAX_BYTES).decode("utf-8-sig", "replace")
                self._lines[path] = split_text(text)
            except OSError:
                self._lines[path] = None
        return self._lines[path]

    def definition(self, path: str, line: int, name: str) -> LocalFunction | None:
        """The function of a listed file that starts on a line; None if there is none of this name."""
        return self._functions(path).get((line, name))

    def moved(self, path: str, known: SourceEvidence) -> MovedLines | None:
        """Where the lines of a file of a job are in a listed file; None if it cannot be read."""
        lines = self.lines(path)
        return (
            None if lines is None else MovedLines(known, lines, lambda: set(self._functions(path).values()))
        )

    def _functions(self, path: str) -> Mapping[tuple[int, str], LocalFunction]:
        if path not in self._definitions:
            self._definitions[path] = read_definitions(self.lines(path) or ())
        return self._definitions[path]

    def left_out_caller(self, logged: Location, function: str) -> Location | None:
        """The line that calls a compiled function, below the last line of its logged stack; None if not certain."""
        if logged.path not in self._calls:
            self._calls[logged.path] = read_calls(self.lines(logged.path) or ())
        return left_out_caller(self._calls[logged.path], logged, function)


def _python_files(folder: Path) -> Iterator[str]:
    for parent, names in walk_sources(folder, with_hidden=True):
        for name in names:
            file = parent / name
            if name.endswith(".py") and not leaves(file, folder):
                yield str(file)


@dataclass(frozen=True)
class JobFiles:
    """The files of a job and the local files that they are."""

    local: Mapping[str, str]
    """Path in the job → local path, of files that are in the source folders."""
    ambiguous: tuple[AmbiguousFile, ...]
    evidence: Mapping[str, SourceEvidence]
    sources: LocalSources
    read_at: float | None = None
    """Seconds since the epoch when the job read these very files; None if it ran elsewhere."""

    def path(self, logged: str) -> str:
        """The local path of a file of the job; its path in the job if it is not here."""
        return self.local.get(logged) or shown_job_path(logged)

    def location(self, logged: Location) -> Location:
        """A location of the job as a local one, if the file is here: on the line that has its text now."""
        moved = self._moved.get(logged.path)
        line = logged.line if moved is None else moved.here(logged.line)
        return replace(logged, path=self.path(logged.path), line=line)

    def has_moved(self, logged: str) -> bool:
        """Whether a file is here with other lines than the log names."""
        return logged in self._moved

    def shown(self, logged: Location) -> Location:
        """The same; the first line of a function, which is that of a decorator if there is one, on its `def` line."""
        here = self.location(logged)
        name = (here.function or "").rpartition(".")[2]
        definition = self.sources.definition(here.path, here.line, name)
        return here if definition is None else replace(here, line=definition.line, function=definition.name)

    def roots(self) -> tuple[str, ...]:
        """Folders of which Python files are the job's own code: those here, and those of files that are not here."""
        absent = {
            shown_job_path(path).rpartition("/")[0] or "/"
            for path in self.evidence
            if path not in self.local and is_of_job(path)
        }
        return tuple(dict.fromkeys((*self.sources.folders, *_outermost(absent))))

    def logged(self, path: str) -> tuple[str, ...]:
        """The paths in the job of a path that `path` has returned."""
        return self._logged.get(path, ())

    def quote(self, path: str, line: int) -> str | None:
        """The text of a line as it ran, if the log quotes it. The line is one that `location` has returned."""
        for logged in self.logged(path):
            moved = self._moved.get(logged)
            text = self.evidence[logged].quotes.get(line) if moved is None else moved.quote(line)
            if text is not None:
                return text
        return None

    def line(self, path: str, line: int) -> str | None:
        """The text of a line: of the local file, else as the log quotes it."""
        lines = self.sources.lines(path)
        if lines is None:
            return self.quote(path, line)
        return lines[line - 1] if 0 < line <= len(lines) else None

    def state(self, path: str, line: int) -> LineState:
        """How a line compares with the line that ran. The line is one that `location` has returned."""
        lines = self.sources.lines(path)
        if lines is None:
            return LineState.ABSENT
        quote = self.quote(path, line)
        if not quote:
            return LineState.CURRENT if self._is_as_read(path) else LineState.UNKNOWN
        return LineState.CURRENT if has_quote(lines, line, quote) else LineState.CHANGED

    def _is_as_read(self, path: str) -> bool:
        """Whether a file that the job read here has not been written since."""
        try:
            return self.read_at is not None and Path(path).stat().st_mtime < self.read_at
        except OSError:
            return False

    @cached_property
    def _moved(self) -> Mapping[str, MovedLines]:
        moved = {
            logged: self.sources.moved(path, self.evidence[logged]) for logged, path in self.local.items()
        }
        return {
            logged: lines for logged, lines in moved.items() if lines is not None and not lines.is_in_place
        }

    @cached_property
    def _logged(self) -> Mapping[str, tuple[str, ...]]:
        known: dict[str, tuple[str, ...]] = {}
        for logged in self.evidence:
            path = self.path(logged)
            known[path] = (*known.get(path, ()), logged)
        return known


def files_in_place(evidence: Mapping[str, SourceEvidence], sources: LocalSources, read_at: float) -> JobFiles:
    """The files of a job that has just run here, from the source folders: each is at its own path.

    A launcher names its script by a relative path: of the files with this end, it is one that the job also names by its
    whole path, else the one that is nearest to a source folder.
    """
    local = {path: path for path in evidence if sources.has(path)}
    for path, known in evidence.items():
        if path not in local and not Path(path).is_absolute():
            candidates = _candidates(path, known, sources)
            nearest = sorted(candidates, key=lambda file: (file not in local, len(_parts(file))))
            local.update((path, file) for file in nearest[:1])
    return JobFiles(local, (), evidence, sources, read_at)


def map_files(
    evidence: Mapping[str, SourceEvidence], sources: LocalSources, chosen: Mapping[str, str]
) -> JobFiles:
    """Find the local file of each file of a job. `chosen`: the user's answers by path in the job, empty for none."""
    local = {path: answer for path, answer in chosen.items() if path in evidence and sources.has(answer)}
    open_files: dict[str, tuple[str, ...]] = {}
    for logged, known in evidence.items():
        if logged in chosen:
            continue
        best = _candidates(logged, known, sources)
        if len(best) == 1:
            local[logged] = best[0]
        elif best:
            open_files[logged] = best
    prefixes = Counter(_prefixes(logged, path) for logged, path in local.items())
    for logged, candidates in list(open_files.items()):
        near = _with_known_prefix(logged, candidates, prefixes)
        if near is not None:
            local[logged] = near
            del open_files[logged]
    left = tuple(AmbiguousFile(path, candidates) for path, candidates in open_files.items())
    return JobFiles(local, left, evidence, sources)


def is_of_job(path: str) -> bool:
    """Whether a path of a job is that of its own code: not of torch, of an installed package or of Python."""
    is_file = not path.startswith("<") and path.endswith(".py")
    return is_file and _INSTALLED.search(_normalized(path)) is None and not is_torch_file(path)


def is_torch_file(path: str) -> bool:
    """Whether a path of a job is that of a file of torch, Triton or Fuselight."""
    return _TORCH.search(_normalized(path)) is not None


def shown_job_path(path: str) -> str:
    """A path of a job that is not here: with slashes, and with a folder, so that it is known as a path."""
    if path.startswith("<"):
        return path
    parts = path.replace("\\", "/") if re.match(r"[A-Za-z]:\\", path) else path
    return parts if "/" in parts else f"./{parts}"


def _candidates(logged: str, known: SourceEvidence, sources: LocalSources) -> tuple[str, ...]:
    """The local files that a file of the job may be: those with the longest common end, of these with most lines.

    A path of the job is one of another machine, and the name alone fits many files (`utils.py`). Among those that end
    alike, the lines that the log quotes decide.
    """
    parts = _parts(logged)
    if not parts:
        return ()
    least = _least_common(logged)
    common = {path: common_end(parts, _parts(path)) for path in sources.named(parts[-1])}
    longest = max(common.values(), default=0)
    if longest < max(least, 1):
        return ()
    best = [path for path, length in common.items() if length == longest]
    scores = {path: _score(known, sources, path) for path in best}
    if longest == 1 and len(parts) > 1:
        # Only the name is equal: without a line in common it is another file.
        best = [path for path in best if (scores[path] or is_of_job(logged)) and scores[path] != _NONE]
    highest = max((scores[path] or _NONE for path in best), default=_NONE)
    return tuple(path for path in best if (scores[path] or _NONE) == highest)


def _least_common(logged: str) -> int:
    """How many parts of a path must be equal: within a package that is installed in the job, all."""
    installed = _INSTALLED.search(_normalized(logged))
    if installed is not None:  # a file of Python itself is never local
        return len(_parts(installed["rest"])) if installed["rest"] else len(_parts(logged))
    torch = _TORCH.search(_normalized(logged))
    return 1 if torch is None else len(_parts(_normalized(logged)[torch.start() :]))


def _score(known: SourceEvidence, sources: LocalSources, path: str) -> tuple[int, int] | None:
    """How many of the lines and functions of the log a file has, and has in place; None if the log shows none."""
    moved = sources.moved(path, known)
    return None if moved is None or not (known.quotes or known.functions) else moved.score


def _prefixes(logged: str, path: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What is left of both paths without their common end."""
    here, there = _parts(path), _parts(logged)
    length = common_end(there, here)
    return there[: len(there) - length], here[: len(here) - length]


def _with_known_prefix(
    logged: str,
    candidates: Sequence[str],
    prefixes: Mapping[tuple[tuple[str, ...], tuple[str, ...]], int],
) -> str | None:
    """The candidate that lies where other files of the same folder of the job lie."""
    parts = _parts(logged)
    votes = Counter(
        {
            path: sum(
                count
                for (there, here), count in prefixes.items()
                if parts[: len(there)] == there and _parts(path) == (*here, *parts[len(there) :])
            )
            for path in candidates
        }
    )
    (best, count), *others = votes.most_common()
    return best if count and all(other < count for _, other in others) else None


def common_end(logged: Sequence[str], local: Sequence[str]) -> int:
    """How many parts two paths have in common at their ends."""
    length = 0
    for part_there, part_here in zip(reversed(logged), reversed(local), strict=False):
        if part_there != part_here:
            break
        length += 1
    return length


def _normalized(path: str) -> str:
    return path.replace("\\", "/")


def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in _normalized(path).split("/") if part not in {"", "."})


def _outermost(folders: Iterable[str]) -> list[str]:
    """The folders that lie in no other one."""
    kept: list[str] = []
    for folder in sorted(folders):
        if not any(folder == above or folder.startswith(f"{above.rstrip('/')}/") for above in kept):
            kept.append(folder)
    return kept
