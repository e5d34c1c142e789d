"""The wiring of a session: its parts, and what concerns all of them.

Who decides what: `consent.py` whether code may run, `run_requests.py` what a save or a command runs,
`document_events.py` in which order an event is taken in, `deliveries.py` who gets the outcome of a run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fuselight.shared.protocol import Answer, Refused, RunRequest
from fuselight.shared.report import Report, Tier
from fuselight_server.base.background import BackgroundTasks, log_failures
from fuselight_server.base.settings import Interpreter, Settings
from fuselight_server.editor.results.run_ends import CANCELED, RESTARTED, RunEnd
from fuselight_server.editor.session.agents import AttachedAgents
from fuselight_server.editor.session.background_runs import BackgroundRuns
from fuselight_server.editor.session.consent import RunPermissions
from fuselight_server.editor.session.deliveries import ChangeNotices, Deliveries
from fuselight_server.editor.session.document_events import DocumentEvents
from fuselight_server.editor.session.environments import Environments
from fuselight_server.editor.session.fix_session import FixSession
from fuselight_server.editor.session.jobs import JobSession
from fuselight_server.editor.session.live import LivePredictions
from fuselight_server.editor.session.on_demand_results import ComparisonSession, EstimateSession
from fuselight_server.editor.session.run_requests import RunRequests, SaveRuns
from fuselight_server.editor.session.session import PendingUntilConfigured, RunEdits, Session
from fuselight_server.editor.session.state import Folder, State
from fuselight_server.editor.session.stored_results import FailedTestReader, ProgramReports, StoredResults
from fuselight_server.editor.session.target_runs import TargetRuns
from fuselight_server.editor.session.timed_results import BenchmarkSession, TuningSession
from fuselight_server.editor.session.ui import Ui
from fuselight_server.editor.session.verifications import VerificationRuns
from fuselight_server.editor.session.workers import Workers
from fuselight_server.execution.runs.keys import WorkerKey
from fuselight_server.execution.runs.queue import Job, OwnedWorker, Run, Runs


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
        """Put the parts together, each after those that it calls; failures of `tasks` are logged by default."""
        self._state, self._ui = state, ui
        self.tasks = tasks or BackgroundTasks(log_failures(state.log))
        self.runs = Runs(
            worker=self._worker,
            deliver=self._deliver,
            changed=self._runs_changed,
            log=state.log,
            tell=lambda text: ui.say(text, error=True),
            partly=self._accept_part,
            ended=self._note_end,
        )
        self.edits, self.early = RunEdits(state), PendingUntilConfigured()
        session = Session(state, ui, self.runs, self.tasks, self.edits, self.early)
        self.notices = ChangeNotices(state, ui)
        # What becomes a run.
        self.workers = Workers(session, make_worker=make_worker, find_interpreter=find_interpreter)
        self.targets = TargetRuns(state)
        self.permissions = RunPermissions(session, self.targets)
        self.consent = self.permissions.consent
        self.benches = BenchmarkSession(session)
        self.tunings = TuningSession(session, self.benches)
        self.comparisons, self.estimates = ComparisonSession(session), EstimateSession(session)
        self.requests = RunRequests(session, self.permissions, self.workers, self.benches, self.comparisons)
        self.saves = SaveRuns(session, self.requests)
        self._environments = Environments(session, self.requests, self.workers)
        # What runs beside the queue, and what others have left in files.
        self.stored = StoredResults(state)
        self.program_reports = ProgramReports(state, generation=lambda: self.runs.generation)
        self.failed_tests = FailedTestReader(state)
        self.jobs = JobSession(state)
        self.agents = AttachedAgents(state, ui, self.workers.interpreter)
        self.verification_runs = VerificationRuns(session, self.permissions, self.workers)
        self.fixes = FixSession(state, prepare=self.verification_runs.prepare, keep=self.stored.keep_trials)
        self.background_runs = BackgroundRuns(
            session, self.requests, lambda: [active.task for active in self.fixes.tasks.active.values()]
        )
        self.requests.on_request = self.background_runs.requested
        self.live = LivePredictions(
            state,
            worker=self.workers.live,
            plan=self.permissions.live_request,
            may_run=self.permissions.permits_live,
            refresh=ui.refresh_lenses,
        )
        # What comes from the queue and from the client.
        self._deliveries = Deliveries(
            session,
            self.workers,
            environments=self._environments,
            timed={
                Tier.MEASURED: self.benches,
                Tier.TUNED: self.tunings,
                Tier.ACCURACY: self.comparisons,
                Tier.MEMORY: self.estimates,
            },
            stored=self.stored,
            live=self.live,
            fixes=self.fixes,
            saves=self.saves,
        )
        self._deliveries.on_capture = self.background_runs.captured
        self.intake = self._deliveries.intake
        self.documents = DocumentEvents(
            session,
            environments=self._environments,
            stored=self.stored,
            fixes=self.fixes,
            live=self.live,
            saves=self.saves,
        )
        self.documents.on_edit = self.background_runs.edited

    def cancel(self, path: str | None) -> None:
        """Cancel the runs of a file, but for those with a button of their own (None: all runs)."""
        of_file = [
            key
            for key in [*self.runs.queue.waiting, *self.runs.queue.running]
            if key.path == path and not key.has_own_worker
        ]
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
        self._environments.run_again(folder)
        for document in self._state.documents.values():
            if document.runnable and folder in {None, self._state.folder_of(document.path).path}:
                self._environments.look(document)
        self._ui.runs_changed()

    async def close(self) -> None:
        """Cancel every run and end every worker."""
        self.requests.throttle.close()
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

    def _worker(self, key: WorkerKey) -> Run:
        return self.workers.run(key)

    async def _deliver(self, job: Job, request: RunRequest, outcome: Answer | Refused) -> None:
        await self._deliveries.accept_outcome(job, request, outcome)

    async def _accept_part(self, job: Job, report: Report | None) -> None:
        await self._deliveries.accept_part(job, report)

    def _note_end(self, job: Job, why: str) -> None:
        self._state.note_run_end(job.key, RunEnd(why or CANCELED))

    def _runs_changed(self) -> None:
        running = self.runs.in_flight
        self.edits.collect_for(running)
        self.saves.keep_for(running)
        self.background_runs.runs_changed()
        self.benches.watch(running)
        self._ui.runs_changed()
