"""A workspace whose worker keeps live runs: in a traced function `print` breaks and `len` fixes a size, as in
`simulation`."""

from __future__ import annotations

import ast
import asyncio
import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from fuselight.shared.protocol import (
    Answer,
    LiveFunction,
    LiveReady,
    LiveRequest,
    Progress,
    Refused,
    Retrace,
)
from fuselight.shared.report import (
    Frame,
    Location,
    NotCompiled,
    NotCompiledKind,
    Problem,
    Report,
    TargetRef,
    Tier,
)
from fuselight_server.base.settings import Settings
from fuselight_server.editor.results.shown_findings import findings_of
from fuselight_server.editor.session import live
from tests.support.reports import VERSIONS, broken, with_a_fixed_size
from tests.support.simulation import Program, SimulatedWorker, Workspace

MODEL = """\
import torch
from helper import scale

# fuselight: f(f32[4])
@torch.compile
def f(x):
    x = x + 1
    print(x)
    return g(x)

def g(x):
    return scale(x)
"""
HELPER = "def scale(x):\n    return x\n"
BROKEN = MODEL.replace("    x = x + 1\n", "    print(0)\n    x = x + 1\n")
CURED = MODEL.replace("    print(x)\n", "    x = x + 2\n")
IN_G = MODEL.replace("    return scale(x)\n", "    print(x)\n    return scale(x)\n")


