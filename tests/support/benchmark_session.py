"""A session with one file and a target to benchmark, and only the parts of a server that runs need."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from fuselight.shared.codec import encode
from fuselight.shared.protocol import Answer, Progress, Refused, RunRequest
from fuselight.shared.report import Culprit, Failure, Report, Tier, data_key
from fuselight_server.base.settings import Interpreter, Settings
from fuselight_server.editor.handlers import bench
from fuselight_server.editor.messages.answers import StartAnswer
from fuselight_server.editor.messages.params import MeasuredParams
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.results.snapshot import Document
from fuselight_server.editor.session.analysis import Analysis
from fuselight_server.editor.session.state import Folder, State
from fuselight_server.execution.runs.keys import Key, WorkerKey
from fuselight_server.source.document import SourceDocument
from tests.support.measured import benchmark, graph, kernel, profile, ran, row
from tests.support.recorded_ui import RecordedUi
from tests.support.reports import report

TEXT = """\
import torch

# fuselight: f(f32[4])
@torch.compile
def f(x):
    return x + 1


class Net(torch.nn.Module):
    def forward(self, x):
        return x

    def other(self, x):
        return x


if __name__ == "__main__":
    f(torch.ones(4))
"""
LINE = 6


class Worker:
    """Answers captures immediately. A benchmark reports its partial results and ends when `held` is set."""

    hello: Any = None

    def __init__(self, worker_key: WorkerKey) -> None:
        self.worker_key = worker_key
        self.asked: list[RunRequest] = []
        self.partials: list[Report] = []
        self.held = asyncio.Event()
        self.answer: Report | None = None
        self.closed = False

    async def run(
        self,
        request: RunRequest,
        on_progress: Callable[[Progress], None],
        on_partial: Callable[[Report], None],
    ) -> Answer | Refused:
        self.asked.append(request)
        if request.tier not in {Tier.MEASURED, Tier.TUNED}:
            return Answer(request.id, report())
        on_progress(Progress(request.id, "measure", "default: compiling"))
        for partial in self.partials:
            on_partial(partial)
        await self.held.wait()
        if self.answer is None:
            return Refused(request.id, "failed", Failure(Culprit.USER, "exit", "it ended", "fix it"))
        return Answer(request.id, self.answer)

    async def close(self) -> None:
        self.closed = True


class OnDemandWorker(Worker):
    """Answers each request as `report_for` says; those of `tier` wait while `held` is not set."""

    tier: ClassVar[Tier]
    failure: Failure | None = None

    def report_for(self, request: RunRequest) -> Report:
        raise NotImplementedError

    async def run(
        self,
        request: RunRequest,
        on_progress: Callable[[Progress], None],
        on_partial: Callable[[Report], None],
    ) -> Answer | Refused:
        del on_partial
        self.asked.append(request)
        on_progress(Progress(request.id, "call", "calling"))
        if request.tier is self.tier:
            await self.held.wait()
        if self.failure is not None:
            return Refused(request.id, "failed", self.failure)
        files = {request.target.path: data_key(TEXT.encode())}
        return Answer(request.id, replace(self.report_for(request), tier=request.tier, files=files))


class BenchmarkSession:
    """One file in one folder, with the parts of a server that the features need."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "m.py")
        Path(self.path).write_text(TEXT)
        self.uri = Path(self.path).as_uri()
        (folder / "pyproject.toml").touch()
        self.state, self.ui = State(), RecordedUi()
        self.state.folders[str(folder)] = Folder(str(folder), folder.as_uri(), consent="run")
        self.state.open(Document(self.uri, self.path, 1, SourceDocument(self.path, TEXT), runnable=True))
        self.workers: list[Worker] = []
        self.analysis = Analysis(
            self.state,
            self.ui,
            make_worker=self._worker,
            find_interpreter=lambda _folder: Interpreter("/python"),
        )
        self.analysis.early.end()
        self.key = Key(self.path, "f", Tier.MEASURED)
        self.notified: list[Any] = []
        self.announce = lambda _method, params: self.notified.append(params["target"])

    def _worker(self, worker_key: WorkerKey, _settings: Settings, _log: Callable[[str], None]) -> Worker:
        self.workers.append(Worker(worker_key))
        return self.workers[-1]

    def add_worker(self, worker: Worker) -> Worker:
        """Start a worker that does not wait."""
        worker.held.set()
        self.workers.append(worker)
        return worker

    @property
    def measuring(self) -> Worker:
        (worker,) = [worker for worker in self.workers if worker.worker_key.for_benchmarks]
        return worker

    def uri_of(self, path: str) -> str:
        return convert.uri(path)

    def command(self, **arguments: Any) -> StartAnswer:
        return bench.start(self, {"uri": self.uri, **arguments})  # type: ignore[arg-type]  # the parts of a server that it reads

    def edit(self) -> None:
        document = self.state.documents.at(self.path)
        assert document is not None
        self.analysis.edits.edited(self.path, document.source.edit((1, 0), (1, 0), "# new\n"))

    async def page(self, run: str | None = None, with_: str | None = None) -> dict[str, Any]:
        shown: dict[str, Any] = encode(await bench.measured(self, MeasuredParams(self.uri, "f", run, with_)))  # type: ignore[arg-type]
        return shown

    async def began(self) -> None:
        """Wait until the worker has the request of the benchmark."""
        while not (
            self.workers and any(worker.worker_key.for_benchmarks and worker.asked for worker in self.workers)
        ):
            self.ui.moved.clear()
            await asyncio.wait_for(self.ui.moved.wait(), 10)

    async def settle(self) -> None:
        while self.analysis.runs.in_flight or self.analysis.runs.queue.waiting:
            self.ui.moved.clear()
            await asyncio.wait_for(self.ui.moved.wait(), 10)


def benchmark_report(session: BenchmarkSession, us: float = 100.0, *, day: int = 1, **changes: Any) -> Report:
    """A benchmark of `f` in which line 6 has one kernel."""
    shown = profile([replace(ran(0, us))])
    line = kernel(LINE)
    operators = tuple(
        replace(operator, stack=(replace(operator.stack[0], path=session.path),))
        for operator in line.operators
    )
    default = row("default", us, generated=(graph(replace(line, operators=operators)),), profile=shown)
    report = benchmark(
        row("eager", 300.0), default,
        of={"started": f"2026-01-{day:02d}T12:00:00Z", **changes},
    )  # fmt: skip
    target = replace(report.target, path=session.path, name="f", line=5)
    files = {session.path: data_key(TEXT.encode())}
    return replace(report, target=target, roots=(str(Path(session.path).parent),), files=files)


async def measured(session: BenchmarkSession, *reports: Report) -> None:
    for other_report in reports:
        session.command(target="f")
        await session.began()
        session.measuring.answer = other_report
        session.measuring.held.set()
        await session.settle()
