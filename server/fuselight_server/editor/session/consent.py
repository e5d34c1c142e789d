"""Which runs the user has agreed to, and the questions to the user before code runs: the one place that decides it.

There is a question about each folder, and one about each program with a `__main__` block.

Invariants:

* User code runs only in a trusted workspace, where the user has agreed to it. A program runs only after the question
  about that program, which says that it may write files.
* A request that the user starts always puts its question, even while an earlier one waits, because an editor may have
  hidden that. The request goes on with the answer.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

from fuselight.shared.protocol import RunRequest
from fuselight_server.base.consent_store import first_call_of
from fuselight_server.base.formatting import format_first, format_target
from fuselight_server.editor.messages.answers import ConsentChoice
from fuselight_server.editor.results.run_ends import NOT_ALLOWED, POSTPONED, RunEnd
from fuselight_server.editor.session.session import Session
from fuselight_server.editor.session.state import Folder, State
from fuselight_server.editor.session.target_runs import TargetRuns
from fuselight_server.editor.session.ui import Question, Ui
from fuselight_server.execution.runs.keys import Key
from fuselight_server.source.notebooks.run_steps import NotebookSteps, notebook_steps


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


ASKED = Trigger("command", explicit=True, supersede=True)
"""The user, by a command or a button."""

RUN: Final = "run"
"""Code of the folder may run; a program may run on each save."""
ON_REQUEST: Final = "command"
"""The program may run when the user asks for a run."""
NEVER: Final = "never"
LATER: Final = "later"
"""Not before the user asks for a run."""

UNTRUSTED = "Fuselight runs no code in a workspace that is not trusted."

_NAMED = 5
"""Targets that a question names."""


@dataclass
class _Pending:
    """Requests that wait for the answer to one subject."""

    requests: dict[frozenset[Key], Callable[[], None]] = field(default_factory=dict)
    questions: int = 0
    """How many are shown: the first answer counts."""


class Consent:
    """The answers, and the requests that wait for one."""

    def __init__(self, state: State, ui: Ui) -> None:
        self._state = state
        self._ui = ui
        self._pending: dict[str, _Pending] = {}
        self._programs: dict[str, str] = {}

    @property
    def asked(self) -> frozenset[Key]:
        """Runs that wait for an answer."""
        return frozenset(
            key
            for pending_requests in self._pending.values()
            for keys in pending_requests.requests
            for key in keys
        )

    def for_program(self, path: str, *, automatic: bool, is_part: bool = False) -> bool | None:
        """Whether the `__main__` block of a file may run now; None where the user has not been asked.

        `is_part`: up to its first call alone, for which an answer about the whole program counts, too.
        """
        subjects = (path, first_call_of(path)) if is_part else (path,)
        answers = {self._programs[subject] for subject in subjects if subject in self._programs}
        if not answers:
            return None
        return RUN in answers or (ON_REQUEST in answers and not automatic)

    def reopen(self, folder: Folder, path: str) -> None:
        """Let the user be asked again, who has just asked for a run of `path`."""
        if folder.consent in {NEVER, LATER}:
            folder.consent = "unknown"
        for subject in (path, first_call_of(path)):
            if self._programs.get(subject) == LATER:
                del self._programs[subject]

    def forget_folder(self, folder: Folder) -> None:
        """Forget every answer about a folder and its programs."""
        folder.consent = "unknown"
        self._programs = {
            path: answer
            for path, answer in self._programs.items()
            if self._state.folder_of(path) is not folder
        }

    def wait(
        self, question: Question, keys: tuple[Key, ...], again: Callable[[], None]
    ) -> Coroutine[Any, Any, None] | None:
        """Call `again` when the user has answered. Returns the question, where it is to be put now."""
        pending = self._pending.setdefault(question.subject, _Pending())
        pending.requests[frozenset(keys)] = again
        if pending.questions and not question.explicit:
            return None
        pending.questions += 1
        self._ui.runs_changed()
        return self._ask(question, pending)

    async def agrees_to_start(self, folder: Folder, executable: str) -> bool:
        """Whether the interpreter of a folder may be started for checks; asks where runs are not agreed to."""
        if folder.consent in {RUN, NEVER}:
            return folder.consent == RUN
        question = Question(
            folder,
            "Start the Python of this folder to check it?",
            f"Fuselight will start {executable}, import torch and compile a small test.",
            {"Check": RUN, "Later": LATER},
            program=executable,
            explicit=True,
        )
        return await self._ui.confirm(question) == RUN

    async def _ask(self, question: Question, pending: _Pending) -> None:
        subject = question.subject
        try:
            answer = await self._ui.confirm(question)
        except Exception as error:  # noqa: BLE001 - a client that cannot ask has not agreed, and is asked again
            self._state.log(f"the question about running {subject} was not answered: {error!r}")
            answer = None
        pending.questions -= 1
        if answer not in {None, *question.answers.values()}:
            answer = LATER
        is_waiting = self._pending.get(subject) is pending
        if answer in {None, LATER} and (pending.questions or not is_waiting):
            return  # another question about the same subject was answered, or still can be
        if is_waiting:
            del self._pending[subject]
        if answer is not None:
            self.accept_answer(question, answer)
            for request in pending.requests.values() if is_waiting else ():
                request()
            if is_waiting and answer in {NEVER, LATER}:
                self._note_refusal(pending, NOT_ALLOWED if answer == NEVER else POSTPONED)
        self._ui.runs_changed()

    def _note_refusal(self, pending: _Pending, end: RunEnd) -> None:
        for keys in pending.requests:
            for key in keys:
                self._state.note_run_end(key, end)

    def accept_answer(self, question: Question, answer: str) -> None:
        """Let an answer hold from now on."""
        self._state.log(f"runs of {question.subject}: {answer}")
        if question.program is None:
            question.folder.consent = answer
            return
        self._programs[question.subject] = answer
        if answer == RUN:
            question.folder.consent = RUN


def folder_question(
    folder: Folder,
    keys: tuple[Key, ...],
    executable: str,
    *,
    explicit: bool,
    notebook: NotebookSteps | None = None,
) -> Question:
    """Ask whether code of a folder may run: `import model.py and call Net, on each save ...`.

    `notebook`: what runs of the notebook that has the targets.
    """
    names = list(dict.fromkeys(key.name for key in keys if key.name))
    calls = format_first(list(map(format_target, names)), _NAMED)
    file = os.path.basename(keys[0].path)  # noqa: PTH119 - paths stay text
    steps = f"import {file} and call {calls}"
    if notebook is not None:
        steps = f"run {notebook.cells} of {file} and call {calls}"
    when = ""
    if folder.settings.run == "save":
        when = ", on each save and while you edit" if folder.settings.live == "on" else ", on each save"
    return Question(
        folder,
        "Run code of this folder under torch.compile?",
        f"Fuselight will {steps}{when}, with {executable}.{notebook.left_out if notebook is not None else ''}",
        {"Run": RUN, "Not in This Folder": NEVER, "Later": LATER},
        explicit=explicit,
    )


def program_question(
    folder: Folder, keys: tuple[Key, ...], executable: str, path: str, *, explicit: bool
) -> Question:
    """Ask whether the program in `path` may run: the file of the targets, or another one that calls them."""
    names = [format_target(key.name) for key in keys if key.name]
    why = f" to get the inputs of {', '.join(dict.fromkeys(names))}" if names else ""
    on_save: dict[str, ConsentChoice] = {"Run on Each Save": RUN} if folder.settings.run == "save" else {}
    if path != keys[0].path:
        return Question(
            folder,
            f"Run {os.path.basename(path)}{why}?",  # noqa: PTH119 - paths stay text
            f"It runs up to its first call, with {executable}, and may write files. "
            "A run on save keeps files of the workspace as they are.",
            {"Run When I Ask": ON_REQUEST, **on_save, "Later": LATER},
            program=path,
            is_part=True,
            explicit=explicit,
        )
    return Question(
        folder,
        f"Run the __main__ block of {os.path.basename(path)} under torch.compile?",  # noqa: PTH119 - paths stay text
        f"The whole program runs{why}, with {executable}, and may write files. "
        "A run on save keeps files of the workspace as they are.",
        {"Run When I Ask": ON_REQUEST, **on_save, "Later": LATER},
        program=path,
        explicit=explicit,
    )


@dataclasses.dataclass(frozen=True)
class AskedRuns:
    """Runs of targets of one file that something asks for."""

    folder: Folder
    keys: tuple[Key, ...]
    trigger: Trigger
    executable: str
    """The interpreter, which a question names."""


class RunPermissions:
    """Decides by the answers of the user, and makes requests that stay within them."""

    def __init__(self, session: Session, targets: TargetRuns) -> None:
        self._session, self._state = session, session.state
        self.consent = Consent(session.state, session.ui)
        self.targets = targets
        self._identities = itertools.count(1)

    def permitted(self, asked: AskedRuns, again: Callable[[tuple[Key, ...]], None]) -> list[Key]:
        """Return the runs that the user has agreed to; ask about those that the user has not been asked about.

        `again` is called with these once the user has answered.
        """
        by_program: dict[str | None, list[Key]] = {}
        for key in asked.keys:
            by_program.setdefault(self.targets.program_of(key), []).append(key)
        permitted: set[Key] = set()
        for program, keys in by_program.items():
            part = dataclasses.replace(asked, keys=tuple(keys))
            answer = self._answer(part, program)
            if answer:
                permitted.update(part.keys)
            elif answer is None:
                question = self.consent.wait(
                    self._question(part, program), part.keys, functools.partial(again, part.keys)
                )
                if question is not None:
                    self._session.tasks.start(question, "asking about a run")
            elif program is not None:
                self._state.log(f"no run of the program in {program}: {asked.trigger.cause}")
        return [key for key in asked.keys if key in permitted]

    def _question(self, asked: AskedRuns, program: str | None) -> Question:
        explicit = asked.trigger.explicit
        if program is not None:
            return program_question(asked.folder, asked.keys, asked.executable, program, explicit=explicit)
        document = self._state.documents.at(asked.keys[0].path)
        module, names = document.module if document is not None else None, [key.name for key in asked.keys]
        steps = None
        if document is not None and module is not None and module.cells:
            steps = notebook_steps(module, document.reading(), names)
        return folder_question(asked.folder, asked.keys, asked.executable, explicit=explicit, notebook=steps)

    def _answer(self, asked: AskedRuns, program: str | None) -> bool | None:
        """What the user has answered; None where the user has not been asked. All targets are of one file."""
        if program is not None:
            is_part = program != asked.keys[0].path
            return self.consent.for_program(program, automatic=asked.trigger.automatic, is_part=is_part)
        return None if asked.folder.consent == "unknown" else asked.folder.consent == RUN

    def permits_now(self, key: Key, *, automatic: bool) -> bool:
        """Whether a target may run without a question."""
        program = self.targets.program_of(key) if self._state.trusted else None
        if program is not None:
            is_part = program != key.path
            return bool(self.consent.for_program(program, automatic=automatic, is_part=is_part))
        return self._state.trusted and self._state.folder_of(key.path).consent == RUN

    def runs_on_request(self, key: Key) -> bool:
        """Whether a target may run, but only when the user asks."""
        return not self.permits_now(key, automatic=True) and self.permits_now(key, automatic=False)

    def permits_live(self, key: Key) -> bool:
        """Whether a save would run a target now, without a question."""
        return self._state.folder_of(key.path).settings.run == "save" and self.permits_now(
            key, automatic=True
        )

    def without_programs(self, request: RunRequest, *, automatic: bool) -> RunRequest:
        """The same run without the programs that may not run: the worker must not fall back to them either."""
        inputs = request.inputs
        if not self.consent.for_program(request.target.path, automatic=automatic):
            inputs = dataclasses.replace(inputs, main_line=None)
        if not self.consent.for_program(inputs.program, automatic=automatic, is_part=True):
            inputs = dataclasses.replace(inputs, program="")
        return dataclasses.replace(request, inputs=inputs)

    def request_now(self, key: Key, folder: Folder, generation: int, *, automatic: bool) -> RunRequest | None:
        """The run of a target as the editor has its files; None where its file no longer has it."""
        planned = self.targets.of(key, folder, with_buffers=True) if self._state.trusted else None
        if planned is None:
            return None
        run, options = planned
        request = run.start_message(next(self._identities), generation, options)
        return self.without_programs(dataclasses.replace(request, automatic=automatic), automatic=automatic)

    def live_request(self, key: Key, text: str, request: RunRequest | None) -> RunRequest | None:
        """Return the request of a live run, from that of the last run, else from the text that ran."""
        if request is None:
            request = self.targets.request_of_text(key, text)
        return self.without_programs(request, automatic=True) if request is not None else None
