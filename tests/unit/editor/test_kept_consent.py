"""Questions whose answer comes from another window, from a terminal, late, or never."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fuselight_server.base.consent_store import ConsentAnswer, ConsentStore
from fuselight_server.editor.handlers import kept_consent
from fuselight_server.editor.handlers.kept_consent import KeptConsent
from fuselight_server.editor.messages.answers import ConsentChoice
from fuselight_server.editor.session.state import Folder
from fuselight_server.editor.session.ui import Question
from tests.support.recorded_ui import RecordedUi

pytestmark = pytest.mark.asyncio

ANSWERS: dict[str, ConsentChoice] = {"Run": "run", "Not in This Folder": "never", "Later": "later"}


class Window(RecordedUi):
    """A client that shows a question until the test presses a button."""

    def __init__(self) -> None:
        super().__init__()
        self.button: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self.texts: list[str] = []
        self.shown_text, self.asked = asyncio.Event(), asyncio.Event()

    async def offer(self, text: str, actions: tuple[str, ...]) -> str | None:  # noqa: ARG002
        self.asked.set()
        return await self.button

    def say(self, text: str, *, error: bool) -> None:  # noqa: ARG002
        self.texts.append(text)
        self.shown_text.set()


class OpenQuestion:
    """A question in a window, with the store that all programs of the user share."""

    def __init__(self, *, explicit: bool = False, program: str | None = None) -> None:
        self.window, self.store = Window(), ConsentStore()
        self.late: list[str] = []
        self.tasks: list[asyncio.Task[Any]] = []
        consent = SimpleNamespace(accept_answer=lambda _question, answer: self.late.append(answer))
        server: Any = SimpleNamespace(
            state=SimpleNamespace(log=lambda _text: None),
            spawn=lambda work, _what: self.tasks.append(asyncio.ensure_future(work)),
            analysis=SimpleNamespace(consent=consent),
        )
        self.question = Question(
            Folder("/w x", "file:///w%20x"), "Run?", "", ANSWERS, program=program, explicit=explicit
        )
        kept = KeptConsent(server, self.window)
        self.looks: asyncio.Queue[None] = asyncio.Queue()
        stored = kept._stored

        async def look(question: Question) -> ConsentAnswer | None:
            entry = await stored(question)
            self.looks.put_nowait(None)
            return entry

        kept._stored = look  # type: ignore[method-assign]
        self.answer = asyncio.ensure_future(kept.answer(self.question))

    async def has_looked(self, times: int) -> None:
        """Wait for looks at the store: the first is before the question."""
        for _ in range(times):
            await self.looks.get()


@pytest.fixture(autouse=True)
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    monkeypatch.setattr(kept_consent, "LOOK_SECONDS", 0.01)


async def test_an_answer_in_another_window_answers_here() -> None:
    asked = OpenQuestion()
    await asked.has_looked(2)
    asked.store.keep_answer("/w x", "run")
    assert await asked.answer == "run"
    asked.window.button.set_result("Later")
    await asyncio.gather(*asked.tasks)
    assert asked.late == []


async def test_the_last_word_of_the_user_counts() -> None:
    asked = OpenQuestion()
    await asked.has_looked(2)
    asked.store.keep_answer("/w x", "run")
    assert await asked.answer == "run"
    asked.window.button.set_result("Not in This Folder")
    await asyncio.gather(*asked.tasks)
    assert asked.late == ["never"]
    entry = asked.store.entry("/w x")
    assert entry is not None
    assert entry.answer == "never"


async def test_an_older_refusal_does_not_answer_a_run_that_the_user_asks_for() -> None:
    ConsentStore().keep_answer("/w x", "never")
    asked = OpenQuestion(explicit=True)
    await asked.has_looked(3)
    assert not asked.answer.done()
    asked.window.button.set_result("Run")
    assert await asked.answer == "run"


@pytest.mark.parametrize(
    ("program", "command"),
    [
        (None, "fuselight consent --allow '/w x'"),
        ("/w x/train.py", "fuselight consent --allow '/w x/train.py'"),
    ],
)
async def test_a_question_without_an_answer_is_explained_once(
    program: str | None, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_consent, "SILENT_SECONDS", 0.02)
    asked = OpenQuestion(program=program)
    await asyncio.wait_for(asked.window.shown_text.wait(), 30)
    asked.looks = asyncio.Queue()
    await asked.has_looked(3)
    (text,) = asked.window.texts
    assert f"`{command}`" in text
    asked.store.keep_answer(program or "/w x", "run")
    assert await asked.answer == "run"
    asked.window.button.cancel()


async def test_a_client_without_questions_says_what_to_run() -> None:
    asked = OpenQuestion()
    asked.window.button.set_exception(RuntimeError("method not found"))
    with pytest.raises(RuntimeError):
        await asked.answer
    assert "shows no questions" in asked.window.texts[0]


async def test_a_question_that_is_given_up_closes_its_request() -> None:
    asked = OpenQuestion()
    await asked.window.asked.wait()
    asked.answer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked.answer
    await asyncio.sleep(0)
    assert asked.window.button.cancelled()
