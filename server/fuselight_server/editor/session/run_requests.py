"""What becomes a run: from the event, a save or a command of the user, to the job in the queue.

Invariants:

* A job is queued for a cause that is logged, after `consent.py` has permitted it, and its request is made from the
  texts of the moment when it begins.
* Which files a run uses is known only at its end. A file that is saved with another text during the run makes the
  target run again after it.
* A text that the editor itself saved is never taken for that of another program, which counts as saved, too: an editor
  says when it saves; of a checkout it only says that the file has changed, before or after its buffer has the new text.
* An editor with auto-save runs a file once in ten seconds: saves that came too early lead to one later run, of the text
  at that time. Only open files have an entry.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import os
import time
from collections.abc import Callable, Container

from fuselight.shared.measurement_plans import MeasurePlan, TunePlan
from fuselight.shared.protocol import RunRequest
from fuselight.shared.report import Tier
from fuselight_server.editor.results.captures import PROGRAM
from fuselight_server.editor.results.snapshot import Document
from fuselight_server.editor.results.target_result import keys_of, keys_on_disk
from fuselight_server.editor.session.consent import ASKED, UNTRUSTED, AskedRuns, RunPermissions, Trigger
from fuselight_server.editor.session.on_demand_results import ComparisonSession
from fuselight_server.editor.session.session import Session
from fuselight_server.editor.session.state import Folder, State
from fuselight_server.editor.session.target_runs import ProgramLines
from fuselight_server.editor.session.timed_results import BenchmarkSession
from fuselight_server.editor.session.workers import Workers, worker_key
from fuselight_server.execution.runs.keys import Key
from fuselight_server.execution.runs.planning import MAIN
from fuselight_server.execution.runs.queue import Job
from fuselight_server.explain.benchmarks.planning import measure_request
from fuselight_server.explain.searches.planning import tune_request
from fuselight_server.source.document import SourceDocument

TimedPlan = MeasurePlan | TunePlan
"""What a benchmark, or a search for the fastest configuration, is asked for."""
NO_INTERPRETER = "no Python interpreter was found"
AUTOSAVE_SECONDS = 10.0
"""Least time between two runs of a file that nobody asked for but an automatic save."""


class SaveRuns:
    """Takes in saves: runs the targets of the file, and those whose last run used it, if the settings say so."""

    def __init__(self, session: Session, requests: RunRequests) -> None:
        self._session, self._state, self._requests = session, session.state, requests
        self._targets = requests.permissions.targets
        self.on_disk = DiskTexts()
        self.program_lines = ProgramLines(self._targets)
        self._saved_meanwhile: dict[Key, dict[str, bool]] = {}
        """Files that were saved during each run in flight, and whether by the editor itself."""

    def saved(self, path: str, *, automatic: bool) -> None:
        """Take in a save of a file. `automatic`: the editor saved by itself, not the user."""
        self.program_lines.forget_lines()
        if self._state.documents.at(path) is not None:
            self.on_disk.note(path)
        self._run_saved(path, automatic=automatic)

    def _run_saved(self, path: str, *, automatic: bool) -> None:
        if self._session.early.keep_request(lambda: self._run_saved(path, automatic=automatic)):
            return
        document = self._state.documents.at(path)
        if document is None or not document.runnable:
            return
        if document.reading().syntax_error is not None and document.module is None:  # its other cells run
            self._state.log(f"no run of {path}: it does not parse")
            if not automatic:  # the editor also saves what is half-typed
                document.waits = True
                self._state.mark_results([path])
            return
        document.waits = False
        self._targets.drop_lost(path)
        if self._state.folder_of(path).settings.run != "save":
            return
        self._note(path, automatic=automatic)
        later = functools.partial(self._run_saved, path, automatic=True)
        if automatic and not self._requests.throttle.is_due(path, later):
            return
        trigger = Trigger("saved", automatic=True, supersede=not automatic)
        self._run_targets(path, self._targets.compiled(path), trigger)

    def follow_disk(self, document: Document) -> None:
        """Take in a file that another program has written as a saved one, once the editor has its text."""
        if self.on_disk.has_followed(document.path, document.source):
            self.saved(document.path, automatic=False)

    def closed(self, path: str) -> None:
        """Forget what is known of a file that was closed."""
        self.program_lines.forget_lines(path)
        self.on_disk.forget_path(path)

    def changed_on_disk(self, path: str) -> None:
        """Take in that another program wrote a file that is not open."""
        self._targets.drop_lost(path)
        self._note(path, automatic=False)
        self.run_users(path, "changed on disk")

    def run_users(self, path: str, cause: str) -> None:
        """Run the targets again whose last run used a file, which was written or deleted."""
        self._run_targets(path, (), Trigger(cause, automatic=True))

    def _note(self, path: str, *, automatic: bool) -> None:
        """Note a save for the runs in flight, which may use the file."""
        for key in self._session.runs.in_flight:
            if key.tier is Tier.CAPTURE:
                self._saved_meanwhile.setdefault(key, {})[path] = automatic

    def keep_for(self, running: Container[Key]) -> None:
        """Keep the saves noted for the runs of `running` alone."""
        self._saved_meanwhile = {key: saved for key, saved in self._saved_meanwhile.items() if key in running}

    def _run_targets(self, path: str, compiled: tuple[Key, ...], trigger: Trigger) -> None:
        """Run these targets of a file that was saved, and again the targets whose last run used the file."""
        asked: dict[str, dict[Key, None]] = {path: dict.fromkeys(compiled)}
        for key in self.used_by_last_run(path):
            name = self._targets.name_now(key)
            if name is not None:
                asked.setdefault(key.path, {})[dataclasses.replace(key, name=name)] = None
        for file, keys in asked.items():
            self._request(path, file, tuple(keys), trigger)

    def run_again(self, key: Key) -> None:
        """Run a target again if a file that its run used was saved with another text during the run."""
        result = self._state.captures.get(key)
        for path, automatic in self._saved_meanwhile.pop(key, {}).items():
            is_used = (
                result is not None and path in result.changed_files and key in self.used_by_last_run(path)
            )
            if not is_used or key in self._session.runs.queue.waiting:
                continue
            again = functools.partial(
                self._request, path, key.path, (key,), Trigger("saved during the run", automatic=True)
            )
            if not automatic or self._requests.throttle.is_due(path, again):
                again()

    def used_by_last_run(self, path: str) -> list[Key]:
        """Return the targets whose last run used a file, as far as the setting `runScope` reaches."""
        return [
            key
            for key, result in self._state.captures.items()
            if result.uses(path)
            and key.name != PROGRAM
            and (
                key.path == path
                or (scope := self._state.folder_of(key.path).settings.run_scope) == "workspace"
                or (scope == "openFiles" and self._state.documents.at(key.path) is not None)
            )
        ]

    def _request(self, path: str, file: str, keys: tuple[Key, ...], trigger: Trigger) -> None:
        """Queue the runs of `keys`, targets of `file`, after a save of the file at `path`."""
        settings = self._state.folder_of(file).settings
        if settings.run != "save" or not keys:
            return
        self._requests.throttle.began(path)
        tiers = (Tier.CAPTURE, Tier.KERNELS) if settings.kernels.when == "onSave" else (Tier.CAPTURE,)
        name = "" if file == path else f"{os.path.basename(path)} "  # noqa: PTH119 - paths stay text
        self._requests.request_runs(
            tuple(dataclasses.replace(key, tier=tier) for tier in tiers for key in keys),
            dataclasses.replace(trigger, cause=f"{name}{trigger.cause}"),
        )


class RunRequests:
    """Takes in commands, and queues runs."""

    def __init__(
        self,
        session: Session,
        permissions: RunPermissions,
        workers: Workers,
        benches: BenchmarkSession,
        comparisons: ComparisonSession,
    ) -> None:
        self._session, self._state, self._ui = session, session.state, session.ui
        self.permissions, self._workers, self._benches = permissions, workers, benches
        self._comparisons = comparisons
        self.throttle = RunThrottle(session.state)
        self.on_request: Callable[[tuple[Key, ...], Trigger], None] = lambda _keys, _trigger: None
        """Called with runs before they are queued."""

    def command(
        self, path: str, target: str | None, tier: Tier = Tier.CAPTURE, plan: TimedPlan | None = None
    ) -> None:
        """Run a target (None: what the file compiles) because the user asked for it; timed runs by a plan."""
        if self._session.early.keep_request(lambda: self.command(path, target, tier, plan)):
            return
        if target is None:
            named = self.permissions.targets.compiled_or_program(path)
        else:
            named = (Key(path, "" if target == MAIN else target),)
        keys = tuple(dataclasses.replace(key, tier=tier) for key in named)
        if not self._state.trusted:
            self._ui.say(UNTRUSTED, error=False)
        elif not keys:
            self._ui.say("Nothing here is compiled or has inputs: point at a target to run it.", error=False)
        else:
            self.permissions.consent.reopen(self._state.folder_of(path), path)
            self.request_runs(keys, ASKED, plan)

    def use_program(self, path: str, target: str, program: str) -> None:
        """Get the inputs of a target from another file's program from now on, and run the target."""
        self._state.input_programs.keep((path, target), program)
        self.permissions.consent.reopen(self._state.folder_of(path), program)
        self.command(path, target)

    def compile(self, key: Key) -> None:
        """Compile the kernel that `key` names, as its text is asked for; once, however often it is."""
        if key not in self._session.active():
            self.request_runs((key,), Trigger("its text is shown"))

    def request_runs(self, keys: tuple[Key, ...], trigger: Trigger, plan: TimedPlan | None = None) -> None:
        """Queue the runs of `keys`, all of one file, that the user has agreed to; ask about the others."""
        folder = self._state.folder_of(keys[0].path) if keys else None
        if folder is None or not self._state.trusted or folder.consent in {"never", "later"}:
            return
        self._state.forget_run_ends(keys)
        interpreter = self._workers.interpreter(folder)
        if interpreter is None:
            self._note_missing_interpreter(folder, explicit=trigger.explicit)
            return
        permitted = self.permissions.permitted(
            AskedRuns(folder, keys, trigger, interpreter.executable),
            lambda answered: self.request_runs(answered, trigger, plan),
        )
        if not permitted:
            return
        self.on_request(tuple(permitted), trigger)
        generation = self._session.runs.next_generation()
        for key in permitted:
            if key.tier is Tier.CAPTURE:
                self.throttle.began(key.path)
            worker = worker_key(folder, interpreter, for_benchmarks=key.has_own_worker)
            make = self._maker(key, folder, generation, plan, automatic=trigger.automatic)
            job = Job(key, worker, generation, trigger.cause, make)
            self._session.runs.request_run(job, supersede=trigger.supersede)

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
            request = self.permissions.request_now(key, folder, generation, automatic=automatic)
            if request is None:
                return None
            self._session.edits.begin(key)
            if key.tier is Tier.ACCURACY:
                return self._comparisons.request_for(key, request)
            if plan is None:
                return self.permissions.targets.request_for(key, request)
            self._benches.begin(key)
            return (
                tune_request(request, plan) if isinstance(plan, TunePlan) else measure_request(request, plan)
            )

        return make


