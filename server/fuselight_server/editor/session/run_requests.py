"""Requests of runs: what the user asks for or a save causes becomes a job of the queue.

Invariant: a job is queued for a cause that is logged, after `permissions.py` has permitted it, and its request is made
from the texts of the moment when it begins.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

from fuselight.shared.protocol import MeasurePlan, RunRequest, TunePlan
from fuselight.shared.report import Tier
from fuselight_server.editor.session.permissions import AskedRuns
from fuselight_server.editor.session.triggers import ASKED, Trigger
from fuselight_server.editor.session.workers import worker_key
from fuselight_server.execution.runs.keys import Key
from fuselight_server.execution.runs.planning import MAIN
from fuselight_server.execution.runs.queue import Job
from fuselight_server.explain.benchmarks.planning import measure_request
from fuselight_server.explain.searches.planning import tune_request

if TYPE_CHECKING:
    from fuselight_server.editor.session.benchmarks import BenchmarkSession
    from fuselight_server.editor.session.consent import Consent
    from fuselight_server.editor.session.permissions import RunPermissions
    from fuselight_server.editor.session.run_edits import RunEdits
    from fuselight_server.editor.session.run_options import RunContext
    from fuselight_server.editor.session.state import Folder, State
    from fuselight_server.editor.session.target_runs import TargetRuns
    from fuselight_server.editor.session.throttle import PendingUntilConfigured, RunThrottle
    from fuselight_server.editor.session.ui import Ui
    from fuselight_server.editor.session.workers import Workers
    from fuselight_server.execution.runs.queue import Runs

TimedPlan = MeasurePlan | TunePlan
"""What a benchmark, or a search for the fastest configuration, is asked for."""
NO_INTERPRETER = "no Python interpreter was found"
UNTRUSTED = "Fuselight runs no code in a workspace that is not trusted."


class CurrentRequests:
    """Makes requests from the texts of now."""

    def __init__(self, state: State, targets: TargetRuns, permissions: RunPermissions) -> None:
        self._state = state
        self._targets = targets
        self._permissions = permissions
        self._identities = itertools.count(1)

    def of(self, key: Key, folder: Folder, generation: int, *, automatic: bool) -> RunRequest | None:
        """The run of a target as the editor has its files; None where its file no longer has it."""
        planned = self._targets.of(key, folder, with_buffers=True) if self._state.trusted else None
        if planned is None:
            return None
        run, options = planned
        request = run.request(next(self._identities), generation, options)
        return self._permissions.without_programs(
            dataclasses.replace(request, automatic=automatic), automatic=automatic
        )

    def live(self, key: Key, text: str, request: RunRequest | None) -> RunRequest | None:
        """Return the request of a live run, from that of the last run, else from the text that ran."""
        if request is None:
            request = self._targets.request_of_text(key, text)
        return self._permissions.without_programs(request, automatic=True) if request is not None else None


class RunRequests:
    """Queues runs."""

    def __init__(
        self,
        state: State,
        ui: Ui,
        runs: Runs,
        *,
        targets: TargetRuns,
        consent: Consent,
        permissions: RunPermissions,
        current: CurrentRequests,
        workers: Workers,
        throttle: RunThrottle,
        context: RunContext,
        edits: RunEdits,
        benches: BenchmarkSession,
        early: PendingUntilConfigured,
    ) -> None:
        self._state, self._ui, self._runs = state, ui, runs
        self._targets, self._consent, self._permissions = targets, consent, permissions
        self._current, self._workers, self._throttle = current, workers, throttle
        self._context, self._edits = context, edits
        self._benches, self._early = benches, early

    def command(
        self, path: str, target: str | None, tier: Tier = Tier.CAPTURE, plan: TimedPlan | None = None
    ) -> None:
        """Run a target (None: what the file compiles) because the user asked for it; timed runs by a plan."""
        if self._early.keep(lambda: self.command(path, target, tier, plan)):
            return
        if target is None:
            named = self._targets.compiled_or_program(path)
        else:
            named = (Key(path, "" if target == MAIN else target),)
        keys = tuple(dataclasses.replace(key, tier=tier) for key in named)
        if not self._state.trusted:
            self._ui.say(UNTRUSTED, error=False)
        elif not keys:
            self._ui.say("Nothing here is compiled or has inputs: point at a target to run it.", error=False)
        else:
            self._consent.reopen(self._state.folder_of(path), path)
            self.request(keys, ASKED, plan)

    def use_program(self, path: str, target: str, program: str) -> None:
        """Get the inputs of a target from another file's program from now on, and run the target."""
        self._state.choose_program(path, target, program)
        self._consent.reopen(self._state.folder_of(path), program)
        self.command(path, target)

    def compile(self, key: Key) -> None:
        """Compile the kernel that `key` names, as its text is asked for; once, however often it is."""
        if key not in self.active():
            self.request((key,), Trigger("its text is shown"))

    def active(self) -> list[Key]:
        """The runs that wait or are in flight."""
        return [*self._runs.queue.waiting, *self._runs.queue.running]

    def request(self, keys: tuple[Key, ...], trigger: Trigger, plan: TimedPlan | None = None) -> None:
        """Queue the runs of `keys`, all of one file, that the user has agreed to; ask about the others."""
        folder = self._state.folder_of(keys[0].path) if keys else None
        if folder is None or not self._state.trusted or folder.consent in {"never", "later"}:
            return
        self._state.forget_run_ends(keys)
        interpreter = self._workers.interpreter(folder)
        if interpreter is None:
            self._note_missing_interpreter(folder, explicit=trigger.explicit)
            return
        permitted = self._permissions.permitted(
            AskedRuns(folder, keys, trigger, interpreter.executable),
            lambda answered: self.request(answered, trigger, plan),
        )
        if not permitted:
            return
        worker = worker_key(folder, interpreter, for_benchmarks=plan is not None)
        generation = self._runs.next_generation()
        for key in permitted:
            if key.tier is Tier.CAPTURE:
                self._throttle.began(key.path)
            make = self._maker(key, folder, generation, plan, automatic=trigger.automatic)
            self._runs.request(Job(key, worker, generation, trigger.cause, make), supersede=trigger.supersede)

    def _note_missing_interpreter(self, folder: Folder, *, explicit: bool) -> None:
        """Show that nothing can run in a folder: in its status, or in a message, once or as the user asks for runs."""
        if not self._state.client.shows_status and (explicit or folder.problem != NO_INTERPRETER):
            self._ui.say(
                "No Python interpreter was found: set `fuselight.interpreter` to one that has torch.",
                error=True,
            )
        folder.problem = NO_INTERPRETER
        self._ui.runs_changed()

    def _maker(
        self, key: Key, folder: Folder, generation: int, plan: TimedPlan | None, *, automatic: bool
    ) -> Callable[[], RunRequest | None]:
        def make() -> RunRequest | None:
            # The folder that was asked for: it has the interpreter, even if another one holds the file by now.
            request = self._current.of(key, folder, generation, automatic=automatic)
            if request is None:
                return None
            self._edits.begin(key)
            if plan is None:
                return self._context.request_for(key, request)
            self._benches.begin(key)
            return (
                tune_request(request, plan) if isinstance(plan, TunePlan) else measure_request(request, plan)
            )

        return make
