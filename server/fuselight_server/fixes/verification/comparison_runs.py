"""Runs of the texts so far and of those with a remedy, whose calls the worker compares.

Invariant: the old text leaves its results in a folder before the new text is compared with them; they are kept as long
as the texts so far stay as they are.
"""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from typing import TYPE_CHECKING, Protocol

from fuselight.shared.protocol import VerifyRequest
from fuselight.shared.report import Verification
from fuselight_server.execution.runs.planning import with_texts
from fuselight_server.fixes.rewrites.remedy import FixClass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fuselight.shared.protocol import RunRequest
    from fuselight.shared.report import Report
    from fuselight_server.fixes.rewrites.remedy import Remedy
    from fuselight_server.fixes.verification.fixed_texts import FixedTexts

_MOST_RECORDS = 16
"""Results of old texts that are kept on the disk."""
_LONGER = 2.0
"""How much longer than the old text the new one may take for its further calls."""


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

    async def report(self, request: RunRequest) -> Report:
        """The report of a run, also of one that failed."""
        ...


class ComparisonRuns:
    """The runs that compare remedies with the texts so far."""

    def __init__(self, texts: FixedTexts, folder: str, *, inductor: bool, case_seconds: float) -> None:
        """`folder`: an empty one for the results of runs; the others as in `Fixer`."""
        self._texts = texts
        self._folder = folder
        self._inductor = inductor
        self._case_seconds = case_seconds
        self._cases: dict[tuple[str, bool], str] = {}
        """The folders of `_records` that have the further calls (True: those of settings), and why there are none."""
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
            why = recorded.failures[0].message if recorded.failures else "it gave no results"
            refused = Verification(refused=f"the text without the fix fails: {why}")
            return dataclasses.replace(recorded, failures=(), verification=refused)
        if verification.refused:
            return dataclasses.replace(recorded, failures=())
        new = self._texts.request(target.request, remedy.texts)
        asked = new.of_kind(
            VerifyRequest, folder=folder, inductor=self._inductor, non_finite=is_special, automatic=True
        )
        report = await target.report(asked)
        notes = report.verification.notes if report.verification is not None else ()
        if report.verification is None or not verification.notes:
            return report
        both = tuple(dict.fromkeys((*verification.notes, *notes)))
        return dataclasses.replace(report, verification=dataclasses.replace(report.verification, notes=both))

    async def further(self, target: FixTarget, remedy: Remedy) -> Report:
        """The report of the further calls of the new text, compared with those of the texts so far."""
        is_special = remedy.fix_class is FixClass.EQUAL
        before = self._texts.before(remedy.texts)
        folder, recorded = await self._results(target, before, is_special=is_special)
        settings = remedy.is_setting
        key = folder, settings
        if key not in self._cases:
            asked = self._asked_cases(target, before, folder, records=True, settings=settings)
            old = await target.report(asked)
            self._cases[key] = old.verification.refused if old.verification is not None else ""
        if self._cases[key]:
            note = f"no further calls were compared: {self._cases[key]}"
            return dataclasses.replace(recorded, failures=(), verification=Verification(notes=(note,)))
        new = self._texts.after(remedy.texts)
        asked = self._asked_cases(target, new, folder, records=False, settings=settings)
        return await target.report(asked)

    def forget(self) -> None:
        """Delete the results of runs of the texts so far."""
        for folder, _ in self._records.values():
            shutil.rmtree(folder, ignore_errors=True)
        self._records.clear()
        self._cases.clear()

    def _asked_cases(
        self, target: FixTarget, texts: Mapping[str, str], folder: str, *, records: bool, settings: bool
    ) -> RunRequest:
        return with_texts(target.request, texts).of_kind(
            VerifyRequest,
            folder=folder,
            inductor=self._inductor,
            records=records,
            cases=True,
            settings=settings,
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
                self._records[key] = folder, await target.report(asked)
            except BaseException:  # canceled, or the run was interrupted
                shutil.rmtree(folder, ignore_errors=True)
                raise
            while len(self._records) > _MOST_RECORDS:
                oldest, _ = self._records.pop(next(iter(self._records)))
                shutil.rmtree(oldest, ignore_errors=True)
        return self._records[key]