class ManualClock:
    """Timers that expire when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self._timers: list[tuple[float, _Timer]] = []

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any, **_more: Any) -> _Timer:
        timer = _Timer(callback, args)
        self._timers.append((self.now + delay, timer))
        return timer

    def advance(self, seconds: float) -> None:
        self.now += seconds
        due = [timer for when, timer in self._timers if when <= self.now]
        self._timers = [(when, timer) for when, timer in self._timers if when > self.now]
        for timer in due:
            timer.fire()


class _Timer:
    def __init__(self, callback: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._callback, self._args, self._is_canceled = callback, args, False

    def cancel(self) -> None:
        self._is_canceled = True

    def fire(self) -> None:
        if not self._is_canceled:
            self._callback(*self._args)


class LiveSimulatedWorker(SimulatedWorker):
    """Traces functions of one text on request. `refuse` and `hold` change what becomes of it."""

    def __init__(self) -> None:
        super().__init__()
        self.live: dict[int, asyncio.Future[Answer | Refused]] = {}
        self.requests: list[LiveRequest] = []
        self.retraced: list[Retrace] = []
        self.canceled = 0
        self.refuse: list[Refused] = []
        """Answers to the next traces."""
        self.hold: asyncio.Event | None = None
        """Traces wait for it."""
        self.tells_early = False
        """Whether traces tell their first break before they wait for `hold`."""
        self.early: list[Callable[[], None] | None] = []
        """Tells the first break of each trace once more; None for a trace of which nobody wants to know early."""
        self.fail_start = ""
        self.hold_start: asyncio.Event | None = None
        """Live runs get ready after it."""
        self.problems: dict[str, str] = {}
        self.loops: frozenset[str] = frozenset()
        """Functions that call others in a loop: a break in those sends them to eager mode."""

    async def run_live(
        self,
        request: LiveRequest,
        _on_progress: Callable[[Progress], None],
        on_ready: Callable[[LiveReady], None],
    ) -> Answer | Refused:
        self.requests.append(request)
        await asyncio.sleep(0)
        if self.hold_start is not None:
            await self.hold_start.wait()
        if self.fail_start:
            return Refused(request.id, self.fail_start)
        number = request.id
        assert number not in self.live
        ended: asyncio.Future[Answer | Refused] = asyncio.get_running_loop().create_future()
        self.live[number] = ended
        program = Program(request)
        program.report()
        functions = tuple(LiveFunction(path, name, 1) for path, name in program.frames)
        on_ready(LiveReady(number, functions))
        try:
            return await ended
        finally:
            del self.live[number]

    async def retrace(
        self, request: Retrace, on_early: Callable[[Report], None] | None = None
    ) -> Answer | Refused:
        self.retraced.append(request)

        def tell_early(tell: Callable[[Report], None]) -> None:
            report = self._report(request)
            tell(replace(report, frames=report.frames[:2], breaks=report.breaks[:1], not_compiled=()))

        self.early.append(None if on_early is None else functools.partial(tell_early, on_early))
        if self.tells_early and on_early is not None:
            tell_early(on_early)
        try:
            if self.hold is not None:
                await self.hold.wait()
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.canceled += 1
            raise
        if self.refuse:
            return self.refuse.pop(0)
        if request.live not in self.live:
            return Refused(request.id, "no_live")
        return Answer(request.id, self._report(request))

    def crash(self) -> None:
        """End every live run as a worker does that dies."""
        for ended in self.live.values():
            ended.set_result(Refused(0, "failed"))

    def _report(self, request: Retrace) -> Report:
        tree = ast.parse(request.text)
        breaks, frames, problems = [], [], []
        skipped, compiles = [], []
        for node in tree.body:
            if not isinstance(node, ast.FunctionDef) or node.name not in request.functions:
                continue
            if node.name in self.problems:
                problems.append(Problem("retrace", node.name, self.problems[node.name]))
                continue
            frames.append(Frame(node.name, Location(request.path, node.lineno, function=node.name)))
            if node.name in self.loops and any(
                isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print"
                for node in ast.walk(tree)
            ):
                reason = "a break in a loop"
                skipped.append(NotCompiled(NotCompiledKind.SKIPPED, node.name, frames[-1].location, reason))
            for call in ast.walk(node):
                if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
                    continue
                place = Location(request.path, call.lineno, call.col_offset, call.lineno, call.end_col_offset)
                if call.func.id == "len":
                    compiles.append(with_a_fixed_size(place))
                elif call.func.id == "print":
                    breaks.append(broken(place, frame_function=node.name))
                    frames.append(replace(frames[-1], resumes_at=call.lineno))
        return Report(
            versions=VERSIONS,
            target=TargetRef(request.path, "", 1, "function"),
            tier=Tier.PREDICTED,
            generation=0,
            frames=tuple(frames),
            breaks=tuple(breaks),
            compiles=tuple(compiles),
            not_compiled=tuple(skipped),
            problems=tuple(problems),
        )


class LiveWorkspace(Workspace):
    """A workspace with live findings, whose timers expire by `pause`."""

    def __init__(self, folder: Path, settings: Settings | None = None) -> None:
        super().__init__(folder, settings)
        self.worker: LiveSimulatedWorker = LiveSimulatedWorker()
        self.clock = ManualClock()
        live._REST = 0.0  # real time does not pass here
        loop: Any = asyncio.get_running_loop()
        loop.call_later = self.clock.call_later

    def edit(self, name: str, text: str) -> None:
        super().edit(name, text)
        self.analysis.live.edited(self.path(name))

    async def pause(self, seconds: float = 0.4) -> None:
        """Type nothing for some time, and wait until every prediction is shown."""
        self.clock.advance(seconds)
        await self.predicted()

    async def predicted(self) -> None:
        for _ in range(10_000):
            for _ in range(20):
                await asyncio.sleep(0)
            predictions = self.analysis.live
            if predictions._rules.is_idle and not (predictions._traces and self.worker.hold is None):
                return
        raise AssertionError("predictions did not end")

    async def until(self, holds: Callable[[], bool]) -> None:
        """Let other tasks and threads run until `holds`."""
        for _ in range(1_000_000):
            if holds():
                return
            await asyncio.sleep(0)
        raise AssertionError("it does not come")

    def effects(self) -> list[str]:
        return [
            prediction.effect(self.state.documents.readings_of([prediction]))
            for prediction in self.state.predictions.values()
        ]

    def deferred(self) -> list[str]:
        return [
            str(change) for prediction in self.state.predictions.values() for change in prediction.deferred
        ]


def shown(workspace: LiveWorkspace, name: str = "model.py") -> list[tuple[int, str, bool]]:
    """Line, tier (or `gone`), and whether it is marked as stale, of the breaks in a file."""
    return sorted(
        (finding.span.line, "gone" if finding.title.startswith("gone") else finding.tier.value, edited)
        for finding, edited in findings_of(workspace.state.view(), workspace.path(name))
        if finding.code.startswith("GB")
    )


def codes_on(workspace: LiveWorkspace, line: int) -> list[str]:
    """Codes of the predicted findings on a line of `model.py`."""
    findings = (
        finding for prediction in workspace.state.predictions.values() for finding in prediction.findings()
    )
    return sorted(finding.code for finding in findings if finding.span.line == line)


def write_model(folder: Path) -> None:
    """Write `model.py` and the file that it imports."""
    (folder / "pyproject.toml").touch()
    (folder / "model.py").write_text(MODEL)
    (folder / "helper.py").write_text(HELPER)


async def ran(folder: Path, settings: Settings | None = None) -> LiveWorkspace:
    """A workspace with the result of a save of `model.py`."""
    workspace = LiveWorkspace(folder, settings)
    workspace.open("model.py")
    workspace.save("model.py")
    await workspace.settle()
    assert shown(workspace) == [(8, "capture", False)]
    return workspace
