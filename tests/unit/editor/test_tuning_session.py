"""Searches in the queue: with the benchmarks' worker and turn, with verified fixes, canceled, written, kept."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fuselight.shared import tuned_file
from fuselight.shared.codec import encode
from fuselight.shared.configurations import MODES
from fuselight.shared.protocol import TuneRequest
from fuselight.shared.report import Culprit, Failure, Report, Tier, data_key
from fuselight_server.base.settings import TuneSettings
from fuselight_server.base.store import Store
from fuselight_server.editor.handlers import tune
from fuselight_server.editor.handlers.status import TimedRunNotifications
from fuselight_server.editor.messages.answers import MessageRange, StartAnswer
from fuselight_server.editor.messages.params import TunedParams
from fuselight_server.editor.presenters.lens import target_lenses
from fuselight_server.editor.results.run_progress import describe
from fuselight_server.editor.results.target_hover import targets
from fuselight_server.editor.results.target_lens import TargetLens
from fuselight_server.editor.session.stored_results import StoredResults
from fuselight_server.editor.session.timed_results import tune_plan_of
from tests.support.benchmark_session import TEXT, BenchmarkSession
from tests.support.tuned import search, undecided

PLACE: MessageRange = {"start": {"line": 3, "character": 0}, "end": {"line": 3, "character": 1}}
BEST = "best so far CUDA graphs and coordinate descent 1.60×"


class Session(BenchmarkSession):
    """A session whose target `f` is tuned."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.key = tune.SEARCHES.key(self.path, "f")

    def command(self, **arguments: Any) -> StartAnswer:
        return tune.start(self, {"uri": self.uri, "target": "f", **arguments})  # type: ignore[arg-type]  # the parts of a server that it reads

    def spawn(self, work: Any, _what: str) -> None:
        self.spawned = asyncio.ensure_future(work)

    async def page(self, _run: str | None = None, _with: str | None = None) -> dict[str, Any]:
        shown: dict[str, Any] = encode(await tune.tuned(self, TunedParams(self.uri, "f")))  # type: ignore[arg-type]
        return shown

    def cancel(self, **arguments: Any) -> None:
        tune.cancel(self, arguments)  # type: ignore[arg-type]

    def titles(self) -> list[str]:
        running = self.analysis.runs
        shown = self.state.snapshot(self.uri, running.in_flight, running.queue.waiting)
        assert shown is not None
        entries = target_lenses(TargetLens(shown, "f", is_known=True), PLACE)
        return [entry["command"]["title"] for entry in entries]

    def search_report(self, **of: Any) -> Report:
        report = search(of=of)
        target = replace(report.target, path=self.path, name="f", kind="function")
        return replace(report, target=target, files={self.path: data_key(TEXT.encode())})

    async def until(self, holds: Any) -> None:
        while not holds():
            self.ui.drawn.clear()
            self.ui.moved.clear()
            waits = [asyncio.ensure_future(event.wait()) for event in (self.ui.drawn, self.ui.moved)]
            done, left = await asyncio.wait(waits, timeout=10, return_when=asyncio.FIRST_COMPLETED)
            assert done
            for task in left:
                task.cancel()

    async def run(self, answer: Report | None) -> None:
        assert self.command()["started"]
        await self.began()
        self.measuring.answer = answer
        self.measuring.held.set()
        await self.settle()
        self.measuring.held.clear()


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path)


@pytest.mark.asyncio
async def test_a_decision_is_shown_written_and_kept(session: Session, tmp_path: Path) -> None:
    assert (await session.page())["message"] == "Press Tune above f to find its fastest configuration."
    await session.run(session.search_report())
    (request,) = session.measuring.asked
    assert isinstance(request, TuneRequest)
    assert request.plan.budget_seconds == 120
    page = await session.page()
    assert (page["found"], page["running"], page["stale"]) == (True, False, False)
    assert (page["file"], page["file_shown"]) == ((tmp_path / tuned_file.NAME).as_uri(), tuned_file.NAME)
    kept = tuned_file.read(tmp_path / tuned_file.NAME)
    assert kept is not None
    assert kept.results[0].gain == 1.6
    assert session.titles()[0] == "Tuned: 1.60× over default"
    snapshot = session.state.snapshot(session.uri, {})
    assert snapshot is not None
    (target,) = targets(snapshot, 5)
    assert "tuning: CUDA graphs and coordinate descent: 1.60× over default" in target
    session.edit()
    assert (await session.page())["stale"]
    assert session.titles()[0] == "Tuned: 1.60× over default (before your edit)"
    await session.analysis.close()


