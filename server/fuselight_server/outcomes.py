"""What runs found, taken in: findings made of reports, placed where the text is now, kept and shown.

Invariant: edits made while a run was under way are applied to its result before anybody sees it.
"""

from __future__ import annotations

import asyncio
import functools
import os
import platform
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fuselight.protocol import Limits
from fuselight.report import Assembled, Report, TargetRef, Tier, Versions
from fuselight_server.changes import capture_changes, kernel_changes
from fuselight_server.findings import Thresholds, findings
from fuselight_server.kernel_results import CANCELLED, kernel_result_of, still_to_come
from fuselight_server.places import result_of, take_back
from fuselight_server.plan import RunOptions, sizes
from fuselight_server.runs import Key
from fuselight_server.same_text import current_again, found_on_disk, keys_of
from fuselight_server.state import disk_text, split_text, within
from fuselight_server.store import recorded_calls
from fuselight_server.target_device import choose

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from fuselight.protocol import Analyse
    from fuselight.report import Failure
    from fuselight_server.face import Face
    from fuselight_server.kernel_results import KernelResult
    from fuselight_server.measured_results import MeasuredResult
    from fuselight_server.places import Result
    from fuselight_server.runs import Job
    from fuselight_server.settings import Settings
    from fuselight_server.state import Folder, State
    from fuselight_server.static.document import SourceDocument
    from fuselight_server.static.moves import Change
    from fuselight_server.store import Store

PROGRAM = "fuselight run"
"""Name under which the findings of the last `fuselight run` are kept."""


