"""The queue: one in flight and one waiting per target, generations, late results."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from hypothesis import given
from hypothesis import strategies as st

from fuselight.shared.protocol import (
    Answer,
    CaptureRequest,
    InputsPlan,
    Progress,
    Refused,
    RunRequest,
    Target,
)
from fuselight.shared.report import Location, Report
from fuselight_server.editor.results.run_progress import describe
from fuselight_server.execution.runs.keys import Key, WorkerKey
from fuselight_server.execution.runs.queue import Job, Queue, Run, Running, Runs
from tests.support.reports import report

LANE = WorkerKey("/python", (), "/folder")


def request(name: str, identity: int) -> RunRequest:
    target = Target(path="/a.py", name=name, kind="function", line=1, compiled=True)
    return CaptureRequest(
        id=identity, generation=identity, target=target, inputs=InputsPlan(), roots=("/folder",)
    )


def job(name: str, generation: int, cause: str = "saved") -> Job:
    return Job(Key("/a.py", name), LANE, generation, cause, lambda: request(name, generation))


Partly = Callable[[Job, Report | None], Awaitable[None]]


async def nothing(_job: Job, _report: Report | None) -> None: ...


class Held:
    """A worker whose runs end when the test says so. `deaf`: it answers after a cancel."""

    def __init__(self, *, deaf: bool = False) -> None:
        self.started: asyncio.Queue[int] = asyncio.Queue()
        self.release = asyncio.Event()
        self.deaf = deaf

    async def run(
        self,
        request: RunRequest,
        on_progress: Callable[[Progress], None],
        _on_partial: Callable[[Report], None],
    ) -> Answer | Refused:
        on_progress(Progress(id=request.id, phase="trace"))
        self.started.put_nowait(request.id)
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            if not self.deaf:
                raise
        return Refused(id=request.id, reason="failed")


def runs_with(run: Run, partly: Partly = nothing) -> tuple[Runs, list[int], asyncio.Queue[int]]:
    delivered: list[int] = []
    settled: asyncio.Queue[int] = asyncio.Queue()

    async def deliver(job: Job, _request: RunRequest, _outcome: Answer | Refused) -> None:
        delivered.append(job.generation)

    runs = Runs(
        worker=lambda _worker_key: run,
        deliver=deliver,
        changed=lambda: settled.put_nowait(runs.settled),
        log=print,
        tell=print,
        partly=partly,
    )
    return runs, delivered, settled


async def until(settled: asyncio.Queue[int], generation: int) -> None:
    while await asyncio.wait_for(settled.get(), 10) < generation:
        pass


def test_the_location_of_a_run_is_shown_once() -> None:
    traced = Progress(1, "trace", "frame 17, model.py:88")
    place = Location("/w/model.py", 88, function="forward")
    kernels = Progress(1, "kernels", "graph 1")
    running = [
        Running(job("f", 1), 0.0, progress=progress)
        for progress in (None, traced, traced.at(place), kernels, kernels.at(place))
    ]
    assert [describe(running_job) for running_job in running] == [
        "starting f",
        "tracing frame 17, model.py:88",
        "tracing forward, model.py:88",
        "generated graph 1",
        "generating kernels in forward, model.py:88",
    ]


def test_a_waiting_run_is_replaced_and_the_causes_are_joined() -> None:
    queue = Queue()
    queue.add_job(job("f", 1))
    queue.add_job(job("f", 2, "command"))
    assert [job.generation for job in queue.waiting.values()] == [2]
    assert queue.waiting[Key("/a.py", "f")].cause == "saved, command"


@given(st.lists(st.sampled_from(["add f", "add g", "start", "finish", "drop"])))
def test_at_most_one_run_is_active_and_one_queued_per_target(steps: list[str]) -> None:
    queue = Queue()
    generation = settled = 0
    for step in steps:
        if step.startswith("add"):
            generation += 1
            queue.add_job(job(step[-1], generation))
        elif step == "start":
            queue.start(LANE)
        elif step == "finish" and queue.running:
            queue.end_job(next(iter(queue.running.values())))
        elif step == "drop":
            queue.drop(None)
        assert queue.settled(generation) >= settled, "a generation that is over stays over"
        settled = queue.settled(generation)
    pending = [*queue.waiting.values(), *queue.running.values()]
    assert queue.settled(generation) == min((job.generation for job in pending), default=generation + 1) - 1


def test_a_newer_run_supersedes_and_only_it_is_delivered() -> None:
    async def scenario(*, deaf: bool) -> list[int]:
        worker = Held(deaf=deaf)
        runs, delivered, settled = runs_with(worker.run)
        runs.request_run(job("f", runs.next_generation()), supersede=True)
        assert await asyncio.wait_for(worker.started.get(), 10) == 1
        runs.request_run(job("f", runs.next_generation()), supersede=True)
        assert await asyncio.wait_for(worker.started.get(), 10) == 2
        worker.release.set()
        await until(settled, 2)
        return delivered

    assert asyncio.run(scenario(deaf=False)) == [2]
    assert asyncio.run(scenario(deaf=True)) == [2], "a late result is dropped"


def test_an_automatic_run_waits_for_the_one_in_flight() -> None:
    async def scenario() -> list[int]:
        worker = Held()
        runs, delivered, settled = runs_with(worker.run)
        runs.request_run(job("f", runs.next_generation()), supersede=False)
        await asyncio.wait_for(worker.started.get(), 10)
        runs.request_run(job("f", runs.next_generation()), supersede=False)
        assert runs.settled == 0
        worker.release.set()
        await until(settled, 2)
        return delivered

    assert asyncio.run(scenario()) == [1, 2]


def test_a_cancel_ends_the_running_and_the_queued_run() -> None:
    async def scenario() -> list[int]:
        worker = Held()
        runs, delivered, settled = runs_with(worker.run)
        runs.request_run(job("f", runs.next_generation()), supersede=False)
        await asyncio.wait_for(worker.started.get(), 10)
        runs.request_run(job("f", runs.next_generation()), supersede=False)
        runs.cancel([*runs.queue.waiting, *runs.queue.running])
        await until(settled, 2)
        assert worker.started.empty()
        return delivered

    assert asyncio.run(scenario()) == []


def test_close_ends_running_and_forgets_queued_work() -> None:
    async def scenario() -> list[int]:
        worker = Held()
        runs, delivered, _ = runs_with(worker.run)
        for name in ("f", "g"):
            runs.request_run(job(name, runs.next_generation()), supersede=True)
        await asyncio.wait_for(worker.started.get(), 10)
        await runs.close()
        assert runs.settled == 2
        return delivered

    assert asyncio.run(scenario()) == []


def test_an_internal_error_ends_only_its_run() -> None:
    class Broken:
        async def run(
            self,
            _request: RunRequest,
            _on_progress: Callable[[Progress], None],
            _on_partial: Callable[[Report], None],
        ) -> Answer | Refused:
            raise ZeroDivisionError

    async def scenario() -> list[int]:
        runs, delivered, settled = runs_with(Broken().run)
        runs.request_run(job("f", runs.next_generation()), supersede=True)
        runs.request_run(job("g", runs.next_generation()), supersede=True)
        await until(settled, 2)
        return delivered

    assert asyncio.run(scenario()) == [1, 2]


class Ready:
    """A worker that answers at once."""

    async def run(
        self,
        request: RunRequest,
        _on_progress: Callable[[Progress], None],
        _on_partial: Callable[[Report], None],
    ) -> Answer | Refused:
        return Refused(id=request.id, reason="failed")


def test_a_result_that_cannot_be_accepted_is_an_internal_failure_and_others_continue() -> None:
    async def scenario() -> list[tuple[int, str]]:
        delivered: list[tuple[int, str]] = []
        settled: asyncio.Queue[int] = asyncio.Queue()

        async def deliver(job: Job, _request: RunRequest, outcome: Answer | Refused) -> None:
            assert isinstance(outcome, Refused)
            if job.generation == 1 and outcome.failure is None:
                raise KeyError("the report")
            delivered.append((job.generation, outcome.failure.message if outcome.failure else ""))

        runs = Runs(
            worker=lambda _worker_key: Ready().run,
            deliver=deliver,
            changed=lambda: settled.put_nowait(runs.settled),
            log=print,
            tell=print,
            partly=nothing,
        )
        for name in ("f", "g"):
            runs.request_run(job(name, runs.next_generation()), supersede=True)
        await until(settled, 2)
        return delivered

    assert asyncio.run(scenario()) == [(1, "'the report'"), (2, "")]


def test_an_invalid_result_is_reported_and_the_others_continue() -> None:
    def no_request() -> RunRequest:
        raise OSError("the file went away")

    async def scenario() -> tuple[list[int], list[str], int]:
        delivered: list[int] = []
        reported: list[str] = []
        done = asyncio.Event()

        async def deliver(job: Job, _request: RunRequest, _outcome: Answer | Refused) -> None:
            delivered.append(job.generation)
            if job.generation == 2:
                raise OSError("and again")
            if job.generation == 3:
                done.set()

        def show() -> None:
            raise ZeroDivisionError

        runs = Runs(
            worker=lambda _worker_key: Ready().run,
            deliver=deliver,
            changed=show,
            log=print,
            tell=reported.append,
            partly=nothing,
        )
        first = job("f", runs.next_generation())
        runs.request_run(Job(first.key, LANE, 1, "saved", no_request), supersede=True)
        for name in ("g", "h"):
            runs.request_run(job(name, runs.next_generation()), supersede=True)
        await asyncio.wait_for(done.wait(), 10)
        await runs.close()
        return delivered, reported, runs.settled

    delivered, reported, settled = asyncio.run(scenario())
    assert delivered == [2, 2, 3], "the outcome, then the internal failure"
    assert [text.rpartition("and shows ")[2] for text in reported] == [
        "nothing of run 1 of f: see its log.",
        "nothing of run 2 of g: see its log.",
    ]
    assert settled == 3


class Telling:
    """A worker with two partial results, of which the second arrives while the first is being accepted."""

    def __init__(self) -> None:
        self.reported = asyncio.Event()
        self.release = asyncio.Event()

    async def run(
        self,
        request: RunRequest,
        _on_progress: Callable[[Progress], None],
        on_partial: Callable[[Report], None],
    ) -> Answer | Refused:
        on_partial(report(generation=1))
        on_partial(report(generation=2))
        self.reported.set()
        await self.release.wait()
        return Refused(request.id, "failed")


def test_partial_results_are_accepted_until_the_run_ends_and_a_cancel_is_reported() -> None:
    async def scenario(*, cancelled: bool) -> list[int | None]:
        worker, taken, first = Telling(), list[int | None](), asyncio.Event()

        async def partly(_job: Job, report: Report | None) -> None:
            taken.append(report.generation if report else None)
            first.set()

        runs, _, settled = runs_with(worker.run, partly)
        runs.request_run(job("f", runs.next_generation()), supersede=True)
        await asyncio.wait_for(first.wait(), 10)
        if cancelled:
            runs.cancel()
        else:
            worker.release.set()
        await until(settled, 1)
        return taken

    assert asyncio.run(scenario(cancelled=False)) == [2], "the newest alone; its end is delivered"
    assert asyncio.run(scenario(cancelled=True)) == [2, None]


def test_an_unacceptable_result_costs_only_its_report() -> None:
    async def scenario() -> list[int]:
        worker, tried = Telling(), asyncio.Event()

        async def partly(_job: Job, _report: Report | None) -> None:
            tried.set()
            raise ValueError

        runs, delivered, settled = runs_with(worker.run, partly)
        runs.request_run(job("f", runs.next_generation()), supersede=True)
        await asyncio.wait_for(tried.wait(), 10)
        worker.release.set()
        await until(settled, 1)
        return delivered

    assert asyncio.run(scenario()) == [1]
