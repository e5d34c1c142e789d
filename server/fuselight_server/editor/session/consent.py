"""Questions to the user before code runs: one about a folder, and one about each program with a `__main__` block.

Invariant: a program runs only after the question about that program, which says that it may write files. A request
that the user starts always puts its question, even while an earlier one waits, because an editor may have hidden that.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from fuselight_server.base.consent_store import first_call_of
from fuselight_server.base.formatting import format_first
from fuselight_server.editor.session.run_ends import NOT_ALLOWED, POSTPONED
from fuselight_server.editor.session.ui import Question

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from fuselight_server.editor.messages.answers import ConsentChoice
    from fuselight_server.editor.session.notebook_steps import NotebookSteps
    from fuselight_server.editor.session.run_ends import RunEnd
    from fuselight_server.editor.session.state import Folder, State
    from fuselight_server.editor.session.ui import Ui
    from fuselight_server.execution.runs.keys import Key

RUN: Final = "run"
"""Code of the folder may run; a program may run on each save."""
ON_REQUEST: Final = "command"
"""The program may run when the user asks for a run."""
NEVER: Final = "never"
LATER: Final = "later"
"""Not before the user asks for a run."""

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

    def forget(self, folder: Folder) -> None:
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
            self.accept(question, answer)
            for request in pending.requests.values() if is_waiting else ():
                request()
            if is_waiting and answer in {NEVER, LATER}:
                self._note_refusal(pending, NOT_ALLOWED if answer == NEVER else POSTPONED)
        self._ui.runs_changed()

    def _note_refusal(self, pending: _Pending, end: RunEnd) -> None:
        for keys in pending.requests:
            for key in keys:
                self._state.note_run_end(key, end)

    def accept(self, question: Question, answer: str) -> None:
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
    calls = format_first(names, _NAMED)
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
    names = [key.name for key in keys if key.name]
    why = f" to get the inputs of {', '.join(dict.fromkeys(names))}" if names else ""
    on_save: dict[str, ConsentChoice] = {"Run on Each Save": RUN} if folder.settings.run == "save" else {}
    if path != keys[0].path:
        return Question(
            folder,
            f"Run {os.path.basename(path)}{why}?",  # noqa: PTH119 - paths stay text
            f"It runs up to its first call, with {executable}, and may write files. "
            "A run on save keeps files of the workspace as they are.",
            {"Only When I Ask": ON_REQUEST, **on_save, "Later": LATER},
            program=path,
            is_part=True,
            explicit=explicit,
        )
    return Question(
        folder,
        f"Run the __main__ block of {os.path.basename(path)} under torch.compile?",  # noqa: PTH119 - paths stay text
        f"The whole program runs{why}, with {executable}, and may write files. "
        "A run on save keeps files of the workspace as they are.",
        {"Only When I Ask": ON_REQUEST, **on_save, "Later": LATER},
        program=path,
        explicit=explicit,
    )