class Outcomes:
    """Makes results of reports."""

    def __init__(self, state: State, face: Face, *, generation: Callable[[], int]) -> None:
        """Take in nothing yet; `generation` tells which one runs that are asked for now would have."""
        self._state = state
        self._face = face
        self._generation = generation
        self._changes: dict[Key, list[tuple[str, Change | None]]] = {}
        """Edits since each run began; None for a change on the disk of a file that is not open."""
        self._reading: dict[Key, object] = {}
        """The latest reading of each folder's last `fuselight run`: one that is overtaken is dropped."""
        self._gone: set[Key] = set()
        """Runs in flight whose file is no more: nothing of them will be taken in."""

    def begin(self, key: Key) -> None:
        """Collect the edits from now on: the run of `key` sees the text of this moment."""
        self._changes[key] = []
        self._gone.discard(key)

    def collect_for(self, running: Container[Key]) -> None:
        """Collect edits for the runs of `running` alone: of one that was cancelled nothing will be taken in."""
        self._changes = {key: changes for key, changes in self._changes.items() if key in running}
        self._gone = {key for key in self._gone if key in running}

    def edited(self, path: str, change: Change) -> None:
        """Take in one change of an open document's text."""
        self._state.change(path, change)
        for changes in self._changes.values():
            changes.append((path, change))

    def has_text(self, path: str, source: SourceDocument) -> None:
        """Take in what the text of an open document is by now: what was found of just this text is current again."""
        back = current_again(self._state.everything(), path, lambda: keys_of(source.text))
        if back:
            paths = frozenset(shown for one in back for shown in one.paths())
            self._face.findings_changed(paths)
            self._face.results_changed(paths)

    def changed_on_disk(self, path: str) -> frozenset[str]:
        """Take in that a file which is not open was written; return the files of results to which that is news."""
        for changes in self._changes.values():
            changes.append((path, None))
        told = found_on_disk(self._state.everything(), path)
        return frozenset(shown for one in told for shown in one.paths())

    def gone(self, path: str) -> None:
        """Take in nothing more of the runs of a file or folder that is gone."""
        self._gone |= {key for key in self._changes if within(key.path, path)}

    def catch_up(self, result: Result | KernelResult | MeasuredResult, *, ended: bool) -> bool:
        """Make in a result the edits since its run began; False where its file is gone. `ended`: collect no more."""
        if result.key in self._gone:
            return False
        changes = self._changes.pop(result.key, []) if ended else self._changes.get(result.key, [])
        for path, change in changes:
            if change is None:
                found_on_disk([result], path)
            else:
                result.change(path, change)
        for path in {path for path, _ in changes}:
            document = self._state.at(path)
            if document is not None:
                current_again([result], path, functools.partial(keys_of, document.source.text))
        return True

    async def take_in(self, job: Job, report: Report, overlays: dict[str, str]) -> None:
        """Keep and show what a run found, which saw the unsaved texts `overlays`."""
        settings = self._state.folder_of(job.key.path).settings
        made = await asyncio.to_thread(
            findings, report, thresholds=_thresholds(settings), read_line=line_reader(overlays)
        )
        if job.key in self._gone:
            return
        result = result_of(job.key, job.generation, report, made)
        self.catch_up(result, ended=True)
        before = self._state.results.get(job.key)
        if before is not None:
            result.changes = capture_changes(before if before.learnt else before.earlier or before, result)
        for text in result.changes:
            self._state.log(f"{job.key.name or '__main__'}: {text}")
        let_go = self._state.keep(result)
        self._face.findings_changed(result.paths() | let_go | (before.paths() if before else frozenset()))
        self._face.results_changed({job.key.path, *result.depends})

    def options_for(self, folder: Folder, path: str, *, with_buffers: bool) -> RunOptions:
        """Return what is the same for every run of a file."""
        settings = folder.settings
        others = tuple(one.path for one in self._state.folders.values() if one.uri and one is not folder)
        roots = (folder.path, *others)
        return RunOptions(
            roots=roots,
            limits=Limits(seconds=settings.limits.seconds, memory_mb=settings.limits.memory_mb),
            default_sizes=sizes(settings.inputs.default_sizes),
            dynamo_config=settings.dynamo.config,
            environment=settings.environment,
            overlays=self._state.overlays(roots, path) if with_buffers else {},
            recorded=recorded_calls(self.program(path), path),
        )

    def request_for(self, key: Key, request: Analyse) -> Analyse | None:
        """Make of a target's request that of the run which `key` names; None where its kernel is gone."""
        if key.tier is not Tier.KERNELS:
            return request
        if not key.kernel:
            device = choose(self._state.folder_of(key.path).settings).device
            return replace(request, tier=key.tier, device=device)
        result = self._state.kernels.get(key.of_target)
        report = result.shown.report if result is not None else None
        if report is None or key.kernel not in report.texts:
            return None
        return replace(
            request,
            tier=key.tier,
            device=report.target_device,
            assemble=(report.texts[key.kernel],),
            disassemble=key.disassemble,
        )

    def _take_in_kernel(self, key: Key, report: Report) -> None:
        """Keep what became of one kernel beside the report that has its source."""
        self._changes.pop(key, None)
        result = self._state.kernels.get(key.of_target)
        made = report.assembled.get(key.kernel)
        if made is None and report.failures:
            why = f"{report.failures[0].message}. {report.failures[0].next_step}".rstrip()
            made = Assembled(failure=why)
        if result is not None and made is not None:
            asked = made.disassembled or key.disassemble
            result.shown.keep_assembled(key.kernel, replace(made, disassembled=asked))
            self._face.results_changed([key.path])

    async def take_in_kernels(self, job: Job, report: Report) -> None:
        """Keep and show the kernels that a run generated, and say what became of those of the run before."""
        if job.key.kernel:
            self._take_in_kernel(job.key, report)
            return
        result = await asyncio.to_thread(
            kernel_result_of, job.key, job.generation, report, self._thresholds_at(job.key.path)
        )
        if not self.catch_up(result, ended=True):
            return
        before = self._state.kernels.get(job.key)
        if before is not None and before.whole is not None and result.learnt:
            result.headline, result.changes = kernel_changes(before.whole, result)
        for text in result.changes:
            self._state.log(f"kernels of {job.key.name or '__main__'}: {text}")
        self._keep_kernels(result)

    async def take_in_part(self, job: Job, report: Report | None) -> None:
        """Keep and show the kernels that a run has generated so far; None: it was cancelled.

        Then the run before stands again; where there was none, what there is of this one, and says so.
        """
        if report is None:
            self._face.results_changed(take_back(self._state.kernels, job.key, job.generation, CANCELLED))
        elif job.key.tier is Tier.KERNELS and report.generated:
            result = await asyncio.to_thread(
                kernel_result_of, job.key, job.generation, report, self._thresholds_at(job.key.path)
            )
            if not self.catch_up(result, ended=False):
                return
            result.unfinished = still_to_come(report)
            self._keep_kernels(result)

    def _thresholds_at(self, path: str) -> Thresholds:
        return _thresholds(self._state.folder_of(path).settings)

    def _keep_kernels(self, result: KernelResult) -> None:
        before = self._state.kernels.get(result.key)
        let_go = self._state.keep_kernels(result)
        paths = let_go | result.paths() | (before.paths() if before else frozenset())
        self._face.findings_changed(paths)
        self._face.results_changed(paths)

    def rederive(self) -> None:
        """Make the findings of every kept report again, as the thresholds have changed."""
        for key, result in self._state.results.items():
            settings = self._state.folder_of(key.path).settings
            made = findings(result.report, thresholds=_thresholds(settings), read_line=self._state.read_line)
            fresh = result_of(key, result.generation, result.report, made)
            if not result.stale:
                result.own, result.places = fresh.own, fresh.places
        for key, kernels in self._state.kernels.items():
            kernels.shown.derive(self._thresholds_at(key.path))
        self._face.findings_changed(
            self.shown_paths() | {path for one in self._state.kernels.values() for path in one.paths()}
        )

    def shown_paths(self) -> frozenset[str]:
        """Return every file that some result says something about."""
        return frozenset(path for result in self._state.results.values() for path in result.paths())

    async def load_program(self, store: Store) -> None:
        """Show what the last `fuselight run` that wrote to `store` found.

        Not while the folder is not trusted: what came with it can say anything of any file, in our name.
        """
        if not self._state.trusted:
            return
        key = Key(str(store.report_path), PROGRAM)
        folder = self._state.folder_of(key.path)
        mine = self._reading[key] = object()
        report = await asyncio.to_thread(store.read_report)
        if self._reading[key] is not mine:
            return
        if report is None:
            self._face.findings_changed(self._state.forget(key.path))
            return
        made = await asyncio.to_thread(
            findings, report, thresholds=_thresholds(folder.settings), read_line=line_reader({})
        )
        if self._reading[key] is not mine:
            return
        written = store.report_path.stat().st_mtime if store.report_path.exists() else time.time()
        result = result_of(key, self._generation(), report, made)
        for live in result.own:
            if _modified(live.finding.span.path) > written:
                live.place.edited = result.stale = True
                result.differ(live.finding.span.path)
        before = self._state.results.get(key)
        let_go = self._state.keep(result)
        self._face.findings_changed(result.paths() | let_go | (before.paths() if before else frozenset()))
        self._face.results_changed(result.depends)

    def program(self, path: str) -> Report | None:
        """Return what the last `fuselight run` for a file learnt: that of the nearest store at or above it."""
        stores = {
            os.path.dirname(os.path.dirname(key.path)): result.report  # noqa: PTH120 - paths stay text
            for key, result in self._state.results.items()
            if key.name == PROGRAM
        }
        return stores.get(max((root for root in stores if within(path, root)), key=len, default=""))