@pytest.mark.asyncio
async def test_another_session_shows_the_last_search(session: Session, tmp_path: Path) -> None:
    await session.run(session.search_report())
    await session.analysis.close()
    later = Session(tmp_path)
    await StoredResults(later.state).show(Store.at(tmp_path))
    page = await later.page()
    assert (page["found"], page["file_shown"]) == (True, tuned_file.NAME)
    assert later.titles()[0].startswith("Tuned: 1.60× over default (from 20")
    (tmp_path / tuned_file.NAME).unlink()
    assert (await later.page())["file"] == "", "somebody removed it"
    await later.analysis.close()


@pytest.mark.asyncio
async def test_progress_has_the_best_so_far(session: Session) -> None:
    assert session.command()["started"]
    await session.began()
    worker = session.measuring
    worker.partials = [replace(session.search_report(), tuned=undecided())]
    session.cancel()
    await session.settle()
    session.command()
    await session.until(lambda: session.key in session.state.tunings)
    running = session.analysis.runs.in_flight[session.key]
    assert describe(running) == f"Tuning f: default: compiling; {BEST}"
    assert session.titles()[-1] == "Cancel Tuning"
    assert session.titles()[1].startswith("best so far CUDA graphs")
    kept = session.state.tunings[session.key]
    kept.report = replace(kept.report, tuned=undecided(winner="default"))
    assert session.titles()[1] == "nothing faster than default yet (partial: still running)"
    page = await session.page()
    assert (page["running"], page["partial"], page["result"]) == (True, True, None)
    await session.analysis.close()


@pytest.mark.asyncio
async def test_a_cancel_keeps_what_was_confirmed(session: Session, tmp_path: Path) -> None:
    session.command()
    await session.began()
    session.cancel()
    await session.settle()
    session.measuring.partials = [session.search_report(finished=False)]
    session.command()
    await session.until(lambda: session.key in session.state.tunings)
    session.cancel(uri=session.uri, target="f")
    await session.settle()
    await session.until(lambda: session.state.tunings[session.key].written is not None)
    assert (tmp_path / tuned_file.NAME).exists()
    page = await session.page()
    assert page["result"]["gain"] == 1.6
    assert "partial: canceled" in page["notes"]
    await session.analysis.close()


@pytest.mark.asyncio
async def test_a_cancel_without_a_decision_restores_the_search_before(session: Session) -> None:
    await session.run(session.search_report())
    before = session.state.tunings[session.key]
    session.measuring.partials = [replace(session.search_report(), tuned=undecided())]
    session.command()
    await session.until(lambda: session.state.tunings[session.key] is not before)
    session.cancel(uri=session.uri, target="f")
    await session.settle()
    assert session.state.tunings[session.key] is before
    await session.analysis.close()


@pytest.mark.asyncio
async def test_a_search_waits_for_a_benchmark_and_uses_its_worker(session: Session) -> None:
    from fuselight_server.editor.handlers import bench  # noqa: PLC0415

    bench.start(session, {"uri": session.uri, "target": "f"})  # type: ignore[arg-type]
    await session.began()
    session.command()
    await session.until(lambda: session.key in session.analysis.runs.queue.waiting)
    assert (await session.page())["message"] == "Tuning f: waiting for another run to end"
    assert "Tune: waiting for another run to end" in session.titles() or len(session.titles()) > 2
    assert len([worker for worker in session.workers if worker.worker_key.for_benchmarks]) == 1
    session.analysis.cancel(session.path)
    assert session.key in session.analysis.runs.queue.waiting, "to cancel a file's runs leaves timed ones"
    session.cancel()
    session.analysis.cancel(None)
    await session.settle()
    await session.analysis.close()


@pytest.mark.asyncio
async def test_a_search_that_fails_after_times_keeps_them(session: Session) -> None:
    session.command()
    await session.began()
    session.cancel()
    await session.settle()
    worker = session.measuring
    worker.partials = [replace(session.search_report(), tuned=undecided())]
    session.command()
    await session.until(lambda: session.key in session.state.tunings)
    worker.held.set()  # it answers with a failure
    await session.settle()
    page = await session.page()
    assert page["found"]
    assert "it ended. Fix it" in page["notes"]
    assert "partial: ended early" in page["notes"]
    await session.analysis.close()


@pytest.mark.asyncio
async def test_a_search_that_measured_nothing_says_why(session: Session) -> None:
    failure = Failure(Culprit.USER, "inputs", "it has no inputs", "write a directive")
    await session.run(replace(session.search_report(), tuned=None, failures=(failure,)))
    page = await session.page()
    assert (page["found"], page["message"]) == (
        False, "The last search failed: it has no inputs. Write a directive",
    )  # fmt: skip
    assert session.titles()[0] == "search failed: it has no inputs"
    await session.analysis.close()


