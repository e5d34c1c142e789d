"""Which runs the user has agreed to: the one place that decides whether code of the user may run.

Invariant: user code runs only in a trusted workspace, where the user has agreed to it. Who may not run yet is asked
about (`consent.py`), and the request goes on with the answer.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from fuselight_server.editor.session.consent import RUN, folder_question, program_question
from fuselight_server.editor.session.notebook_steps import notebook_steps

if TYPE_CHECKING:
    from fuselight.shared.protocol import RunRequest
    from fuselight_server.editor.session.background import BackgroundTasks
    from fuselight_server.editor.session.consent import Consent
    from fuselight_server.editor.session.state import Folder, State
    from fuselight_server.editor.session.target_runs import TargetRuns
    from fuselight_server.editor.session.triggers import Trigger
    from fuselight_server.editor.session.ui import Question
    from fuselight_server.execution.runs.keys import Key


@dataclasses.dataclass(frozen=True)
class AskedRuns:
    """Runs of targets of one file that something asks for."""

    folder: Folder
    keys: tuple[Key, ...]
    trigger: Trigger
    executable: str
    """The interpreter, which a question names."""


class RunPermissions:
    """Decides by the answers of the user."""

    def __init__(self, state: State, consent: Consent, targets: TargetRuns, tasks: BackgroundTasks) -> None:
        self._state = state
        self._consent = consent
        self._targets = targets
        self._tasks = tasks

    def permitted(self, asked: AskedRuns, again: Callable[[tuple[Key, ...]], None]) -> list[Key]:
        """Return the runs that the user has agreed to; ask about those that the user has not been asked about.

        `again` is called with these once the user has answered.
        """
        by_program: dict[str | None, list[Key]] = {}
        for key in asked.keys:
            by_program.setdefault(self._targets.program_of(key), []).append(key)
        permitted: set[Key] = set()
        for program, keys in by_program.items():
            part = dataclasses.replace(asked, keys=tuple(keys))
            answer = self._answer(part, program)
            if answer:
                permitted.update(part.keys)
            elif answer is None:
                question = self._consent.wait(
                    self._question(part, program), part.keys, functools.partial(again, part.keys)
                )
                if question is not None:
                    self._tasks.start(question, "asking about a run")
            elif program is not None:
                self._state.log(f"no run of the program in {program}: {asked.trigger.cause}")
        return [key for key in asked.keys if key in permitted]

    def _question(self, asked: AskedRuns, program: str | None) -> Question:
        explicit = asked.trigger.explicit
        if program is not None:
            return program_question(asked.folder, asked.keys, asked.executable, program, explicit=explicit)
        document = self._state.at(asked.keys[0].path)
        steps = notebook_steps(document, [key.name for key in asked.keys]) if document is not None else None
        return folder_question(asked.folder, asked.keys, asked.executable, explicit=explicit, notebook=steps)

    def _answer(self, asked: AskedRuns, program: str | None) -> bool | None:
        """What the user has answered; None where the user has not been asked. All targets are of one file."""
        if program is not None:
            is_part = program != asked.keys[0].path
            return self._consent.for_program(program, automatic=asked.trigger.automatic, is_part=is_part)
        return None if asked.folder.consent == "unknown" else asked.folder.consent == RUN

    def permits_now(self, key: Key, *, automatic: bool) -> bool:
        """Whether a target may run without a question."""
        program = self._targets.program_of(key) if self._state.trusted else None
        if program is not None:
            is_part = program != key.path
            return bool(self._consent.for_program(program, automatic=automatic, is_part=is_part))
        return self._state.trusted and self._state.folder_of(key.path).consent == RUN

    def permits_live(self, key: Key) -> bool:
        """Whether a save would run a target now, without a question."""
        return self._state.folder_of(key.path).settings.run == "save" and self.permits_now(
            key, automatic=True
        )

    def without_programs(self, request: RunRequest, *, automatic: bool) -> RunRequest:
        """The same run without the programs that may not run: the worker must not fall back to them either."""
        inputs = request.inputs
        if not self._consent.for_program(request.target.path, automatic=automatic):
            inputs = dataclasses.replace(inputs, main_line=None)
        if not self._consent.for_program(inputs.program, automatic=automatic, is_part=True):
            inputs = dataclasses.replace(inputs, program="")
        return dataclasses.replace(request, inputs=inputs)