def failed_report(job: Job, request: Analyse, failure: Failure, versions: Versions | None) -> Report:
    """Make a report of a run that gave none: nothing but its failure. `versions` are those of the worker, if known."""
    if versions is None:
        versions = Versions(
            python="", torch=None, triton=None, fuselight="", platform=platform.platform(),
            executable=job.lane.executable,
        )  # fmt: skip
    target = request.target
    return Report(
        versions=versions,
        target=TargetRef(path=target.path, name=target.name, line=target.line, kind=target.kind),
        tier=job.key.tier,
        generation=job.generation,
        failures=(failure,),
        roots=request.roots,
    )


def _thresholds(settings: Settings) -> Thresholds:
    return Thresholds(
        guard_count=settings.guards.warn_count,
        guard_us=settings.guards.warn_microseconds,
        kernel_share=settings.kernels.advise_from_percent / 100,
        repeats=settings.kernels.advise_repeats,
    )


def line_reader(overlays: dict[str, str]) -> Callable[[str, int], str | None]:
    """Read lines of files as a run saw them: the unsaved buffers that went with it, else the disk."""
    kept: dict[str, list[str]] = {}

    def read_line(path: str, line: int) -> str | None:
        lines = kept.get(path)
        if lines is None:
            text = overlays.get(path, disk_text(path))
            lines = kept[path] = split_text(text or "")
        return lines[line - 1] if 0 < line <= len(lines) else None

    return read_line


def _modified(path: str) -> float:
    try:
        return Path(path).stat().st_mtime
    except OSError:
        return 0.0
