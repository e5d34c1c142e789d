"""Which verifications of fixes may run, and which of their failures say something of the fix."""

from __future__ import annotations

import dataclasses

import pytest

from fuselight.shared.protocol import Answer, Refused
from fuselight.shared.report import Culprit, Failure
from fuselight_server.base.settings import Interpreter
from fuselight_server.editor.results.snapshot import Document
from fuselight_server.editor.session.analysis import Analysis
from fuselight_server.editor.session.state import Folder, State
from fuselight_server.editor.session.ui import Question
from fuselight_server.editor.session.verifications import InterruptedVerificationError
from fuselight_server.execution.runs.keys import Key
from fuselight_server.source.document import SourceDocument
from tests.support.fix_world import TEXT
from tests.support.recorded_ui import RecordedUi
from tests.support.reports import report

PROGRAM_TEXT = """\
import torch

@torch.compile
def f(x):
    return x

if __name__ == "__main__":
    f(torch.ones(4))
"""


class _OneAnswer:
    """A worker that gives one answer to every request."""

    hello = None

    def __init__(self, answer: Answer | Refused) -> None:
        self.answer = answer

    async def run(self, *_given: object) -> Answer | Refused:
        return self.answer

    async def close(self) -> None: ...


class _Agreeing(RecordedUi):
    """A user who agrees to every run."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def say(self, text: str, *, error: bool) -> None:
        assert not error
        self.messages.append(text)

    async def confirm(self, question: Question) -> str:
        assert question.explicit
        return "run"


def analysis_of(
    text: str, answer: Answer | Refused, consent: str = "run", ui: RecordedUi | None = None
) -> Analysis:
    state = State()
    state.folders["/w"] = Folder("/w", "file:///w", consent=consent)
    state.open(Document("file:///w/m.py", "/w/m.py", 1, SourceDocument("/w/m.py", text), runnable=True))
    return Analysis(
        state,
        ui or RecordedUi(),
        make_worker=lambda _worker_key, _settings, _log: _OneAnswer(answer),
        find_interpreter=lambda _folder: Interpreter("/python"),
    )


REFUSED = Refused(1, "cancelled")


@pytest.mark.asyncio
async def test_a_verification_needs_the_consent_that_a_run_needs() -> None:
    key = Key("/w/m.py", "f")
    for consent in ("run", "unknown", "later", "never"):
        session = analysis_of(TEXT, REFUSED, consent)
        assert (session.verification_runs.prepare(key, True) is not None) is (consent == "run")  # noqa: FBT003 - a callback
        await session.close()
    session = analysis_of(TEXT, REFUSED)
    session._state.trusted = False
    assert session.verification_runs.prepare(key, False) is None  # noqa: FBT003 - a callback
    await session.close()
    program = analysis_of(PROGRAM_TEXT, REFUSED)
    assert program.verification_runs.prepare(key, False) is None, "its inputs come from the program"  # noqa: FBT003 - a callback
    program.consent._programs["/w/m.py"] = "command"
    assert program.verification_runs.prepare(key, True) is None  # noqa: FBT003 - a callback
    assert program.verification_runs.prepare(key, False) is not None  # noqa: FBT003 - a callback
    await program.close()


@pytest.mark.asyncio
async def test_a_chosen_fix_goes_on_after_the_consent_and_no_run_comes_in_its_place() -> None:
    ui = _Agreeing()
    session = analysis_of(TEXT, REFUSED, "unknown", ui)
    went_on: list[str] = []
    assert not session.verification_runs.agrees(Key("/w/m.py", "f"), lambda: went_on.append("fix"))
    assert went_on == []
    await session.tasks.wait()
    assert went_on == ["fix"]
    assert session.runs.generation == 0, "the target is not run"
    assert session.verification_runs.agrees(Key("/w/m.py", "f"), lambda: went_on.append("again"))
    assert went_on == ["fix"]
    session._state.trusted = False
    assert not session.verification_runs.agrees(Key("/w/m.py", "f"), lambda: went_on.append("again"))
    assert ui.messages == ["Fuselight runs no code in a workspace that is not trusted."]
    await session.close()


@pytest.mark.asyncio
async def test_only_a_failure_of_the_users_code_says_something_of_a_fix() -> None:
    failure = Failure(Culprit.USER, "timeout", "killed after 3 s", "use smaller inputs")
    new_report = report()
    for answer, entry in (
        (Answer(1, new_report), ()),
        (Refused(1, "failed", failure), (failure,)),
        (REFUSED, None),
        (Refused(1, "failed", dataclasses.replace(failure, culprit=Culprit.ENVIRONMENT)), None),
    ):
        session = analysis_of(TEXT, answer)
        prepared = session.verification_runs.prepare(Key("/w/m.py", "f"), True)  # noqa: FBT003 - a callback
        assert prepared is not None
        if entry is None:
            with pytest.raises(InterruptedVerificationError):
                await prepared.execute(prepared.request, lambda _progress: None)
        else:
            assert (await prepared.execute(prepared.request, lambda _progress: None)).failures == entry
        await session.close()
