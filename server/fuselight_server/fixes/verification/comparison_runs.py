"""Runs of the texts so far and of those with a remedy, whose calls the worker compares.

Invariant: the old text leaves its results in a folder before the new text is compared with them; they are kept as long
as the texts so far stay as they are.
"""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from fuselight.shared.protocol import RunRequest, VerifyRequest
from fuselight.shared.report import Report, Verification
from fuselight_server.execution.runs.planning import with_texts
from fuselight_server.fixes.rewrites.remedy import FixClass, Remedy
from fuselight_server.fixes.verification.change_context import ChangeContext, context_of, neighbors
from fuselight_server.fixes.verification.comparison import OTHER_INPUTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fuselight_server.fixes.verification.fixed_texts import FixedTexts

_MAX_RECORDS = 16
"""Results of old texts that are kept on the disk."""
_LONGER = 2.0
"""How much longer than the old text the new one may take for its further calls."""


@dataclass(frozen=True)
class CaseRound:
    """A round of further calls."""

    folder: str
    """One of `_records`."""
    settings: bool
    context: ChangeContext
    first: int


class FixTarget(Protocol):
    """A target, and the worker that runs it."""

    @property
    def request(self) -> RunRequest:
        """The run of the text before any fix."""
        ...

    @property
    def show(self) -> Callable[[str], None]:
        """Shows progress."""
        ...

    async def run_report(self, request: RunRequest) -> Report:
        """The report of a run, also of one that failed."""
        ...


class ComparisonRuns:
    """The runs that compare remedies with the texts so far."""

    def __init__(
        self,
        texts: FixedTexts,
        folder: str,
        *,
        inductor: bool,
        case_seconds: float,
        most_compiled: int | None = None,
    ) -> None:
        """`folder`: an empty one for the results of runs; the others as in `Fixer`."""
        self._texts = texts
        self._folder = folder
        self._inductor = inductor
        self._case_seconds = case_seconds
        self._most_compiled = most_compiled
        self._cases: dict[CaseRound, dict[int, Verification]] = {}
        """What each round of the old text found, by its first call; for the first round of each kind."""
        self._records: dict[object, tuple[str, Report]] = {}
        """Results of the texts so far; none of older texts."""

    async def recorded(self, target: FixTarget) -> Report:
        """The report of the texts so far, with the calls that a remedy is compared on."""
        return (await self._results(target, self._texts.changed, is_special=False))[1]

    async def verified(self, target: FixTarget, remedy: Remedy) -> Report:
        """The report of the new text, compared with the texts so far."""
        is_special = remedy.fix_class is FixClass.EQUAL
        before = self._texts.before(remedy.texts)
        folder, recorded = await self._results(target, before, is_special=is_special)
        verification = recorded.verification
        if verification is None:
            failure = next(iter(recorded.failures), None)
            why = f"the text without the fix fails: {failure.message if failure else 'it gave no results'}"
            is_program = (
                failure is not None and failure.kind == "inputs"
            )  # which runs, but no call of it is known
            refused = Verification(refused=failure.message if failure and is_program else why)
            return dataclasses.replace(recorded, failures=(), verification=refused)
        if verification.refused:
            return dataclasses.replace(recorded, failures=())
        new = self._texts.changed_request(target.request, remedy.texts)
        asked = new.of_kind(
            VerifyRequest, folder=folder, inductor=self._inductor, non_finite=is_special, automatic=True
        )
        report = await target.run_report(asked)
        return _with_old(report, verification)

    async def further(self, target: FixTarget, remedy: Remedy, first: int = 0) -> Report:
        """The report of one round of further calls of the new text, compared with those of the texts so far.

        `first`: the call that the round starts with. `Verification.left` names those for the next one.
        """
        is_special = remedy.fix_class is FixClass.EQUAL
        before = self._texts.before(remedy.texts)
        folder, recorded = await self._results(target, before, is_special=is_special)
        context = ChangeContext() if remedy.is_setting else self._context(remedy)
        asked = CaseRound(folder, settings=remedy.is_setting, context=context, first=first)
        rounds = self._cases.setdefault(dataclasses.replace(asked, first=0), {})
        if first not in rounds:
            old = await target.run_report(self._asked_cases(target, before, asked, records=True))
            for later in [
                start for start in rounds if start > first
            ]:  # this round has made their calls again
                del rounds[later]
            rounds[first] = old.verification or Verification()
        if rounds[first].refused:
            note = f"no further calls were compared: {rounds[first].refused}"
            verification = Verification(notes=(note,), not_reached=(OTHER_INPUTS,))
            return dataclasses.replace(recorded, failures=(), verification=verification)
        new = self._texts.after(remedy.texts)
        report = await target.run_report(self._asked_cases(target, new, asked, records=False))
        return _with_old(report, rounds[first])

    def _context(self, remedy: Remedy) -> ChangeContext:
        """What the changed code reads, with the values that the workspace shows."""
        old = {path: self._texts.text(path) or "" for path in remedy.texts}
        others = {
            path: text for path in neighbors(remedy.texts) if (text := self._texts.read(path)) is not None
        }
        return context_of(old, remedy.texts, others)

    def forget_results(self) -> None:
        """Delete the results of runs of the texts so far."""
        for folder, _ in self._records.values():
            shutil.rmtree(folder, ignore_errors=True)
        self._records.clear()
        self._cases.clear()

    def _asked_cases(
        self, target: FixTarget, texts: Mapping[str, str], asked: CaseRound, *, records: bool
    ) -> RunRequest:
        return with_texts(target.request, texts).of_kind(
            VerifyRequest,
            folder=asked.folder,
            inductor=self._inductor,
            records=records,
            cases=True,
            settings=asked.settings,
            most_compiled=self._most_compiled,
            names=asked.context.names,
            sizes=asked.context.sizes,
            first=asked.first,
            seconds=self._case_seconds * (1.0 if records else _LONGER),
            automatic=True,
        )

    async def _results(
        self, target: FixTarget, texts: Mapping[str, str], *, is_special: bool
    ) -> tuple[str, Report]:
        """The folder with the results of the texts so far, and the report of the run that wrote them."""
        request = target.request
        changed = sorted((path, text) for path, text in texts.items() if text != self._texts.read(path))
        key = (request.target, request.changes, tuple(changed), is_special)
        if key not in self._records:
            folder = tempfile.mkdtemp(dir=self._folder)
            asked = with_texts(target.request, texts).of_kind(
                VerifyRequest,
                folder=folder,
                inductor=self._inductor,
                records=True,
                non_finite=is_special,
                automatic=True,
            )
            try:
                report = await target.run_report(asked)
            except BaseException:  # canceled, or the run was interrupted
                shutil.rmtree(folder, ignore_errors=True)
                raise
            if (
                report.verification is None
            ):  # it ended before all records were complete: the next fix tries again
                shutil.rmtree(folder, ignore_errors=True)
                return folder, report
            self._records[key] = folder, report
            while len(self._records) > _MAX_RECORDS:
                oldest, _ = self._records.pop(next(iter(self._records)))
                shutil.rmtree(oldest, ignore_errors=True)
        return self._records[key]


def _with_old(report: Report, old: Verification) -> Report:
    """The report of a new text with what the run of the old text has noted."""
    if report.verification is None:
        return report
    notes = tuple(dict.fromkeys((*old.notes, *report.verification.notes)))
    verification = dataclasses.replace(report.verification, notes=notes, old_lines_run=old.lines_run)
    return dataclasses.replace(report, verification=verification)
