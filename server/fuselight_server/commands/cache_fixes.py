"""Fixes for compiles that no start reads from a cache: the calls are compared, and then a second start must hit.

Invariant: a fix passes only if its calls give the same as before, as for every other fix, and if two starts of the new
text, which share only a fresh cache folder, show that the second one does less again than with the old text.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fuselight.shared.foreign_files import project_root
from fuselight_server.base.files import split_text
from fuselight_server.commands.sources import python_files, read_text
from fuselight_server.commands.warm import StartedTarget, WarmState, WarmTarget, start_twice
from fuselight_server.fixes.rewrites.autocast import AutocastPlace, autocast_remedies
from fuselight_server.fixes.rewrites.cache_keys import (
    function_key_remedies,
    pass_key_remedies,
    setting_remedies,
)
from fuselight_server.fixes.rewrites.families import RefusedRewrite, Remedy
from fuselight_server.fixes.rewrites.torch_names import supported
from fuselight_server.fixes.verification.attempts import Attempt, FixStatus
from fuselight_server.jobs.caches.model import CacheCause, CacheResult, CauseKind, CureRewrite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from fuselight.shared.report import Location, Report
    from fuselight_server.base.cancellation import CancelToken
    from fuselight_server.base.finding import Finding
    from fuselight_server.commands.opened_job import OpenedJob
    from fuselight_server.fixes.verification.fixer import Fixer, FixOptions
    from fuselight_server.source.reading import Reading

CODE = "FL922"
_MAX_FIXES = 20
"""Most fixes of one target."""
_MAX_FILES = 2_000
"""Python files of a project that are searched for imports."""
_KINDS = frozenset((CauseKind.BYPASS, CauseKind.DISABLED))


@dataclass(frozen=True)
class LostCompile:
    """A compile that the second start did again, with the cause that a fix may remove."""

    finding: Finding
    result: CacheResult
    cause: CacheCause

    def is_of(self, report: Report) -> bool:
        """Whether a report has a compile of the function."""
        where = self.result.location
        return where is not None and _compiles(report, where)


@dataclass
class CacheFixer:
    """Tries the fixes of one target after each other, each on top of those that passed."""

    fixer: Fixer
    target: StartedTarget
    token: CancelToken
    parts: Sequence[tuple[StartedTarget, Report]]
    """What fixes are compared for: the target, or the calls of a program."""
    readings: Mapping[str, Reading]
    refused: list[tuple[Finding, RefusedRewrite]] = field(default_factory=list)
    unsolved: int = 0
    """Lost compiles for which no fix is known."""

    async def fix(self, asked: FixOptions) -> None:
        """Keep each fix that passes."""
        if not asked.selects(CODE):
            return
        tried: set[tuple[str, int, str]] = set()
        warm = await self._start({})
        for _ in range(_MAX_FIXES):
            passed = await self._next_fix(warm, tried)
            if passed is None:
                break
            warm = passed
        self._add_refused(warm)

    async def verified(self, finding: Finding, remedy: Remedy, before: WarmTarget) -> Attempt:
        """Verify one fix of a finding. `before`: two starts of the text without it."""
        for lost in lost_compiles(before.lost, before.findings):
            if any(
                (known.kind, known.texts) == (remedy.kind, remedy.texts) for known in self._remedies(lost)
            ):
                return (await self._attempt(lost, remedy, before))[0]
        why = _not_needed(before)
        return Attempt(finding, finding.span.line, remedy, FixStatus.REFUSED, why)

    async def started(self) -> WarmTarget:
        """Start the text with the fixes so far twice."""
        return await self._start({})

    async def _next_fix(self, warm: WarmTarget, tried: set[tuple[str, int, str]]) -> WarmTarget | None:
        """Try fixes until one passes; returns the two starts of its text."""
        for lost in lost_compiles(warm.lost, warm.findings):
            for remedy in self._remedies(lost):
                key = (lost.finding.span.path, lost.finding.span.line, remedy.kind)
                if key in tried:
                    continue
                tried.add(key)
                attempt, after = await self._attempt(lost, remedy, warm)
                self.fixer.attempts.append(attempt)
                if after is not None:
                    self.fixer.texts.changed.update(remedy.texts)
                    self.fixer.runs.forget_results()
                    return after
        return None

    async def _attempt(
        self, lost: LostCompile, remedy: Remedy, warm: WarmTarget
    ) -> tuple[Attempt, WarmTarget | None]:
        """Start twice, which refuses most fixes, and compare the calls of one that the second start needs.

        Returns the two starts if the fix has passed.
        """
        part, report = self._part_of(lost)
        self.target.show(f"{remedy.title} on line {lost.finding.span.line}")
        after = await self._start(remedy.texts)
        why = start_refusal(lost, warm, after)
        if why:
            line = self.fixer.as_read(lost.finding).span.line
            return Attempt(lost.finding, line, remedy, FixStatus.REFUSED, why), None
        attempt = await self.fixer.attempt(part, lost.finding, remedy, report)
        if not attempt.has_passed:
            return attempt, None
        why = f"the second start reads it from the cache, {attempt.why}"
        return dataclasses.replace(attempt, effect="", why=why, graphs=None), after

    def _part_of(self, lost: LostCompile) -> tuple[StartedTarget, Report]:
        """The part whose compile it is; else the first one, as the fix is compared for all that run its file."""
        for part, report in self.parts:
            names = {part.request.target.name, part.request.target.name.rpartition(".")[2]}
            if lost.result.function in names or lost.is_of(report):
                return part, report
        return self.parts[0]

    async def _start(self, texts: Mapping[str, str]) -> WarmTarget:
        changed = self.fixer.texts.after(texts)
        return await start_twice(
            self.target,
            self.token,
            self.fixer.texts.changed_request(self.target.request, texts),
            lambda path, line: _line(changed.get(path, self.fixer.texts.text(path)), line),
            {**self.readings, **self.fixer.readings(changed)},
        )

    def _rewrites(self, lost: LostCompile) -> Iterator[Remedy | RefusedRewrite]:
        return cache_rewrites(lost, self.target.request.target.path, self.parts[0][1], self.fixer.texts.text)

    def _remedies(self, lost: LostCompile) -> Iterator[Remedy]:
        return (candidate for candidate in self._rewrites(lost) if isinstance(candidate, Remedy))

    def _add_refused(self, warm: WarmTarget) -> None:
        for lost in lost_compiles(warm.lost, warm.findings):
            candidates = list(self._rewrites(lost))
            self.unsolved += not any(isinstance(candidate, Remedy) for candidate in candidates)
            self.refused += [
                (lost.finding, candidate) for candidate in candidates if isinstance(candidate, RefusedRewrite)
            ]


async def verify_cache_fix(
    fixer: Fixer,
    target: StartedTarget,
    token: CancelToken,
    parts: Sequence[tuple[StartedTarget, Report]],
    *,
    finding: Finding,
    remedy: Remedy,
    before: WarmTarget | None = None,
) -> tuple[Attempt, WarmTarget]:
    """Verify one fix of a finding, which may be that of a job: here, too, a second start has to need it.

    `before`: what the last call returned for the same text without a fix, whose two starts serve all its fixes.
    """
    caches = CacheFixer(fixer, target, token, parts, {})
    before = before or await caches.started()
    return await caches.verified(finding, remedy, before), before


def lost_compiles(lost_rows: Iterable[CacheResult], findings: Iterable[Finding]) -> list[LostCompile]:
    """What was compiled again for a cause on a line that has a finding, each cause once."""
    of_line = {
        (finding.span.path, finding.span.line): finding for finding in findings if finding.code == CODE
    }
    lost: dict[tuple[str, int, str], LostCompile] = {}
    for row in lost_rows:
        for cause in row.causes:
            where = cause.location or row.location
            finding = of_line.get((where.path, where.line)) if where is not None else None
            if finding is not None and cause.kind in _KINDS:
                key = (finding.span.path, finding.span.line, cause.text)
                lost.setdefault(key, LostCompile(finding, row, cause))
    return list(lost.values())


def lost_in_job(
    opened: OpenedJob, findings: Iterable[Finding], locate: Callable[[Location], Location]
) -> list[LostCompile]:
    """What a job compiled again for a cause on a line that has a finding. `locate`: from the job's lines to those."""
    rows = opened.caches.lost if opened.caches is not None else ()
    return lost_compiles((_located(row, locate) for row in rows), findings)


