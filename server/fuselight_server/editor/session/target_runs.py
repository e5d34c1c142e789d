"""Which targets the files have now, and the run of each with the options of its folder.

Read from the text, without a worker and without consent.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace

from fuselight.shared.protocol import (
    AssembleRequest,
    GenerateRequest,
    Limits,
    MemoryRequest,
    OwnKernelsPlan,
    RunRequest,
)
from fuselight.shared.report import Report, Tier
from fuselight_server.base.files import disk_text, within
from fuselight_server.base.store import recorded_calls
from fuselight_server.editor.results.captures import PROGRAM
from fuselight_server.editor.results.snapshot import Document
from fuselight_server.editor.session.state import Folder, State
from fuselight_server.editor.session.target_device import choose
from fuselight_server.execution.runs.keys import Key
from fuselight_server.execution.runs.planning import (
    MAIN,
    PlannedRun,
    RunOptions,
    default_runs,
    named_runs,
    sizes,
)
from fuselight_server.execution.runs.programs import Programs
from fuselight_server.explain.kernels.documents import SASS
from fuselight_server.explain.kernels.own_documents import CONFIGURATIONS
from fuselight_server.explain.kernels.own_kernels import OWN
from fuselight_server.source.document import read_source
from fuselight_server.source.reading import Reading

_STEPS = 4
"""An estimate of memory makes each call twice in eager mode and twice compiled: it has as many times the seconds."""


class TargetRuns:
    """Plans the runs of targets, and makes their options and requests."""

    def __init__(self, state: State) -> None:
        self._state = state

    def options_for(
        self, path: str, folder: Folder | None = None, *, with_buffers: bool = False
    ) -> RunOptions:
        """Return the options that every run of a file has in a folder, in its own by default."""
        folder = folder or self._state.folder_of(path)
        settings = folder.settings
        others = tuple(
            other_folder.path
            for other_folder in self._state.folders.values()
            if other_folder.uri and other_folder is not folder
        )
        roots = (folder.path, *others)
        return RunOptions(
            roots=roots,
            limits=Limits(seconds=settings.limits.seconds, memory_mb=settings.limits.memory_mb),
            default_sizes=sizes(settings.inputs.default_sizes),
            dynamo_config=settings.dynamo.config,
            environment=settings.environment,
            overlays=self._state.documents.overlays(roots, path) if with_buffers else {},
            recorded=recorded_calls(_last_program_report(self._state, path), path),
            programs=self._state.programs_of(path),
            own_kernels=OwnKernelsPlan(device=choose(settings).device),
        )

    def request_for(self, key: Key, request: RunRequest) -> RunRequest | None:
        """Turn the request of a target into that of the run of `key`; None where its kernel is gone."""
        if key.tier not in {Tier.KERNELS, Tier.MEMORY}:
            return request
        device = choose(self._state.folder_of(key.path).settings).device
        if key.tier is Tier.MEMORY:
            limits = replace(request.limits, seconds=_STEPS * request.limits.seconds)
            return request.of_kind(MemoryRequest, device=device, limits=limits)
        if key.kernel.startswith(f"{OWN}:"):
            plan = request.own_kernels or OwnKernelsPlan()
            _, form, *library = key.kernel.split(":")
            plan = replace(
                plan, disassemble=form == SASS, configurations=form == CONFIGURATIONS, libraries=bool(library)
            )
            return replace(request, own_kernels=plan)
        if not key.kernel:
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

    def reading(self, path: str) -> Reading | None:
        """Read a file as the editor has it, else as it is on disk; None where it cannot be read."""
        document = self._state.documents.at(path)
        if document is not None:
            return document.reading()
        text = disk_text(path)
        return None if text is None else read_source(path, text)

    def compiled(self, path: str) -> tuple[Key, ...]:
        """The targets that run without being asked for by name: what the file compiles or has inputs for."""
        reading = self.reading(path)
        if reading is None:
            return ()
        options = self.options_for(path)
        return tuple(Key(path, run.target.name) for run in default_runs(reading, options))

    def compiled_or_program(self, path: str) -> tuple[Key, ...]:
        """What the file compiles; of a program that compiles what none of its names stands for, the program."""
        compiled, reading = self.compiled(path), self.reading(path)
        if compiled or reading is None:
            return compiled
        options = self.options_for(path)
        return (Key(path, ""),) if self._program_run(reading, options) is not None else ()

    def of(
        self, key: Key, folder: Folder | None = None, *, with_buffers: bool = False
    ) -> tuple[PlannedRun, RunOptions] | None:
        """Plan the run of a target in a folder, that of its file by default; None where its file no longer has it."""
        reading = self.reading(key.path)
        if reading is None:
            return None
        options = self.options_for(key.path, folder, with_buffers=with_buffers)
        runs = named_runs(reading, [key.name or MAIN], options)
        run = runs[0] if runs else None
        if run is None and not key.name:
            run = self._program_run(reading, options)
        return (run, options) if run is not None else None

    def request_of_text(self, key: Key, text: str) -> RunRequest | None:
        """The run of a target of this text of its file; None where the text does not have it."""
        options = self.options_for(key.path)
        runs = named_runs(read_source(key.path, text), [key.name or MAIN], options)
        return runs[0].start_message(0, 0, options) if runs else None

    def name_now(self, key: Key) -> str | None:
        """Name the target that a run of `key` runs now; None where its file no longer has one."""
        planned = self.of(key)
        return planned[0].target.name if planned is not None else None

    def program_of(self, key: Key) -> str | None:
        """The file whose program a run of `key` would run; a timed one does, up to the call that it measures."""
        if key.kernel or (key.is_timed and not key.name):
            return None
        planned = self.of(key)
        return planned[0].program if planned is not None else None

    def drop_lost(self, path: str) -> None:
        """Drop the results of targets that a file no longer has, or that another target runs for now."""
        keys = [key for key in self._state.results if key.path == path and key.name != PROGRAM]
        self._state.drop(key for key in keys if self.name_now(key) != key.name)

    def _program_run(self, reading: Reading, options: RunOptions) -> PlannedRun | None:
        document = self._state.documents.at(reading.path)
        text = disk_text(reading.path) if document is None else document.source.text
        return Programs({reading.path: text or ""}, frozenset({reading.path})).run_of(reading, options.roots)


class ProgramLines:
    """The line of the program of each open file, kept because a lens asks for it at each keystroke.

    Invariant: whether a `__main__` block compiles depends on the files that it imports, which are read again after a
    save of any file.
    """

    def __init__(self, targets: TargetRuns) -> None:
        self._targets = targets
        self._lines: dict[str, tuple[int | None, int | None]] = {}
        """The version of the text that was looked at, None for all until a save, and the line."""

    async def of(self, document: Document) -> int | None:
        """The line of a program that compiles what none of its file's names stands for; None in every other file."""
        path, reading = document.path, document.reading()
        version = document.version if reading.main_line is None else None
        known = self._lines.get(path)
        if known is None or known[0] != version:
            line = None
            if not self._targets.compiled(path):
                roots = self._targets.options_for(path).roots
                programs = Programs({path: document.source.text}, frozenset())
                run = await asyncio.to_thread(programs.run_of, reading, roots)
                line = run.target.line if run is not None else None
            known = self._lines[path] = version, line
        is_program = known[1] is not None
        return reading.main_line or known[1] if is_program else None

    def forget_lines(self, path: str | None = None) -> None:
        """Forget the line of a file (None: of all)."""
        if path is None:
            self._lines.clear()
        else:
            self._lines.pop(path, None)


def _last_program_report(state: State, path: str) -> Report | None:
    """Return the report of the last `fuselight run` for a file, from the nearest store at or above it."""
    stores = {
        os.path.dirname(os.path.dirname(key.path)): result.report  # noqa: PTH120 - paths stay text
        for key, result in state.captures.items()
        if key.name == PROGRAM
    }
    return stores.get(max((root for root in stores if within(path, root)), key=len, default=""))