class RunThrottle:
    """When the last run of each open file began, and of which text."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._began: dict[str, tuple[float, str]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def began(self, path: str) -> None:
        """Note that a run of the file is asked for now."""
        self._began = {
            name: began for name, began in self._began.items() if self._state.documents.at(name) is not None
        }
        document = self._state.documents.at(path)
        if document is not None:
            self._began[path] = (time.monotonic(), document.source.text)

    def is_due(self, path: str, again: Callable[[], None]) -> bool:
        """Whether an automatic save is worth a run now; if it will be later, `again` is called then."""
        document = self._state.documents.at(path)
        began, text = self._began.get(path, (float("-inf"), ""))
        if document is None or document.source.text == text:
            return False
        left = began + AUTOSAVE_SECONDS - time.monotonic()
        if left <= 0:
            return True
        if path not in self._timers:
            self._state.log(f"automatic save of {path}: the next run of it is in {left:.0f} s")

            def later() -> None:
                del self._timers[path]
                again()

            self._timers[path] = asyncio.get_running_loop().call_later(left, later)
        return False

    def close(self) -> None:
        """Call nothing any more."""
        for timer in self._timers.values():
            timer.cancel()


class DiskTexts:
    """The open files as they were on the disk when the editor last read or wrote them."""

    def __init__(self) -> None:
        self._keys: dict[str, frozenset[str]] = {}
        """Hash of each open file; no entry for one that is not open."""
        self._ahead: set[str] = set()
        """Files that another program has written and whose buffer still has another text."""

    def note(self, path: str) -> None:
        """Note what is on the disk, as the editor has read or written it."""
        self._keys[path] = keys_on_disk(path)
        self._ahead.discard(path)

    def forget_path(self, path: str) -> None:
        """Forget a file that was closed."""
        self._keys.pop(path, None)
        self._ahead.discard(path)

    def was_written_by_others(self, path: str) -> bool:
        """Whether an open file has another text than the editor has read or written."""
        now = keys_on_disk(path)
        if not now or now == self._keys.get(path):
            self._ahead.discard(path)
            return False
        self._ahead.add(path)
        return True

    def has_followed(self, path: str, source: SourceDocument) -> bool:
        """Whether the editor now has the text that another program wrote."""
        return path in self._ahead and not keys_on_disk(path).isdisjoint(keys_of(source.text))