def _located(row: CacheResult, locate: Callable[[Location], Location]) -> CacheResult:
    causes = (
        dataclasses.replace(cause, location=locate(cause.location)) if cause.location is not None else cause
        for cause in row.causes
    )
    return dataclasses.replace(
        row, location=locate(row.location) if row.location is not None else None, causes=tuple(causes)
    )


def _not_needed(warm: WarmTarget) -> str:
    """Why two starts of the text as it is show nothing that the fix would change."""
    if warm.state is WarmState.FAILED:
        failure = warm.report.failures[0].message if warm.report.failures else "it gave no report"
        return f"the text without the fix cannot be started: {failure}"
    if warm.state is WarmState.NOTHING_COMPILED:
        return "two starts of it compile nothing here"
    if warm.state is WarmState.WARM:
        return "a second start here reads everything from the caches without it"
    return "a second start here compiles nothing again for this cause"


def start_refusal(lost: LostCompile, before: WarmTarget, after: WarmTarget) -> str:
    """Why two starts of the new text do not prove a fix; empty if the second one hits where it did not."""
    if after.state is WarmState.FAILED:
        failure = after.report.failures[0].message if after.report.failures else "it gave no report"
        return f"the changed text cannot be started: {failure}"
    if after.state is WarmState.NOTHING_COMPILED:
        return "the changed text compiles nothing"
    if any(cause.text == lost.cause.text for cause in _causes_of(after, lost.result)):
        return "the second start still compiles it again"
    if len(after.lost) >= len(before.lost):
        cause = next((cause.text for row in after.lost for cause in row.causes), "another cause")
        return f"the second start still compiles as much again: {cause}"
    return ""


