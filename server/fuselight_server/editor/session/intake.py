"""Results of reports: findings are made, moved to where the text is now, stored in the state and shown.

Invariant: edits made during a run are applied to its result before the result is shown.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fuselight.shared.protocol import AssembleRequest, GenerateRequest, Limits
from fuselight.shared.report import Assembled, Report, Tier
from fuselight_server.base.files import disk_text, split_text, within
from fuselight_server.base.store import recorded_calls
from fuselight_server.editor.results.captures import CaptureResult, read_capture
from fuselight_server.editor.results.changes import capture_changes, kernel_changes
from fuselight_server.editor.results.kernels import KernelResult, kernel_result_of, what_is_missing
from fuselight_server.editor.results.target_result import compare_with_disk, keys_of, mark_current
from fuselight_server.editor.session.target_device import choose
from fuselight_server.execution.runs.keys import Key
from fuselight_server.execution.runs.planning import RunOptions, sizes
from fuselight_server.explain.findings import Thresholds
from fuselight_server.source.input_programs import find_programs

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping

    from fuselight.shared.protocol import RunRequest
    from fuselight_server.base.settings import Settings
    from fuselight_server.base.store import Store
    from fuselight_server.editor.results.target_result import TargetResult
    from fuselight_server.editor.session.state import Folder, State
    from fuselight_server.editor.session.ui import Ui
    from fuselight_server.execution.runs.queue import Job
    from fuselight_server.source.text_changes import Change

_OFFERED = 3
"""Programs that are offered for the inputs of a target."""
PROGRAM = "fuselight run"
"""Target name of the result of the last `fuselight run`."""


class ResultIntake:
    """Makes results of reports."""

    def __init__(self, state: State, ui: Ui, *, generation: Callable[[], int]) -> None:
        """Start without results; `generation` returns the generation that a run requested now would have."""
        self._state = state
        self._ui = ui
        self._generation = generation
        self._changes: dict[Key, list[tuple[str, Change | None]]] = {}
        """Edits since each run began; None for a change on the disk of a file that is not open."""
        self._reading: dict[Key, object] = {}
        """The latest reading of each folder's last `fuselight run`: an older one is dropped."""
        self._gone: set[Key] = set()
        """Runs in flight whose file was deleted: their results are dropped."""
        self._is_scheduled = False
        state.on_change = self._schedule_changes

    def _schedule_changes(self) -> None:
        """Show what changed once the event loop has finished its current step."""
        if not self._is_scheduled:
            with contextlib.suppress(RuntimeError):  # no loop runs: the next call takes these changes, too
                asyncio.get_running_loop().call_soon(self.show_changes)
                self._is_scheduled = True

    def show_changes(self) -> None:
        """Show the files that look different since the last call."""
        self._is_scheduled = False
        findings, results = self._state.take_changes()
        if findings:
            self._ui.findings_changed(findings)
        if results:
            self._ui.results_changed(results)

    def begin(self, key: Key) -> None:
        """Collect edits from now on: the run of `key` sees the text of this moment."""
        self._changes[key] = []
        self._gone.discard(key)

    def collect_for(self, running: Container[Key]) -> None:
        """Collect edits for the runs of `running` alone: a canceled run has no result."""
        self._changes = {key: changes for key, changes in self._changes.items() if key in running}
        self._gone = {key for key in self._gone if key in running}

    def edited(self, path: str, change: Change) -> None:
        """Apply one change of an open document's text."""
        self._state.edit(path, change)
        for changes in self._changes.values():
            changes.append((path, change))

    def opened(self, path: str) -> None:
        """Apply the unsaved text that a file was opened with: results were compared with the file on disk."""
        if any(path in one.depends for one in self._state.results.values()):
            for change in self._state.unsaved_changes(path):
                self.edited(path, change)

    def changed_on_disk(self, path: str) -> None:
        """Compare results with a file that is not open and was written."""
        for changes in self._changes.values():
            changes.append((path, None))
        self._state.compare_with_disk(path)

    def gone(self, path: str) -> None:
        """Drop the results of runs of a deleted file or folder."""
        self._gone |= {key for key in self._changes if within(key.path, path)}
        self._state.drop_file(path)

    def catch_up(self, result: TargetResult, *, ended: bool) -> bool:
        """Apply to a result the edits since its run began; False where its file is gone. `ended`: collect no more."""
        if result.key in self._gone:
            return False
        changes = self._changes.pop(result.key, []) if ended else self._changes.get(result.key, [])
        for path, change in changes:
            if change is None:
                compare_with_disk([result], path)
            else:
                result.change(path, change)
        for path in {path for path, _ in changes}:
            document = self._state.at(path)
            if document is not None:
                mark_current([result], path, functools.partial(keys_of, document.source.text))
        return True

    async def accept(self, job: Job, report: Report, overlays: Mapping[str, str]) -> None:
        """Show what a run found, which saw the unsaved texts `overlays`."""
        if job.key.kernel:
            self._accept_kernel(job.key, report)
            return
        result = await self._result(job, report, overlays)
        if self.catch_up(result, ended=True):
            self._compare(result)
            self._state.accept(result)

    async def accept_part(self, job: Job, report: Report | None) -> None:
        """Show the kernels that a run has generated so far; None: the run was canceled.

        Then the result before is shown again; where there is none, the partial one stays.
        """
        if report is None:
            self._state.discard_partial(job.key, job.generation)
        elif job.key.tier is Tier.KERNELS and report.generated:
            result = await self._result(job, report, {})
            if self.catch_up(result, ended=False):
                result.unfinished = what_is_missing(report)
                self._state.accept(result)

    async def _result(self, job: Job, report: Report, overlays: Mapping[str, str]) -> TargetResult:
        """Make the result of a report, off the event loop: a report of a thousand kernels takes seconds."""
        thresholds = thresholds_of(self._state.folder_of(job.key.path).settings)
        if job.key.tier is Tier.KERNELS:
            return await asyncio.to_thread(kernel_result_of, job.key, job.generation, report, thresholds)
        return await asyncio.to_thread(
            read_capture, job.key, job.generation, report, thresholds, line_reader(overlays)
        )

    def show_again(self, result: CaptureResult) -> None:
        """Show a result that was made for the texts that the files have now."""
        if result.verified:
            self._compare(result)
        self._state.accept(result)

    def _compare(self, result: TargetResult) -> None:
        """Say what differs from the last complete result of the target."""
        older = self._state.results.get(result.key)
        before = older.last_complete if older is not None else None
        if isinstance(before, CaptureResult) and isinstance(result, CaptureResult):
            result.compare(capture_changes(before, result))
        elif isinstance(before, KernelResult) and isinstance(result, KernelResult) and result.has_data:
            result.headline, changes = kernel_changes(before, result)
            result.compare(changes)
        for text in result.changes:
            self._state.log(f"{result.key.words}: {text}")

    async def look_for_programs(self, result: CaptureResult) -> None:
        """Find programs of the workspace that give inputs to a target without any, off the event loop."""
        target = result.report.target
        folder = self._state.folder_of(target.path)
        folders = [folder.path, *(one.path for one in self._state.folders.values() if one.uri)]
        is_function = target.kind in {"function", "variable"}
        find = functools.partial(find_programs, target.path, target.name, folders, is_function=is_function)
        found = await asyncio.to_thread(find)
        tried = self._state.input_programs.get((target.path, target.name))
        # One that was run and gave no inputs is not offered again.
        result.input_programs = tuple(one for one in found if one.path != tried)[:_OFFERED]
        if self._state.captures.get(result.key) is result:
            self._state.mark_results([target.path])

    def _accept_kernel(self, key: Key, report: Report) -> None:
        """Store what one kernel was compiled to with the report that has its source."""
        self._changes.pop(key, None)
        result = self._state.kernels.get(key.of_target)
        made = report.assembled.get(key.kernel)
        if made is None and report.failures:
            why = f"{report.failures[0].message}. {report.failures[0].next_step}".rstrip()
            made = Assembled(failure=why)
        if result is not None and made is not None:
            asked = made.disassembled or key.disassemble
            result.shown.keep_assembled(key.kernel, replace(made, disassembled=asked))
            self._state.mark_results([key.path])

    def rederive(self) -> None:
        """Make the findings of every report again, after a change of the thresholds."""
        for key, result in self._state.results.items():
            thresholds = thresholds_of(self._state.folder_of(key.path).settings)
            if isinstance(result, (CaptureResult, KernelResult)):
                result.shown.derive(thresholds, self._state.read_line)
                self._state.mark_findings(result.paths())

    def options_for(
        self, path: str, folder: Folder | None = None, *, with_buffers: bool = False
    ) -> RunOptions:
        """Return the options that every run of a file has in a folder, in its own by default."""
        folder = folder or self._state.folder_of(path)
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
            programs=self._state.programs_of(path),
        )

    def request_for(self, key: Key, request: RunRequest) -> RunRequest | None:
        """Turn the request of a target into that of the run of `key`; None where its kernel is gone."""
        if key.tier is not Tier.KERNELS:
            return request
        if not key.kernel:
            device = choose(self._state.folder_of(key.path).settings).device
            return request.of_kind(GenerateRequest, device=device)
        result = self._state.kernels.get(key.of_target)
        report = result.shown.report if result is not None else None
        if report is None or key.kernel not in report.texts:
            return None
        return request.of_kind(
            AssembleRequest,
            device=report.target_device,
            sources=(report.texts[key.kernel],),
            disassemble=key.disassemble,
        )

    async def load_program(self, store: Store) -> None:
        """Show what the last `fuselight run` that wrote to `store` found.

        Only in a trusted workspace: a report that came with the folder can claim anything about any file.
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
            self._state.drop_file(key.path)
            return
        thresholds = thresholds_of(folder.settings)
        result = await asyncio.to_thread(
            read_capture, key, self._generation(), report, thresholds, line_reader({})
        )
        if self._reading[key] is not mine:
            return
        written = store.report_path.stat().st_mtime if store.report_path.exists() else time.time()
        for live in result.own:
            if modified(live.finding.span.path) > written:
                live.place.edited = result.stale = True
                result.mark_changed(live.finding.span.path)
        self._state.accept(result)

    def program(self, path: str) -> Report | None:
        """Return the report of the last `fuselight run` for a file, from the nearest store at or above it."""
        stores = {
            os.path.dirname(os.path.dirname(key.path)): result.report  # noqa: PTH120 - paths stay text
            for key, result in self._state.captures.items()
            if key.name == PROGRAM
        }
        return stores.get(max((root for root in stores if within(path, root)), key=len, default=""))


def thresholds_of(settings: Settings) -> Thresholds:
    """Return from where on something is a finding."""
    return Thresholds(
        guard_count=settings.guards.warn_count,
        guard_us=settings.guards.warn_microseconds,
        kernel_share=settings.kernels.advise_from_percent / 100,
        repeats=settings.kernels.advise_repeats,
    )


def line_reader(overlays: Mapping[str, str]) -> Callable[[str, int], str | None]:
    """Read lines of files as a run saw them: the unsaved buffers that went with it, else the disk."""
    kept: dict[str, list[str]] = {}

    def read_line(path: str, line: int) -> str | None:
        lines = kept.get(path)
        if lines is None:
            text = overlays.get(path, disk_text(path))
            lines = kept[path] = split_text(text or "")
        return lines[line - 1] if 0 < line <= len(lines) else None

    return read_line


def modified(path: str) -> float:
    """Return when a file was written, in seconds since the epoch; 0 where it cannot be read."""
    try:
        return Path(path).stat().st_mtime
    except OSError:
        return 0.0
