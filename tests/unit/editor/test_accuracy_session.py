"""Comparisons with eager mode in the queue: their verdict in lens, hover, report and problems; after a save; kept."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared.protocol import (
    AccuracyRequest,
    CaptureRequest,
    Limits,
    RunRequest,
)
from fuselight.shared.report import Culprit, Failure, Report, Stage, Tier
from fuselight_server.base.settings import Settings
from fuselight_server.base.store import Store
from fuselight_server.editor.handlers import on_demand
from fuselight_server.editor.messages.answers import MessageRange, ReportNode
from fuselight_server.editor.presenters.convert import Client
from fuselight_server.editor.presenters.lens import target_lenses
from fuselight_server.editor.presenters.report_nodes import shown_results, target_node, with_further_results
from fuselight_server.editor.results.run_progress import describe
from fuselight_server.editor.results.shown_findings import findings_of
from fuselight_server.editor.results.target_hover import targets
from fuselight_server.editor.results.target_lens import TargetLens
from fuselight_server.editor.session.consent import ASKED
from fuselight_server.editor.session.stored_results import StoredResults
from fuselight_server.execution.runs.keys import Key, WorkerKey
from fuselight_server.execution.runs.last_results import forget_results, kept_results
from tests.support.benchmark_session import TEXT, BenchmarkSession, OnDemandWorker, Worker
from tests.support.compared_results import Fault, ScriptedProgram


def write_text(path: str, text: str) -> None:
    Path(path).write_text(text)


PLACE: MessageRange = {"start": {"line": 4, "character": 0}, "end": {"line": 4, "character": 1}}
LINE = 6
WRONG = {0: Fault(Stage.CODE, cures=("pattern_matcher",), line=LINE)}
FAILED = Failure(Culprit.USER, "timeout", "the run took longer than 600 s", "raise the limit")


class ComparingWorker(OnDemandWorker):
    """Answers comparisons as a scripted program does."""

    tier = Tier.ACCURACY
    program = ScriptedProgram()

    def report_for(self, request: RunRequest) -> Report:
        return self.program.answer(request)


class Session(BenchmarkSession):
    """A session whose target `f` is compared."""

    def __init__(self, folder: Path, program: ScriptedProgram | None = None, **settings: Any) -> None:
        super().__init__(folder)
        self.folder, self.program = folder, program or ScriptedProgram()
        self.state.folders[str(folder)].settings = Settings(live="off", **settings)
        self.key = Key(self.path, "f", Tier.ACCURACY)

    def _worker(self, worker_key: WorkerKey, _settings: Settings, _log: Callable[[str], None]) -> Worker:
        worker = ComparingWorker(worker_key)
        worker.program = self.program
        return self.add_worker(worker)

    @property
    def comparing(self) -> ComparingWorker:
        worker = self.measuring
        assert isinstance(worker, ComparingWorker)
        return worker

    def start(self, target: str = "f") -> None:
        on_demand.start(self, {"uri": self.uri, "target": target}, tier=Tier.ACCURACY)  # type: ignore[arg-type]  # the parts of a server that it reads

    def cancel(self, **options: Any) -> None:
        on_demand.cancel(self, options, tier=Tier.ACCURACY)  # type: ignore[arg-type]

    async def compare(self) -> None:
        self.start()
        await self.settle()

    def save(self) -> None:
        self.analysis.saves.saved(self.path, automatic=False)

    def hold(self) -> None:
        """Make the worker of comparisons wait from its start on."""
        self.analysis.workers.run(
            next(job.worker_key for job in self.analysis.runs.queue.jobs() if job.key.tier is Tier.ACCURACY)
        )
        self.comparing.held.clear()

    async def reached(self, holds: Callable[[], bool]) -> None:
        until = asyncio.get_running_loop().time() + 10
        while not holds():
            assert asyncio.get_running_loop().time() < until, "it never came to that"
            self.ui.moved.clear()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.ui.moved.wait(), 0.02)

    def titles(self, name: str = "f") -> list[str]:
        runs = self.analysis.runs
        shown = self.state.snapshot(self.uri, runs.in_flight, runs.queue.waiting)
        assert shown is not None
        shown = replace(shown, background=self.analysis.background_runs.automatic)
        known = TargetLens(shown, name, is_known=True)
        return [entry["command"]["title"] for entry in target_lenses(known, PLACE)]

    def problems(self) -> list[tuple[str, int, bool]]:
        shown = findings_of(self.state.view(), self.path)
        return [
            (finding.code, finding.span.line, edited) for finding, edited in shown if finding.code[2] == "8"
        ]

    def node(self) -> ReportNode:
        (target,) = with_further_results(shown_results(self.state, self.path), self.state, self.path)
        view = Client("utf-8", self.state.documents.read_line, self.uri_of)
        return target_node(target.capture, view, target.kernels, accuracy=target.accuracy)

    def kept(self) -> list[Report]:
        return [report for report, _ in kept_results(Store.at(self.folder), Tier.ACCURACY)]


@pytest.mark.asyncio
async def test_a_right_target_is_as_eager_for_the_calls_that_were_compared(tmp_path: Path) -> None:
    session = Session(tmp_path)
    await session.compare()
    assert session.titles()[0] == "accuracy: as eager"
    assert session.problems() == []
    session.program.random = frozenset({2})
    await session.compare()
    assert session.titles()[0] == "accuracy: as eager", "a further run decides a call with random numbers"
    await session.analysis.close()


@pytest.mark.asyncio
async def test_what_was_not_compared_is_in_the_lens(tmp_path: Path) -> None:
    session = Session(tmp_path, ScriptedProgram(calls=0))
    await session.compare()
    (first, *_) = session.titles()
    assert first.startswith("accuracy: not compared: ")
    assert session.problems() == []
    await session.analysis.close()


@pytest.mark.asyncio
async def test_a_wrong_target_has_the_line_in_lens_problems_hover_and_report(
    tmp_path: Path,
) -> None:
    session = Session(tmp_path, ScriptedProgram(WRONG))
    session.analysis.requests.command(session.path, "f")  # its capture
    await session.compare()
    assert session.titles()[0] == f"results differ from eager: line {LINE}"
    assert session.problems() == [("FL801", LINE, False)]
    snapshot = session.state.snapshot(session.uri, {})
    assert snapshot is not None
    (hover,) = targets(snapshot, 5)
    assert "`f` accuracy: 1 call differs from eager (3 calls, 6 values compared)" in hover
    node = next(child for child in session.node()["children"] if child["contextValue"] == "accuracy")
    assert node["description"] == "1 call differs from eager (3 calls, 6 values compared)"
    wrong, *right = node["children"]
    assert (wrong["label"], wrong["description"]) == ("Call 1: Net", "output is off by up to 1.91")
    assert [call["description"] for call in right] == ["as eager, 2 values"] * 2
    inside = [(child["contextValue"], child["label"]) for child in wrong["children"]]
    assert inside[0] == ("firstDifference", f"First difference on line {LINE}")
    assert inside[2] == ("stage", "Begins to differ in code generation (TorchInductor)")
    cured = [child for child in wrong["children"] if child["icon"] == "verified"]
    assert [child["label"] for child in cured] == ["torch._inductor.config.pattern_matcher = False"]
    await session.analysis.close()


@pytest.mark.asyncio
async def test_an_edit_makes_the_verdict_stale_and_moves_its_line(tmp_path: Path) -> None:
    session = Session(tmp_path, ScriptedProgram(WRONG))
    await session.compare()
    session.edit()
    assert session.titles()[0] == f"results differ from eager: line {LINE + 1} (before your edit)"
    assert session.problems() == [("FL801", LINE + 1, True)]
    node = session.node()
    assert node["description"].endswith("(before your edit)"), "a target that has no capture"
    await session.analysis.close()


@pytest.mark.asyncio
async def test_another_session_shows_the_last_comparison_of_unchanged_files(tmp_path: Path) -> None:
    session = Session(tmp_path, ScriptedProgram(WRONG))
    await session.compare()
    await session.analysis.close()
    later = Session(tmp_path)
    await StoredResults(later.state).show(Store.at(tmp_path))
    assert later.titles()[0].startswith(f"results differ from eager: line {LINE} (from 20")
    assert later.problems() == [("FL801", LINE, False)]
    await later.analysis.close()
    changed = Session(tmp_path)
    write_text(changed.path, TEXT + "# changed\n")
    await StoredResults(changed.state).show(Store.at(tmp_path))
    assert changed.problems() == []
    forget_results(Store.at(tmp_path))
    assert changed.kept() == []


@pytest.mark.asyncio
async def test_a_run_that_fails_keeps_the_verdict_and_says_so(tmp_path: Path) -> None:
    session = Session(tmp_path, ScriptedProgram(WRONG))
    await session.compare()
    session.comparing.failure = FAILED
    await session.compare()
    assert session.titles()[0] == f"results differ from eager: line {LINE}, failed later"
    assert session.problems() == [("FL801", LINE, False)]
    assert len(session.kept()) == 1
    await session.analysis.close()
    alone = Session(tmp_path)
    alone.start()
    alone.hold()
    alone.comparing.failure = FAILED
    alone.comparing.held.set()
    await alone.settle()
    assert alone.titles()[0] == "accuracy: stopped at the time limit"
    await alone.analysis.close()


@pytest.mark.asyncio
async def test_it_runs_in_the_worker_of_benchmarks_with_more_time_than_a_capture(tmp_path: Path) -> None:
    session = Session(tmp_path, ScriptedProgram(WRONG))
    limits = Settings().limits
    await session.compare()
    (first, *further) = session.comparing.asked
    assert isinstance(first, AccuracyRequest)
    assert first.limits == Limits(seconds=5 * limits.seconds, memory_mb=2 * limits.memory_mb)
    assert all(isinstance(request, AccuracyRequest) for request in further)
    assert {request.limits for request in further} == {first.limits}
    assert not first.automatic
    assert len(session.kept()) == 1
    await session.analysis.close()


@pytest.mark.asyncio
async def test_the_button_cancels_what_it_started_and_the_verdict_before_returns(tmp_path: Path) -> None:
    session = Session(tmp_path, ScriptedProgram(WRONG))
    await session.compare()
    session.comparing.held.clear()
    session.start()
    await session.reached(
        lambda: session.key in session.analysis.runs.in_flight and not session.comparing.held.is_set()
    )
    await session.reached(lambda: session.analysis.runs.in_flight[session.key].progress is not None)
    running = session.analysis.runs.in_flight[session.key]
    assert describe(running) == "Accuracy of f: comparing with eager mode: calling"
    assert session.titles()[0] == "Accuracy: comparing with eager mode: calling"
    assert "Cancel Accuracy" in session.titles()
    session.analysis.cancel(session.path)
    assert not running.token.is_canceled, "it has a button of its own"
    session.cancel(uri=session.uri, target="Net")
    assert not running.token.is_canceled, "another target"
    session.cancel(uri=session.uri, target="f")
    await session.settle()
    assert session.titles()[:2] == ["comparison canceled", f"results differ from eager: line {LINE}"]
    await session.analysis.close()


@pytest.mark.asyncio
async def test_the_setting_hides_the_lens(tmp_path: Path) -> None:
    session = Session(tmp_path, accuracy="off")
    session.analysis.requests.command(session.path, "f")
    await session.settle()
    assert "Accuracy" not in session.titles()
    assert "Benchmark" in session.titles()
    session.state.folders[str(tmp_path)].settings = Settings()
    assert "Accuracy" in session.titles()
    await session.analysis.close()


@pytest.mark.asyncio
async def test_a_program_runs_only_after_the_question_about_it(tmp_path: Path) -> None:
    session = Session(tmp_path)
    asked: list[str | None] = []

    async def confirm(question: Any) -> str:
        asked.append(question.program)
        return "later"

    session.ui.confirm = confirm  # type: ignore[method-assign]
    session.start("__main__")
    await session.reached(lambda: bool(asked))
    assert asked == [session.path]
    await session.settle()
    assert session.workers == []
    session.state.trusted = False
    session.ui.messages_fail = False
    session.start()
    assert session.workers == []
    await session.analysis.close()


def kinds(session: Session) -> list[str]:
    """The requests of all workers."""
    return [type(request).__name__ for worker in session.workers for request in worker.asked]


@pytest.mark.asyncio
async def test_a_save_is_followed_by_a_comparison_once_nothing_else_runs(tmp_path: Path) -> None:
    session = Session(tmp_path, accuracy="afterSave")
    session.save()
    await session.reached(lambda: session.key in session.state.results)
    await session.settle()
    (request,) = session.comparing.asked
    assert request.automatic
    assert session.titles()[0] == "accuracy: as eager"
    session.analysis.requests.command(session.path, "f")
    await session.settle()
    assert len(session.comparing.asked) == 1, "the user has asked for a run, and for nothing else"
    session.save()
    await session.settle()
    assert len(session.comparing.asked) == 1, "nothing has changed"
    session.edit()
    session.save()
    await session.reached(lambda: len(session.comparing.asked) == 2)
    await session.settle()
    await session.analysis.close()
    other = Session(tmp_path)
    other.save()
    await other.settle()
    assert kinds(other) == [CaptureRequest.__name__], "the default"
    await other.analysis.close()


@pytest.mark.asyncio
async def test_an_automatic_comparison_gives_way(tmp_path: Path) -> None:
    session = Session(tmp_path, accuracy="afterSave")
    session.save()
    await session.reached(lambda: any(job.key == session.key for job in session.analysis.runs.queue.jobs()))
    session.hold()
    await session.reached(lambda: bool(session.comparing.asked))
    (running,) = session.analysis.runs.in_flight.values()
    assert [title for title in session.titles() if title[0].isupper()] == [
        "Run", "Details", "Kernels", "Cancel Accuracy", "Memory", "Benchmark", "Tune",
    ], "everything else can be started"  # fmt: skip
    session.analysis.requests.command(session.path, "f")
    assert running.token.is_canceled, "a run that is asked for goes first"
    await session.reached(lambda: len(session.comparing.asked) == 2)
    assert not session.state.run_ends, "nobody asked for the comparison: nothing is said of its end"
    again = session.analysis.runs.in_flight[session.key]
    session.analysis.documents.on_edit()
    assert again.token.is_canceled
    await session.settle()
    assert len(session.comparing.asked) == 2, "an edit makes it pointless"
    assert session.key not in session.state.results
    await session.analysis.close()


@pytest.mark.asyncio
async def test_what_the_user_asks_for_is_not_automatic_any_more(tmp_path: Path) -> None:
    session = Session(tmp_path, accuracy="afterSave")
    session.save()
    await session.reached(lambda: any(job.key == session.key for job in session.analysis.runs.queue.jobs()))
    session.hold()
    await session.reached(lambda: bool(session.comparing.asked))
    session.start()
    await session.reached(lambda: len(session.comparing.asked) == 2)
    session.analysis.documents.on_edit()
    assert not session.analysis.runs.in_flight[session.key].token.is_canceled
    assert session.analysis.runs.in_flight[session.key].job.cause == ASKED.cause
    session.comparing.held.set()
    await session.settle()
    assert session.titles()[0] == "accuracy: as eager"
    await session.analysis.close()