def _causes_of(warm: WarmTarget, result: CacheResult) -> list[CacheCause]:
    return [cause for row in warm.lost if row.function == result.function for cause in row.causes]


def cache_rewrites(
    lost: LostCompile, target: str, report: Report, read: Callable[[str], str | None]
) -> Iterator[Remedy | RefusedRewrite]:
    """The rewrites for a lost compile, with the torch of a report. `target`: the target's file, which gets settings."""
    for candidate in _candidates(lost, target, read):
        yield supported(candidate, report, read) if isinstance(candidate, Remedy) else candidate


def _candidates(
    lost: LostCompile, target: str, read: Callable[[str], str | None]
) -> Iterator[Remedy | RefusedRewrite]:
    cure, where = lost.cause.cure, lost.cause.location or lost.result.location
    if cure is None or where is None:
        return
    path = target if cure.rewrite in {None, CureRewrite.PASS_KEY} else where.path
    text = read(path)
    if text is None:
        return
    if cure.rewrite is CureRewrite.AUTOCAST_OUTSIDE and lost.result.location is not None:
        place = AutocastPlace(
            path, where.line, lost.result.function or "the function", lost.result.location.line
        )
        yield from autocast_remedies(place, text, _Imports(path).has)
    elif cure.rewrite is CureRewrite.FUNCTION_KEY and cure.subject is not None:
        yield from function_key_remedies(path, text, cure.subject)
    elif cure.rewrite is CureRewrite.PASS_KEY:
        yield from pass_key_remedies(path, text)
    elif cure.setting is not None and cure.value is not None:
        yield from setting_remedies(path, text, cure.setting, value=cure.value)


@dataclass(frozen=True)
class _Imports:
    """What other files of a project import from a file."""

    path: str

    def has(self, name: str) -> bool:
        """Whether another file may import a name: it names the module in an import, and the name."""
        module = Path(self.path).stem
        importing = re.compile(rf"(?m)^\s*(?:from|import)\b.*\b{re.escape(module)}\b")
        used = re.compile(rf"\b{re.escape(name)}\b")
        root = project_root(self.path)
        for number, file in enumerate(python_files([root])):
            if number >= _MAX_FILES:
                return True
            text = read_text(file) if str(file) != self.path else ""
            if isinstance(text, str) and importing.search(text) and used.search(text):
                return True
        return False


def _line(text: str | None, number: int) -> str | None:
    lines = split_text(text) if text is not None else []
    return lines[number - 1] if 0 < number <= len(lines) else None


def _compiles(report: Report, where: Location) -> bool:
    """Whether a report has a compile of a function."""
    places = ((frame.location.path, frame.location.line) for frame in report.frames)
    return (where.path, where.line) in places
