"""Permission to run: the question about a folder, the question about a program, and late or missing answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from fuselight.shared.measurement_plans import MeasurePlan
from fuselight.shared.protocol import Answer, RunRequest
from fuselight.shared.report import Tier
from fuselight_server.base.settings import Interpreter, LimitSettings, Settings
from fuselight_server.editor.results.snapshot import Document
from fuselight_server.editor.session.analysis import Analysis
from fuselight_server.editor.session.consent import program_question
from fuselight_server.editor.session.state import Folder, State
from fuselight_server.editor.session.ui import Question
from fuselight_server.execution.runs.keys import Key
from fuselight_server.source.document import SourceDocument
from tests.support.recorded_ui import RecordedUi
from tests.support.reports import report

PATH = "/w/train.py"
TRAINING = """\
import torch

model = torch.compile(torch.nn.Linear(4, 4))

if __name__ == "__main__":
    model(torch.ones(4))
    torch.save(model.state_dict(), "ckpt.pt")
"""
DIRECTIVE = """\
import torch

# fuselight: f(f32[4])
@torch.compile
def f(x):
    return x
"""


class Worker:
    """Answers each request at once."""

    hello: Any = None

    def __init__(self) -> None:
        self.requests: list[RunRequest] = []

    async def run(
        self, request: RunRequest, _progress: Callable[..., None], _partial: Callable[..., None]
    ) -> Answer:
        self.requests.append(request)
        return Answer(request.id, report())

    async def close(self) -> None: ...


class AskingUi(RecordedUi):
    """Shows questions, which the test answers."""

    def __init__(self) -> None:
        super().__init__()
        self.questions: list[tuple[Question, asyncio.Future[str]]] = []

    async def confirm(self, question: Question) -> str:
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.questions.append((question, answer))
        return await answer


class ConsentSession:
    """One file in one folder without any answers."""

    def __init__(self, text: str = TRAINING, *, consent: str = "unknown", **settings: Any) -> None:
        self.state, self.ui, self.worker = State(), AskingUi(), Worker()
        self.folder = Folder("/w", "file:///w", consent=consent, settings=Settings(**settings))
        self.state.folders["/w"] = self.folder
        self.state.open(Document(f"file://{PATH}", PATH, 1, SourceDocument(PATH, text), runnable=True))
        self.analysis = Analysis(
            self.state,
            self.ui,
            make_worker=lambda _key, _settings, _log: self.worker,
            find_interpreter=lambda _folder: Interpreter("/python"),
        )
        self.analysis.early.end()

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)  # answers reach the requests that wait for them
        while self.analysis.runs.settled < self.analysis.runs.generation:
            self.ui.moved.clear()
            await self.ui.moved.wait()

    async def save(self) -> None:
        self.analysis.saves.saved(PATH, automatic=False)
        await self.settle()

    async def run(self, target: str | None = "model") -> None:
        self.analysis.requests.command(PATH, target)
        await self.settle()

    async def answer(self, text: str, number: int = -1) -> None:
        self.ui.questions[number][1].set_result(text)
        await self.settle()

    def started(self) -> list[tuple[str, bool, bool]]:
        """Of each run: its target, whether a save asked for it, and whether the program may run."""
        return [
            (request.target.name, request.automatic, request.inputs.main_line is not None)
            for request in self.worker.requests
        ]


@pytest.mark.asyncio
async def test_a_program_runs_only_after_a_question_that_says_that_it_may_write_files() -> None:
    session = ConsentSession(consent="run")
    await session.run()
    assert session.started() == []
    ((question, _),) = session.ui.questions
    assert question.message == "Run the __main__ block of train.py under torch.compile?"
    assert "to get the inputs of model" in question.detail
    assert "may write files" in question.detail
    assert list(question.answers) == ["Run When I Ask", "Run on Each Save", "Later"], (
        "the narrower one is the default"
    )
    await session.answer("command")
    assert session.started() == [("model", False, True)]


@pytest.mark.asyncio
async def test_a_save_does_not_run_a_program_that_runs_only_on_request() -> None:
    session = ConsentSession(consent="run")
    await session.run()
    await session.answer("command")
    await session.save()
    assert len(session.started()) == 1
    await session.run()
    assert len(session.started()) == 2, "it is not asked about again"
    assert len(session.ui.questions) == 1


@pytest.mark.asyncio
async def test_runs_of_every_tier_have_the_same_inputs_and_one_question() -> None:
    session = ConsentSession(consent="run")
    plan = MeasurePlan(("eager",))
    for tier, asked in ((Tier.MEASURED, plan), (Tier.KERNELS, None), (Tier.CAPTURE, None)):
        session.analysis.requests.command(PATH, "model", tier, asked)
        await session.settle()
        if tier is Tier.MEASURED:
            assert session.started() == [], "a benchmark runs the program up to its first call: it asks, too"
            await session.answer("command")
    benchmark, *others = session.worker.requests
    assert [request.tier for request in session.worker.requests] == [
        Tier.MEASURED,
        Tier.KERNELS,
        Tier.CAPTURE,
    ]
    assert benchmark.inputs.main_line == 5
    assert [(request.target, request.inputs) for request in others] == [
        (benchmark.target, benchmark.inputs)
    ] * 2
    assert len(session.ui.questions) == 1


@pytest.mark.asyncio
async def test_a_save_runs_the_program_with_consent() -> None:
    session = ConsentSession()
    await session.save()
    await session.answer("run")
    assert session.started() == [("", True, True)]
    await session.save()
    assert session.started() == [("", True, True)] * 2
    await session.run()
    assert session.started()[-1] == ("model", False, True), "a run that the user starts writes what it writes"


@pytest.mark.asyncio
async def test_an_answer_about_the_first_call_does_not_cover_the_whole_program() -> None:
    session, other = ConsentSession(), Key("/w/net.py", "Net")
    consent = session.analysis.consent
    question = program_question(session.folder, (other,), "/python", PATH, explicit=True)
    asking = consent.wait(question, (other,), lambda: None)
    assert asking is not None
    task = asyncio.create_task(asking)
    await session.settle()
    await session.answer("run")
    await task
    assert consent.for_program(PATH, automatic=True, is_part=True)
    await session.run()
    assert session.started() == [], "it would run all of the program: it asks, too"
    await session.answer("command")
    assert session.started() == [("model", False, True)]
    session.analysis.consent.forget_folder(session.folder)
    assert consent.for_program(PATH, automatic=False, is_part=True) is None


@pytest.mark.asyncio
async def test_an_answer_about_the_whole_program_covers_its_first_call() -> None:
    session = ConsentSession()
    await session.run()
    assert session.ui.questions[0][0].subject == PATH
    await session.answer("command")
    consent = session.analysis.consent
    assert consent.for_program(PATH, automatic=False, is_part=True)
    assert not consent.for_program(PATH, automatic=True, is_part=True)


@pytest.mark.asyncio
async def test_consent_to_a_folder_does_not_cover_its_programs() -> None:
    session = ConsentSession(TRAINING.replace("model = ", "# fuselight: model(f32[4])\nmodel = "))
    await session.save()
    assert session.ui.questions[0][0].program is None
    await session.answer("run")
    assert session.started() == [("model", True, False)], "the worker cannot fall back to the program"
    session.analysis.requests.command(PATH, "__main__")
    await session.settle()
    assert session.ui.questions[-1][0].program == PATH
    assert len(session.started()) == 1


@pytest.mark.asyncio
async def test_a_run_that_the_user_starts_repeats_a_hidden_question() -> None:
    session = ConsentSession(DIRECTIVE)
    await session.save()
    await session.run("f")
    assert [question.explicit for question, _ in session.ui.questions] == [False, True]
    await session.answer("run")
    assert session.started() == [("f", False, False)], "one run, though it was requested twice"


@pytest.mark.asyncio
async def test_the_first_question_may_be_answered_late_or_closed() -> None:
    session = ConsentSession(DIRECTIVE)
    await session.save()
    await session.run("f")
    await session.answer("later", 0)
    assert session.folder.consent == "unknown", "the second question still waits"
    await session.answer("run", 1)
    assert len(session.started()) == 1
    await session.run("f")
    assert len(session.ui.questions) == 2


@pytest.mark.asyncio
async def test_only_the_next_run_asks_a_closed_question_again() -> None:
    session = ConsentSession(consent="run")
    await session.run()
    await session.answer("later")
    await session.save()
    assert (len(session.ui.questions), session.started()) == (1, [])
    await session.run()
    assert len(session.ui.questions) == 2
    assert session.analysis.consent.asked == {Key(PATH, "model")}


@pytest.mark.asyncio
async def test_answers_are_forgotten_with_those_of_the_folder() -> None:
    session = ConsentSession(consent="run")
    await session.run()
    await session.answer("command")
    session.analysis.consent.forget_folder(session.folder)
    await session.run()
    assert len(session.ui.questions) == 2
    assert session.folder.consent == "unknown"


def test_runs_by_hand_offer_no_run_on_save() -> None:
    async def asked() -> list[str]:
        session = ConsentSession(consent="run", run="manual")
        await session.run()
        return list(session.ui.questions[0][0].answers)

    assert asyncio.run(asked()) == ["Run When I Ask", "Later"]


@pytest.mark.asyncio
async def test_a_queued_run_keeps_the_settings_of_the_folder_whose_interpreter_it_has() -> None:
    session = ConsentSession(DIRECTIVE, consent="run", limits=LimitSettings(seconds=77.0))
    session.folder.uri = None
    session.analysis.requests.command(PATH, "f")
    # The client adds the file's folder to the workspace; its settings are not known yet.
    session.state.folders["/w"] = Folder("/w", "file:///w")
    await session.settle()
    assert [request.limits.seconds for request in session.worker.requests] == [77.0]
