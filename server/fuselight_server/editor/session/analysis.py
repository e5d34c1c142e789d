"""The wiring of a session: its parts, and what concerns all of them.

Who decides what: `permissions.py` whether code may run, `run_requests.py` what is queued, `save_runs.py` what a save
runs, `document_events.py` in which order an event is taken in, `deliveries.py` who gets the outcome of a run.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from fuselight_server.editor.session.agents import AttachedAgents
from fuselight_server.editor.session.background import BackgroundTasks, log_failures
from fuselight_server.editor.session.benchmarks import BenchmarkSession
from fuselight_server.editor.session.change_notices import ChangeNotices
from fuselight_server.editor.session.consent import Consent
from fuselight_server.editor.session.deliveries import Deliveries, UnrunnableTargets
from fuselight_server.editor.session.disk_texts import DiskTexts
from fuselight_server.editor.session.document_events import DocumentEvents
from fuselight_server.editor.session.environment_notices import EnvironmentNotices
from fuselight_server.editor.session.failed_tests import FailedTestReader
from fuselight_server.editor.session.fix_session import FixSession
from fuselight_server.editor.session.intake import ResultIntake
from fuselight_server.editor.session.jobs import JobSession
from fuselight_server.editor.session.live import LivePredictions
from fuselight_server.editor.session.permissions import RunPermissions
from fuselight_server.editor.session.program_reports import ProgramReports
from fuselight_server.editor.session.run_edits import RunEdits
from fuselight_server.editor.session.run_ends import CANCELED, RESTARTED, RunEnd
from fuselight_server.editor.session.run_options import RunContext
from fuselight_server.editor.session.run_requests import CurrentRequests, RunRequests
from fuselight_server.editor.session.save_runs import SaveRuns
from fuselight_server.editor.session.stored_results import StoredResults
from fuselight_server.editor.session.target_runs import ProgramLines, TargetRuns
from fuselight_server.editor.session.throttle import PendingUntilConfigured, RunThrottle
from fuselight_server.editor.session.triggers import ASKED
from fuselight_server.editor.session.tunings import TuningSession
from fuselight_server.editor.session.verification_runs import VerificationRuns
from fuselight_server.editor.session.workers import Workers
from fuselight_server.execution.runs.queue import Runs

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuselight.shared.protocol import Answer, Refused, RunRequest
    from fuselight.shared.report import Report
    from fuselight_server.base.settings import Interpreter, Settings
    from fuselight_server.editor.session.state import Folder, State
    from fuselight_server.editor.session.ui import Ui
    from fuselight_server.execution.runs.keys import WorkerKey
    from fuselight_server.execution.runs.queue import Job, OwnedWorker


class Analysis:
    """The parts of a session. A worker is started by the first run that needs one."""

    def __init__(
        self,
        state: State,
        ui: Ui,
        *,
        make_worker: Callable[[WorkerKey, Settings, Callable[[str], None]], OwnedWorker],
        find_interpreter: Callable[[Folder], Interpreter | None],
        tasks: BackgroundTasks | None = None,
    ) -> None:
        """Put the parts together; failures of `tasks` are logged by default."""
        self._state, self._ui = state, ui
        self.tasks = tasks or BackgroundTasks(log_failures(state.log))
        self.early = PendingUntilConfigured()
        """What is asked for before the client's settings are known."""
        self.throttle = RunThrottle(state)
        self.notices = ChangeNotices(state, ui)
        self.edits = RunEdits(state)
        self.intake = ResultIntake(state, self.edits)
        self.program_reports = ProgramReports(state, generation=lambda: self.runs.generation)
        self.failed_tests = FailedTestReader(state)
        self.benches = BenchmarkSession(state, self.edits)
        self.tunings = TuningSession(state, self.edits, notes=self.benches.notes)
        self.stored = StoredResults(state)
        self.jobs = JobSession(state)
        self.workers = Workers(
            state,
            make_worker=make_worker,
            find_interpreter=find_interpreter,
            busy=lambda: {job.worker_key for job in self.runs.queue.jobs()},
            benchmark_turn=self.benches.turn,
            tasks=self.tasks,
        )
        self.agents = AttachedAgents(state, ui, self.workers.interpreter)
        self.runs = Runs(
            worker=self.workers.run,
            deliver=self._deliver,
            changed=self._runs_changed,
            log=state.log,
            tell=lambda text: ui.say(text, error=True),
            partly=self._accept_part,
            ended=self._note_end,
        )
        self._wire_requests()
        self._wire_predictions()
        self._wire_events()

    def _wire_requests(self) -> None:
        """What becomes a run."""
        self.consent = Consent(self._state, self._ui)
        context = RunContext(self._state)
        self.targets = TargetRuns(self._state, context)
        self.program_lines = ProgramLines(self.targets, context)
        self.permissions = RunPermissions(self._state, self.consent, self.targets, self.tasks)
        self._current = CurrentRequests(self._state, self.targets, self.permissions)
        self.requests = RunRequests(
            self._state,
            self._ui,
            self.runs,
            targets=self.targets,
            consent=self.consent,
            permissions=self.permissions,
            current=self._current,
            workers=self.workers,
            throttle=self.throttle,
            context=context,
            edits=self.edits,
            benches=self.benches,
            early=self.early,
        )
        self._saves = SaveRuns(
            self._state, self.runs, targets=self.targets, requests=self.requests, throttle=self.throttle
        )

    def _wire_predictions(self) -> None:
        """What runs beside the queue: verifications of fixes, and live runs."""
        self.verification_runs = VerificationRuns(
            self._state,
            self._ui,
            self.runs,
            consent=self.consent,
            permissions=self.permissions,
            current=self._current,
            workers=self.workers,
        )
        self.fixes = FixSession(
            self._state, self.intake, prepare=self.verification_runs.prepare, keep=self.stored.keep_trials
        )
        self.live = LivePredictions(
            self._state,
            worker=self.workers.live,
            plan=self._current.live,
            may_run=self.permissions.permits_live,
            refresh=self._ui.refresh_lenses,
        )

    def _wire_events(self) -> None:
        """What comes from the queue and from the client."""
        environments = EnvironmentNotices(
            self._state,
            self._ui,
            interpreter=self.workers.interpreter,
            tasks=self.tasks,
            run_again=lambda key: self.requests.request((key,), ASKED),
        )
        self._unrunnable = UnrunnableTargets(self._state, self.runs, environments)
        self._deliveries = Deliveries(
            self._state,
            self.runs,
            workers=self.workers,
            unrunnable=self._unrunnable,
            intake=self.intake,
            benches=self.benches,
            tunings=self.tunings,
            stored=self.stored,
            live=self.live,
            fixes=self.fixes,
            saves=self._saves,
            tasks=self.tasks,
        )
        self.documents = DocumentEvents(
            self._state,
            self.runs,
            on_disk=DiskTexts(),
            edits=self.edits,
            stored=self.stored,
            fixes=self.fixes,
            live=self.live,
            targets=self.targets,
            program_lines=self.program_lines,
            requests=self.requests,
            saves=self._saves,
            unrunnable=self._unrunnable,
            environments=environments,
            early=self.early,
            tasks=self.tasks,
        )

    def cancel(self, path: str | None) -> None:
        """Cancel the runs of a file, but for timed ones, which have a button of their own (None: all runs)."""
        of_file = [key for key in self.requests.active() if key.path == path and not key.is_timed]
        self.fixes.cancel(path=path)
        self.runs.cancel(None if path is None else of_file)

    async def restart(self, folder: str | None, why: str = RESTARTED) -> None:
        """End the workers of a folder (None: all); the next run starts fresh ones. `why` in words."""
        self.live.restart(folder)
        jobs = self.runs.queue.jobs()
        of_folder = [job.key for job in jobs if folder is None or job.worker_key.folder == folder]
        self.runs.cancel(of_folder, why)
        self.fixes.cancel()
        await self.workers.end(folder)
        for known in self._state.folders.values():
            if folder is None or known.path == folder:
                known.problem = known.torch = None
        self._unrunnable.run_again(folder, self.targets, self.requests)
        for document in self._state.documents.values():
            if document.runnable and folder in {None, self._state.folder_of(document.path).path}:
                self.documents.look_at_interpreter(document)
        self._ui.runs_changed()

    async def close(self) -> None:
        """Cancel every run and end every worker."""
        self.throttle.close()
        self.jobs.end()
        # Together: a run whose worker is gone or stuck would be waited for, and its worker ended only then.
        await asyncio.gather(
            self.fixes.close(),
            self.live.close(),
            self.runs.close(),
            self.workers.close(),
            self.agents.close(),
        )

    # The queue is made before those that it calls: they request further runs of it.

    async def _deliver(self, job: Job, request: RunRequest, outcome: Answer | Refused) -> None:
        await self._deliveries.accept(job, request, outcome)

    async def _accept_part(self, job: Job, report: Report | None) -> None:
        await self._deliveries.accept_part(job, report)

    def _note_end(self, job: Job, why: str) -> None:
        self._state.note_run_end(job.key, RunEnd(why or CANCELED))

    def _runs_changed(self) -> None:
        running = self.runs.in_flight
        self.edits.collect_for(running)
        self._saves.keep_for(running)
        self.benches.watch(running)
        self._ui.runs_changed()