@pytest.mark.asyncio
async def test_a_file_that_cannot_be_written_is_said_and_costs_nothing(
    session: Session, tmp_path: Path
) -> None:
    (tmp_path / tuned_file.NAME).write_text("damaged")
    await session.run(session.search_report())
    page = await session.page()
    assert "is damaged" in page["file_problem"]
    assert page["file"] == ""
    assert "torch.compile" in page["result"]["code"]
    await session.analysis.close()


@pytest.mark.asyncio
async def test_what_cannot_start_says_what_to_do(session: Session) -> None:
    untitled = tune.start(session, {"uri": "untitled:1", "target": "f"})  # type: ignore[arg-type]
    assert "save this to a file first" in untitled["message"]
    assert "press Tune above one" in session.command(target="g")["message"]
    folder = session.state.folder_of(session.path)
    folder.settings = replace(folder.settings, tune=TuneSettings(candidates=["maxautotune"]))
    assert session.command()["message"].startswith(
        "The setting fuselight.tune.candidates: no configuration 'maxautotune': did you mean 'max-autotune'?"
    )
    session.state.trusted = False
    assert "not trusted" in session.command()["message"]
    assert session.workers == []


@pytest.mark.asyncio
async def test_the_settings_reach_the_search(session: Session, tmp_path: Path) -> None:
    folder = session.state.folder_of(session.path)
    tuning = TuneSettings(
        budget=30.0, numerics="tf32", fixed_modules=True, candidates=["max-autotune"], work="training_step", modes=True,
        fixes=False, time_limit=9.0, device=" cpu ", artifacts=True,
    )  # fmt: skip
    folder.settings = replace(folder.settings, tune=tuning)
    await session.run(session.search_report())
    plan = session.measuring.asked[0].plan  # type: ignore[attr-defined]
    assert (plan.budget_seconds, plan.numerics.value, plan.candidates, plan.work.value, plan.modes) == (
        30.0, "tf32", ("max-autotune",), "training_step", MODES,
    )  # fmt: skip
    assert (plan.limit_seconds, plan.device, plan.artifacts) == (9.0, "cpu", str(tmp_path))
    assert plan.fixed_modules
    await session.analysis.close()


@pytest.mark.asyncio
async def test_verified_fixes_go_with_the_search(session: Session) -> None:
    verified = SimpleNamespace(
        attempts=(SimpleNamespace(remedy=SimpleNamespace(title="Use torch.where")),),
        before={session.path: TEXT},
        after={session.path: "fixed"},
    )
    fixes: Any = SimpleNamespace(
        verify_all=lambda _path, _seconds: asyncio.sleep(0.01, verified), is_current=lambda _texts: True
    )
    plan = tune_plan_of(TuneSettings(), session.path)
    tunings = session.analysis.tunings
    assert await tunings.with_fixes(session.key, plan, fixes) is plan, "nothing is known of the target"
    session.analysis.saves.saved(session.path, automatic=False)
    await session.settle()
    captured = session.state.captures[session.key.as_capture]
    assert await tunings.with_fixes(session.key, plan, fixes) is plan, "it has no break"
    captured.report = replace(captured.report, breaks=(SimpleNamespace(),))  # type: ignore[arg-type]
    tune_plan = await tunings.with_fixes(session.key, plan, fixes)
    assert (tune_plan.fixes, tune_plan.fixed) == (("Use torch.where",), {session.path: "fixed"})
    assert tune_plan.budget_seconds < plan.budget_seconds, "the verification is part of the budget"
    captured.report = replace(captured.report, breaks=())
    await session.run(session.search_report())
    await session.analysis.close()


@pytest.mark.asyncio
async def test_a_cancel_during_the_verification_starts_no_search(session: Session) -> None:
    held = asyncio.Event()

    async def with_fixes(_key: Any, plan: Any, _fixes: Any) -> Any:
        await held.wait()
        return plan

    session.analysis.tunings.with_fixes = with_fixes  # type: ignore[assignment,method-assign]
    session.command()
    await session.until(lambda: session.key in session.analysis.tunings.preparing)
    assert (await session.page())["message"] == "Tuning f: verifying fixes first"
    session.cancel(uri=session.uri, target="f")
    await session.spawned
    assert not (await session.page())["running"]
    assert session.workers == []


@pytest.mark.asyncio
async def test_the_client_is_told_once_of_each_change(session: Session) -> None:
    told: list[str] = []
    session.announce = lambda method, _params: told.append(method)
    notifications = TimedRunNotifications()
    notifications.update(session)  # type: ignore[arg-type]
    await session.run(session.search_report())
    notifications.update(session)  # type: ignore[arg-type]
    notifications.update(session)  # type: ignore[arg-type]
    assert told == ["fuselight/tunedChanged"]
    assert session.key.tier is Tier.TUNED
    await session.analysis.close()
