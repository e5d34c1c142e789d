"""Decides which targets run, when, and in which worker: between the user's actions and the queue of runs.

Invariant: user code runs only in a trusted workspace, where the user has agreed to it, and for a cause that is logged.
`intake.py` accepts the results.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import os
import traceback
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from fuselight.shared.protocol import Answer, MeasurePlan, Refused, RunRequest, TunePlan
from fuselight.shared.report import Culprit, Tier
from fuselight_server.base.files import disk_text, within
from fuselight_server.editor.session.benchmarks import BenchmarkSession
from fuselight_server.editor.session.consent import RUN, Consent, folder_question, program_question
from fuselight_server.editor.session.disk_texts import DiskTexts
from fuselight_server.editor.session.environment_notices import EnvironmentNotices
from fuselight_server.editor.session.fix_session import (
    FixSession,
    InterruptedVerificationError,
    PreparedRun,
)
from fuselight_server.editor.session.intake import PROGRAM, ResultIntake
from fuselight_server.editor.session.live import LivePredictions
from fuselight_server.editor.session.stored_results import StoredResults
from fuselight_server.editor.session.throttle import PendingUntilConfigured, RunThrottle
from fuselight_server.editor.session.tunings import TuningSession
from fuselight_server.editor.session.workers import Workers, worker_key
from fuselight_server.execution.runs.keys import Key
from fuselight_server.execution.runs.planning import MAIN, default_runs, named_runs
from fuselight_server.execution.runs.programs import Programs
from fuselight_server.execution.runs.queue import Job, Runs
from fuselight_server.explain.benchmarks.planning import measure_request
from fuselight_server.explain.findings.failures import lacks_inputs
from fuselight_server.explain.searches.planning import tune_request
from fuselight_server.explain.searches.words import progress_best
from fuselight_server.source.document import read_source

if TYPE_CHECKING:
    from fuselight.shared.protocol import Progress
    from fuselight.shared.report import Report
    from fuselight_server.base.settings import Interpreter, Settings
    from fuselight_server.editor.session.state import Document, Folder, State
    from fuselight_server.editor.session.ui import Ui
    from fuselight_server.execution.runs.keys import WorkerKey
    from fuselight_server.execution.runs.planning import PlannedRun, RunOptions
    from fuselight_server.execution.runs.queue import OwnedWorker
    from fuselight_server.source.reading import Reading


@dataclasses.dataclass(frozen=True)
class Trigger:
    """What asked for a run."""

    cause: str
    """For the log: `saved`, `command`, ..."""
    automatic: bool = False
    """Whether a save asked for it: the program then writes no file of the workspace."""
    explicit: bool = False
    """Whether the user asked for this run: a question about it must be seen."""
    supersede: bool = False
    """Whether it takes the place of a run in flight; else it runs after that."""


TimedPlan = MeasurePlan | TunePlan
"""What a benchmark, or a search for the fastest configuration, is asked for."""


ASKED = Trigger("command", explicit=True, supersede=True)
"""The user, by a command or a button."""


class Analysis:
    """Decides on runs."""

    def __init__(
        self,
        state: State,
        ui: Ui,
        *,
        make_worker: Callable[[WorkerKey, Settings, Callable[[str], None]], OwnedWorker],
        find_interpreter: Callable[[Folder], Interpreter | None],
    ) -> None:
        """Start with no worker: the first run starts one."""
        self._state = state
        self._ui = ui
        self._unrunnable: set[Key] = set()
        """Runs that the interpreter of their folder could not make."""
        self._throttle = RunThrottle(state)
        self._on_disk = DiskTexts()
        self._program_lines: dict[str, tuple[int | None, int | None]] = {}
        """Of open files: the version of the text that was looked at, None for all until a save, and the line."""
        self._saved_meanwhile: dict[Key, dict[str, bool]] = {}
        """Files that were saved during each run in flight, and whether by the editor itself."""
        self.consent = Consent(state, ui)
        self._tasks: set[asyncio.Task[None]] = set()
        self.early = PendingUntilConfigured()
        """What is asked for before the client's settings are known."""
        self._identity = 0
        self.outcomes = ResultIntake(state, ui, generation=lambda: self.runs.generation)
        self.benches = BenchmarkSession(state, self.outcomes)
        self.tunings = TuningSession(state, self.outcomes, notes=self.benches.notes)
        self.workers = Workers(
            state,
            make_worker=make_worker,
            find_interpreter=find_interpreter,
            busy=lambda: {job.lane for job in self.runs.queue.jobs()},
            benchmark_turn=self.benches.turn,
            spawn=self._spawn,
        )
        self.stored = StoredResults(state)
        self.fixes = FixSession(state, self.outcomes, prepare=self._prepare_verification)
        self._environments = EnvironmentNotices(
            state, ui, spawn=self._spawn, run_again=lambda key: self._request((key,), ASKED)
        )
        self.live = LivePredictions(
            state,
            worker=self.workers.live,
            plan=self._plan_live,
            may_run=self._may_run_live,
            spawn=self._spawn,
            refresh=ui.refresh_lenses,
        )
        self.runs = Runs(
            worker=self.workers.run,
            deliver=self._deliver,
            changed=self._runs_changed,
            log=state.log,
            tell=lambda text: ui.say(text, error=True),
            partly=self._accept_part,
        )

    # What the user does

    def opened(self, path: str) -> None:
        """Take in that a file was opened, perhaps with unsaved text."""
        self._on_disk.note(path)
        self.outcomes.opened(path)

    def edited(self, document: Document) -> None:
        """Take in a file that another program has written as a saved one, once the editor has its text."""
        if self._on_disk.has_followed(document.path, document.source):
            self.saved(document.path, automatic=False)

    def saved(self, path: str, *, automatic: bool) -> None:
        """Run the targets of a saved file, and those whose last run used it, if the settings say so."""
        self._program_lines.clear()
        if self._state.at(path) is not None:
            self._on_disk.note(path)
        if self.early.keep(lambda: self.saved(path, automatic=automatic)):
            return
        document = self._state.at(path)
        if document is None or not document.runnable:
            return
        if document.reading().syntax_error is not None:
            self._state.log(f"no run of {path}: it does not parse")
            return
        self._drop_lost(path)
        if self._state.folder_of(path).settings.run != "save":
            return
        self._note_save(path, automatic=automatic)
        if automatic and not self._throttle.is_due(path, lambda: self.saved(path, automatic=True)):
            return
        self._run_after_save(
            path, self._planned(path), Trigger("saved", automatic=True, supersede=not automatic)
        )

    def command(
        self, path: str, target: str | None, tier: Tier = Tier.CAPTURE, plan: TimedPlan | None = None
    ) -> None:
        """Run a target (None: what the file compiles) because the user asked for it; timed runs by a plan."""
        if self.early.keep(lambda: self.command(path, target, tier, plan)):
            return
        folder = self._state.folder_of(path)
        planned = self._asked_for(path) if target is None else (Key(path, "" if target == MAIN else target),)
        keys = tuple(dataclasses.replace(key, tier=tier) for key in planned)
        if not self._state.trusted:
            self._ui.say("Fuselight runs no code in a workspace that is not trusted.", error=False)
        elif not keys:
            self._ui.say("Nothing here is compiled or has inputs: point at a target to run it.", error=False)
        else:
            self.consent.reopen(folder, path)
            self._request(keys, ASKED, plan)

    def use_program(self, path: str, target: str, program: str) -> None:
        """Get the inputs of a target from another file's program from now on, and run the target."""
        self._state.choose_program(path, target, program)
        self.consent.reopen(self._state.folder_of(path), program)
        self.command(path, target)

    def compile(self, key: Key) -> None:
        """Compile the kernel that `key` names, as its text is asked for; once, however often it is."""
        if key not in self._keys():
            self._request((key,), Trigger("its text is shown"))

    def changed_on_disk(self, path: str) -> None:
        """Take in that a file was written, perhaps by another program. An open one counts once the editor follows."""
        self._program_lines.clear()
        if not self.early.over:
            return
        document = self._state.at(path)
        if document is not None:
            if self._on_disk.was_written_by_others(path):
                self.edited(document)
            return
        self.outcomes.changed_on_disk(path)
        self._drop_lost(path)
        self._note_save(path, automatic=False)
        self._run_after_save(path, (), Trigger("changed on disk", automatic=True))
        self.live.changed_on_disk(path)

    def document_closed(self, document: Document) -> None:
        """Remove a closed document; run the targets again whose results do not hold for the file on the disk."""
        path = document.path
        self._program_lines.pop(path, None)
        self.fixes.cancel(path=path)
        text = disk_text(path) if document.runnable else None
        changes = document.source.become(text) if text is not None else []
        for change in changes:
            self.outcomes.edited(path, change)
        if changes:
            self._state.compare_with_text(path, document.source)
        self._state.close(document.uri)
        self._on_disk.forget(path)
        self.live.closed(path)
        used = [self._state.captures[key] for key in self._used_by_last_run(path)]
        if not changes and not any(path in one.changed_files for one in used):
            return
        if self.runs.in_flight or any(one.stale or path not in one.depends for one in used):
            self.changed_on_disk(path)

    def gone(self, path: str) -> None:
        """Take in that a file or a folder was deleted, renamed or closed as a workspace folder."""
        self.runs.cancel([key for key in self._keys() if within(key.path, path)])
        files = {file for result in self._state.captures.values() for file in result.depends}
        used = [file for file in files if within(file, path)]
        self._unrunnable = {key for key in self._unrunnable if not within(key.path, path)}
        self.outcomes.gone(path)
        self.live.gone(path)
        for file in used:
            self._run_after_save(file, (), Trigger("deleted", automatic=True))

    def cancel(self, path: str | None) -> None:
        """Cancel the runs of a file, but for timed ones, which have a button of their own (None: all runs)."""
        mine = [key for key in self._keys() if key.path == path and not key.is_timed]
        self.fixes.cancel(path=path)
        self.runs.cancel(None if path is None else mine)

    async def restart(self, folder: str | None) -> None:
        """End the workers of a folder (None: all); the next run starts fresh ones."""
        self.live.restart(folder)
        jobs = self.runs.queue.jobs()
        self.runs.cancel([job.key for job in jobs if folder is None or job.lane.folder == folder])
        self.fixes.cancel()
        await self.workers.end(folder)
        for one in self._state.folders.values():
            if folder is None or one.path == folder:
                one.problem = one.torch = None
        self._run_unrunnable(folder)
        self._ui.runs_changed()

    def _run_unrunnable(self, folder: str | None) -> None:
        """Drop the failures of an interpreter that could run nothing, and run their targets again."""
        keys = [key for key in self._unrunnable if folder in {None, self._state.folder_of(key.path).path}]
        self._unrunnable.difference_update(keys)
        by_path: dict[str, list[Key]] = {}
        for key in keys:
            result = self._state.results.get(key)
            self._state.drop([key])
            if result is not None and result.last_complete is not None:
                self._state.accept(result.last_complete)
            if not key.is_timed and not key.kernel and self.reading(key.path) is not None:
                by_path.setdefault(key.path, []).append(key)
        for again in by_path.values():
            self._request(tuple(again), Trigger("the interpreter was changed", automatic=True))

    async def close(self) -> None:
        """Cancel every run and end every worker."""
        self._throttle.close()
        # Together: a run whose worker is gone or stuck would be waited for, and its worker ended only then.
        await asyncio.gather(self.fixes.close(), self.live.close(), self.runs.close(), self.workers.close())

    # Requests

    def _keys(self) -> list[Key]:
        return [*self.runs.queue.waiting, *self.runs.queue.running]

    def _planned(self, path: str) -> tuple[Key, ...]:
        reading = self.reading(path)
        if reading is None:
            return ()
        options = self.outcomes.options_for(path)
        return tuple(Key(path, run.target.name) for run in default_runs(reading, options))

    def _asked_for(self, path: str) -> tuple[Key, ...]:
        """What the file compiles; of a program that compiles what none of its names stands for, the program."""
        planned, reading = self._planned(path), self.reading(path)
        if planned or reading is None:
            return planned
        options = self.outcomes.options_for(path)
        return (Key(path, ""),) if self._program_run(reading, options) is not None else ()

    def _program_run(self, reading: Reading, options: RunOptions) -> PlannedRun | None:
        document = self._state.at(reading.path)
        text = disk_text(reading.path) if document is None else document.source.text
        return Programs({reading.path: text or ""}, frozenset({reading.path})).run_of(reading, options.roots)

    async def program_line(self, document: Document) -> int | None:
        """The line of a program that compiles what none of its file's names stands for; None in every other file.

        Whether a `__main__` block compiles depends on the files that it imports, which are read again after a save.
        """
        path, reading = document.path, document.reading()
        version = document.version if reading.main_line is None else None
        known = self._program_lines.get(path)
        if known is None or known[0] != version:
            line = None
            if not self._planned(path):
                roots = self.outcomes.options_for(path).roots
                programs = Programs({path: document.source.text}, frozenset())
                run = await asyncio.to_thread(programs.run_of, reading, roots)
                line = run.target.line if run is not None else None
            known = self._program_lines[path] = version, line
        is_program = known[1] is not None
        return reading.main_line or known[1] if is_program else None

    def _run_after_save(self, path: str, planned: tuple[Key, ...], trigger: Trigger) -> None:
        """Run the targets `planned` of a file that was saved, and again the targets whose last run used the file."""
        wanted: dict[str, dict[Key, None]] = {path: dict.fromkeys(planned)}
        for key in self._used_by_last_run(path):
            now = self._target_now(key)
            if now is not None:
                wanted.setdefault(key.path, {})[dataclasses.replace(key, name=now)] = None
        for file, keys in wanted.items():
            self._request_after_save(path, file, tuple(keys), trigger)

    def _request_after_save(self, path: str, file: str, keys: tuple[Key, ...], trigger: Trigger) -> None:
        """Queue the runs of `keys`, targets of `file`, after a save of the file at `path`."""
        settings = self._state.folder_of(file).settings
        if settings.run != "save" or not keys:
            return
        self._throttle.began(path)
        tiers = (Tier.CAPTURE, Tier.KERNELS) if settings.kernels.when == "onSave" else (Tier.CAPTURE,)
        name = "" if file == path else f"{os.path.basename(path)} "  # noqa: PTH119 - paths stay text
        self._request(
            tuple(dataclasses.replace(key, tier=tier) for tier in tiers for key in keys),
            dataclasses.replace(trigger, cause=f"{name}{trigger.cause}"),
        )

    def _note_save(self, path: str, *, automatic: bool) -> None:
        for key in self.runs.in_flight:
            if key.tier is Tier.CAPTURE:
                self._saved_meanwhile.setdefault(key, {})[path] = automatic

    def _run_again(self, key: Key) -> None:
        """Run a target again if a file that its run used was saved with another text during the run.

        The save could not do it: which files a run uses is known only at its end.
        """
        result = self._state.captures.get(key)
        for path, automatic in self._saved_meanwhile.pop(key, {}).items():
            is_used = (
                result is not None and path in result.changed_files and key in self._used_by_last_run(path)
            )
            if not is_used or key in self.runs.queue.waiting:
                continue
            again = functools.partial(
                self._request_after_save,
                path,
                key.path,
                (key,),
                Trigger("saved during the run", automatic=True),
            )
            if not automatic or self._throttle.is_due(path, again):
                again()

    def _used_by_last_run(self, path: str) -> list[Key]:
        """Return the targets whose last run used a file, as far as the setting `runScope` reaches."""
        return [
            key
            for key, result in self._state.captures.items()
            if result.uses(path)
            and key.name != PROGRAM
            and (
                key.path == path
                or (scope := self._state.folder_of(key.path).settings.run_scope) == "workspace"
                or (scope == "openFiles" and self._state.at(key.path) is not None)
            )
        ]

    def _target_now(self, key: Key) -> str | None:
        """Name the target that a run of `key` runs now; None where its file no longer has one."""
        found = self._run_of(key)
        return found[0].target.name if found is not None else None

    def _run_of(
        self, key: Key, folder: Folder | None = None, *, with_buffers: bool = False
    ) -> tuple[PlannedRun, RunOptions] | None:
        """Plan the run of a target in a folder, that of its file by default; None where its file no longer has it."""
        reading = self.reading(key.path)
        if reading is None:
            return None
        options = self.outcomes.options_for(key.path, folder, with_buffers=with_buffers)
        runs = named_runs(reading, [key.name or MAIN], options)
        run = runs[0] if runs else None
        if run is None and not key.name:
            run = self._program_run(reading, options)
        return (run, options) if run is not None else None

    def _drop_lost(self, path: str) -> None:
        """Drop the results of targets that a file no longer has, or that another target runs for now."""
        keys = [key for key in self._state.results if key.path == path and key.name != PROGRAM]
        self._state.drop(key for key in keys if self._target_now(key) != key.name)

    def _request(self, keys: tuple[Key, ...], trigger: Trigger, plan: TimedPlan | None = None) -> None:
        """Queue the runs of `keys`, all of one file, that the user has agreed to; ask about the others."""
        folder = self._state.folder_of(keys[0].path) if keys else None
        if folder is None or not self._state.trusted or folder.consent in {"never", "later"}:
            return
        interpreter = self.workers.interpreter(folder)
        if interpreter is None:
            folder.problem = "no Python interpreter was found"
            self._ui.runs_changed()
            return
        allowed = self._allowed(
            folder,
            keys,
            trigger,
            interpreter.executable,
            lambda wanted: self._request(wanted, trigger, plan),
        )
        if not allowed:
            return
        lane = worker_key(folder, interpreter, for_benchmarks=plan is not None)
        generation = self.runs.next_generation()
        for key in allowed:
            if key.tier is Tier.CAPTURE:
                self._throttle.began(key.path)
            make = self._maker(key, folder, generation, plan, automatic=trigger.automatic)
            self.runs.request(Job(key, lane, generation, trigger.cause, make), supersede=trigger.supersede)

    def _allowed(
        self,
        folder: Folder,
        keys: tuple[Key, ...],
        trigger: Trigger,
        executable: str,
        again: Callable[[tuple[Key, ...]], None],
    ) -> list[Key]:
        """Return the runs that the user has agreed to; ask about those that the user has not been asked about.

        `again` is called with these once the user has answered.
        """
        by_program: dict[tuple[str | None, bool], list[Key]] = {}
        for key in keys:
            program = self._program_of(key)
            by_program.setdefault((program, program != key.path), []).append(key)
        allowed: set[Key] = set()
        for (program, is_part), wanted in by_program.items():
            mine = tuple(wanted)
            if program is None:
                agreed = None if folder.consent == "unknown" else folder.consent == RUN
                question = folder_question(folder, mine, executable, explicit=trigger.explicit)
            else:
                agreed = self.consent.for_program(program, automatic=trigger.automatic, is_part=is_part)
                question = program_question(folder, mine, executable, program, explicit=trigger.explicit)
            if agreed:
                allowed.update(mine)
            elif agreed is None:
                asking = self.consent.wait(question, mine, functools.partial(again, mine))
                if asking is not None:
                    self._spawn(asking, "asking about a run")
            elif program is not None:
                self._state.log(f"no run of the program in {program}: {trigger.cause}")
        return [key for key in keys if key in allowed]

    def _program_of(self, key: Key) -> str | None:
        """The file whose program a run of `key` would run; a timed one does, up to the call that it measures."""
        if key.kernel or (key.is_timed and not key.name):
            return None
        found = self._run_of(key)
        return found[0].program if found is not None else None

    def _may_run(self, program: str, key: Key, *, automatic: bool) -> bool:
        """Whether the user has agreed that a run of `key` runs this program."""
        is_part = program != key.path
        return bool(self.consent.for_program(program, automatic=automatic, is_part=is_part))

    def _spawn(self, work: Coroutine[Any, Any, None], what: str) -> None:
        """Run `work` on the loop; its failure is logged as that of `what`."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)

        def done(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            error = None if task.cancelled() else task.exception()
            if error is not None:
                trace = "".join(traceback.format_exception(error))
                self._state.log(f"{what} failed: {error!r}\n{trace}")

        task.add_done_callback(done)

    def _maker(
        self, key: Key, folder: Folder, generation: int, plan: TimedPlan | None, *, automatic: bool
    ) -> Callable[[], RunRequest | None]:
        def make() -> RunRequest | None:
            # The folder that was asked for: it has the interpreter, even if another one holds the file by now.
            request = self._current_request(key, folder, generation, automatic=automatic)
            if request is None:
                return None
            self.outcomes.begin(key)
            if plan is None:
                return self.outcomes.request_for(key, request)
            self.benches.begin(key)
            return (
                tune_request(request, plan) if isinstance(plan, TunePlan) else measure_request(request, plan)
            )

        return make

    def _current_request(
        self, key: Key, folder: Folder, generation: int, *, automatic: bool
    ) -> RunRequest | None:
        """The run of a target as the editor has its files; None where its file no longer has it."""
        found = self._run_of(key, folder, with_buffers=True) if self._state.trusted else None
        if found is None:
            return None
        planned, options = found
        self._identity += 1
        request = planned.request(self._identity, generation, options)
        return self._without_programs(dataclasses.replace(request, automatic=automatic), automatic=automatic)

    def _without_programs(self, request: RunRequest, *, automatic: bool) -> RunRequest:
        """The same run without the programs that may not run: the worker must not fall back to them either."""
        inputs = request.inputs
        if not self.consent.for_program(request.target.path, automatic=automatic):
            inputs = dataclasses.replace(inputs, main_line=None)
        if not self.consent.for_program(inputs.program, automatic=automatic, is_part=True):
            inputs = dataclasses.replace(inputs, program="")
        return dataclasses.replace(request, inputs=inputs)

    def _prepare_verification(self, key: Key, automatic: bool) -> PreparedRun | None:  # noqa: FBT001 - a callback
        """Prepare runs that verify a fix: they start no sooner than the user has agreed to runs of the target."""
        folder = self._state.folder_of(key.path)
        interpreter = self.workers.interpreter(folder)
        if not self._state.trusted or folder.consent != RUN or interpreter is None:
            return None
        program = self._program_of(key)
        if program is not None and not self._may_run(program, key, automatic=automatic):
            return None
        request = self._current_request(key, folder, self.runs.generation, automatic=True)
        lane = worker_key(folder, interpreter)
        return PreparedRun(request, functools.partial(self._execute, lane), repr(lane)) if request else None

    async def _execute(
        self, lane: WorkerKey, request: RunRequest, on_progress: Callable[[Progress], None]
    ) -> Report:
        """Run a request beside the queue. Raises InterruptedVerificationError."""
        outcome = await self.workers.run(lane)(request, on_progress, lambda _report: None)
        if isinstance(outcome, Answer):
            return outcome.report
        failure = outcome.failure
        if failure is None or failure.culprit in {Culprit.ENVIRONMENT, Culprit.FUSELIGHT}:
            raise InterruptedVerificationError(failure.message if failure is not None else outcome.reason)
        return self.workers.failure_report(lane, request, failure)

    def agrees_to_verification(self, key: Key, go_on: Callable[[], None]) -> bool:
        """Whether runs of a target that the user asks for are allowed; where that is unknown, the user is asked.

        `go_on` is called when the user has agreed. Where no run is possible, a message says why.
        """
        folder = self._state.folder_of(key.path)
        interpreter = self.workers.interpreter(folder)
        if not self._state.trusted:
            self._ui.say("Fuselight runs no code in a workspace that is not trusted.", error=False)
            return False
        if interpreter is None:
            self._ui.say("A fix is verified by running it, but no Python interpreter was found.", error=False)
            return False
        self.consent.reopen(folder, key.path)
        trigger = Trigger("a fix was chosen", explicit=True)
        return bool(self._allowed(folder, (key,), trigger, interpreter.executable, lambda _wanted: go_on()))

    def reading(self, path: str) -> Reading | None:
        """Read a file as the editor has it, else as it is on disk; None where it cannot be read."""
        document = self._state.at(path)
        if document is not None:
            return document.reading()
        text = disk_text(path)
        return None if text is None else read_source(path, text)

    # Live runs

    def _plan_live(self, key: Key, text: str, request: RunRequest | None) -> RunRequest | None:
        """Return the request of a live run, from that of the last run, else from the text that ran."""
        if request is None:
            options = self.outcomes.options_for(key.path)
            runs = named_runs(read_source(key.path, text), [key.name or MAIN], options)
            request = runs[0].request(0, 0, options) if runs else None
        return self._without_programs(request, automatic=True) if request is not None else None

    def _may_run_live(self, key: Key) -> bool:
        """Whether a save would run a target now, without a question."""
        folder = self._state.folder_of(key.path)
        if not self._state.trusted or folder.settings.run != "save":
            return False
        program = self._program_of(key)
        if program is not None:
            return self._may_run(program, key, automatic=True)
        return folder.consent == RUN

    # Answers

    def _runs_changed(self) -> None:
        self.outcomes.collect_for(self.runs.in_flight)
        self._saved_meanwhile = {
            key: saved for key, saved in self._saved_meanwhile.items() if key in self.runs.in_flight
        }
        self.benches.watch(self.runs.in_flight)
        self._ui.runs_changed()

    async def _accept_part(self, job: Job, report: Report | None) -> None:
        if job.key.tier is Tier.TUNED:
            running = self.runs.in_flight.get(job.key)
            if running is not None and report is not None and report.tuned is not None:
                running.remark = progress_best(report.tuned)
            await self.tunings.accept_part(job, report)
        else:
            intake = self.benches if job.key.tier is Tier.MEASURED else self.outcomes
            await intake.accept_part(job, report)

    async def _deliver(self, job: Job, request: RunRequest, outcome: Answer | Refused) -> None:
        if isinstance(outcome, Answer):
            report = outcome.report
        elif outcome.failure is None:
            self._state.log(f"run {job.generation} was refused: {outcome.reason}")
            return
        else:
            report = self.workers.failure_report(job.lane, request, outcome.failure)
        self._note_environment(self._state.folder_of(job.key.path), job, report)
        if job.key.tier is Tier.MEASURED:
            await self.benches.accept(job, report)
        elif job.key.tier is Tier.TUNED:
            await self.tunings.accept(job, report)
        else:
            await self.outcomes.accept(job, report, request.overlays)
            result = self._state.captures.get(job.key)
            if job.key.tier is Tier.CAPTURE:
                self.live.accepted(job.key, request)
            if result is not None and result.report is report:
                if lacks_inputs(report):
                    self._spawn(self.outcomes.look_for_programs(result), "looking for programs with inputs")
                await self.stored.keep(result)
            self._run_again(job.key)

    def _note_environment(self, folder: Folder, job: Job, report: Report) -> None:
        """Take in what a run says of its interpreter; where no run can work, the rest of the queue need not try."""
        if self._environments.note(folder, job.key, report):
            self._unrunnable.discard(job.key)
        else:
            same = [key for key, one in self.runs.queue.waiting.items() if one.lane == job.lane]
            self.runs.queue.drop(same)
            self._unrunnable.update({job.key, *same})
        self._state.log(f"run {job.generation}: {len(report.frames)} frames, {len(report.breaks)} breaks")
