"""When kernels are generated, and what their runs do not affect: the queue, with a blocked worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fuselight.shared.protocol import (
    Answer,
    AssembleRequest,
    CaptureRequest,
    GenerateRequest,
    InputsPlan,
    Progress,
    Refused,
    RunRequest,
    Target,
)
from fuselight.shared.report import (
    Assembled,
    Culprit,
    Device,
    Failure,
    GeneratedGraph,
    Kernel,
    KernelKind,
    Listing,
    Phase,
    Report,
    Tier,
    data_key,
    text_key,
)
from fuselight_server.base.settings import Interpreter, parse_settings
from fuselight_server.base.store import Store
from fuselight_server.editor.results.lens_facts import kernel_summary
from fuselight_server.editor.results.snapshot import Document
from fuselight_server.editor.session.analysis import Analysis
from fuselight_server.editor.session.state import Folder, State
from fuselight_server.execution.runs.kernel_cache import forget, run_cached
from fuselight_server.execution.runs.keys import Key
from fuselight_server.source.document import SourceDocument
from tests.support.recorded_ui import RecordedUi
from tests.support.reports import VERSIONS, report

PATH = "/w/m.py"
TEXT = "import torch\n\n# fuselight: f(f32[4])\n@torch.compile\ndef f(x):\n    return x + 1\n"
KERNEL = "def triton_poi_fused_add_0(): pass"
CAPTURE, KERNELS = Key(PATH, "f"), Key(PATH, "f", Tier.KERNELS)


def generated() -> Report:
    kernel = Kernel("triton_poi_fused_add_0", KernelKind.TRITON, 0, text_key=text_key(KERNEL))
    graph = GeneratedGraph("0/0", Phase.INFERENCE, kernels=(kernel,))
    return report(tier=Tier.KERNELS, generated=(graph,), texts={text_key(KERNEL): KERNEL})


class Worker:
    """Answers each request at once, and remembers it."""

    hello: Any = None

    def __init__(self) -> None:
        self.asked: list[RunRequest] = []
        self.partials: list[Report] = []
        """Reported before its answer, which waits for `held`."""
        self.held = asyncio.Event()
        self.fails = False

    async def run(
        self,
        request: RunRequest,
        _on_progress: Callable[[Progress], None],
        on_partial: Callable[[Report], None],
    ) -> Answer | Refused:
        self.asked.append(request)
        for partial in self.partials:
            on_partial(partial)
            await self.held.wait()
        listings = {"ptx": Listing("ptx"), **({"sass": Listing("sass")} if _disassembles(request) else {})}
        if self.fails:
            why = Failure(Culprit.USER, "exit", "it ended", "fix it")
            return Refused(request.id, "failed", why)
        assembled = {
            text_key(source): Assembled(registers=24, listings=listings) for source in _sources(request)
        }
        new_report = report() if request.tier is Tier.CAPTURE else generated()
        return Answer(request.id, replace(new_report, assembled=assembled))

    async def close(self) -> None: ...


class Ui(RecordedUi):
    """The user interface, with the analysis that a question calls."""

    analysis: Analysis


class KernelSession:
    """One file in one folder."""

    def __init__(self, settings: object) -> None:
        parsed, warnings = parse_settings(settings)
        assert warnings == ()
        self.state, self.ui, self.worker = State(), Ui(), Worker()
        self.state.folders["/w"] = Folder("/w", "file:///w", consent="run", settings=parsed)
        self.state.open(Document(f"file://{PATH}", PATH, 1, SourceDocument(PATH, TEXT), runnable=True))
        self.analysis = self.ui.analysis = Analysis(
            self.state,
            self.ui,
            make_worker=lambda _worker_key, _settings, _log: self.worker,
            find_interpreter=lambda _folder: Interpreter("/python"),
        )
        self.analysis.early.end()

    async def settle(self) -> None:
        while self.analysis.runs.settled < self.analysis.runs.generation:
            self.ui.moved.clear()
            await self.ui.moved.wait()

    def tiers(self) -> list[Tier]:
        return [request.tier for request in self.worker.asked]


@pytest.mark.asyncio
async def test_a_save_generates_kernels_after_the_capture_if_set() -> None:
    session = KernelSession({"kernels": {"when": "onSave"}, "device": "h200"})
    session.analysis.saves.saved(PATH, automatic=False)
    await session.settle()
    assert session.tiers() == [Tier.CAPTURE, Tier.KERNELS]
    device = _device_of(session.worker.asked[1])
    assert device is not None
    assert device.key == "h200"
    assert (list(session.state.captures), list(session.state.kernels)) == ([CAPTURE], [KERNELS])


@pytest.mark.asyncio
async def test_kernels_on_demand_do_not_replace_the_next_automatic_run() -> None:
    session = KernelSession({})
    session.analysis.requests.command(PATH, "f", Tier.KERNELS)
    await session.settle()
    session.analysis.saves.saved(PATH, automatic=True)
    await session.settle()
    assert session.tiers() == [Tier.KERNELS, Tier.CAPTURE]
    assert _device_of(session.worker.asked[0]) is None, "auto: the worker looks for a GPU"


def forward_only() -> Report:
    whole = generated()
    return replace(whole, generated=(replace(whole.generated[0], phase=Phase.FORWARD),))


async def part_shown(session: KernelSession) -> str:
    """Request kernels and wait until those of the forward graph are shown; returns the target's text about them."""
    session.worker.held.clear()
    session.worker.partials = [forward_only()]
    session.ui.drawn.clear()
    session.analysis.requests.command(PATH, "f", Tier.KERNELS)
    await asyncio.wait_for(session.ui.drawn.wait(), 10)
    return kernel_summary(session.state.kernels[KERNELS])


@pytest.mark.asyncio
async def test_the_forwards_kernels_are_shown_before_the_backwards_are_made() -> None:
    session = KernelSession({"device": "h200"})
    assert (await part_shown(session)).endswith(" (partial: backward still being generated)")
    assert session.state.kernels[KERNELS].report.generated[0].phase is Phase.FORWARD
    session.worker.held.set()
    await session.settle()
    whole = session.state.kernels[KERNELS]
    assert (whole.unfinished, whole.previous) == ("", None)
    assert whole.report.generated[0].phase is Phase.INFERENCE


@pytest.mark.asyncio
async def test_a_canceled_first_run_leaves_a_marked_partial_result() -> None:
    session = KernelSession({"device": "h200"})
    await part_shown(session)
    session.analysis.cancel(PATH)
    await session.settle()
    assert kernel_summary(session.state.kernels[KERNELS]).endswith(" (partial: canceled)")
    session.worker.partials, session.worker.held = [], asyncio.Event()
    session.analysis.requests.command(PATH, "f", Tier.KERNELS)
    await session.settle()
    assert "(" not in kernel_summary(session.state.kernels[KERNELS])


@pytest.mark.asyncio
async def test_a_cancel_restores_the_previous_kernels() -> None:
    session = KernelSession({"device": "h200"})
    session.analysis.requests.command(PATH, "f", Tier.KERNELS)
    await session.settle()
    before = session.state.kernels[KERNELS]
    assert "partial" in await part_shown(session)
    document = session.state.documents.at(PATH)
    assert document is not None
    session.analysis.edits.edited(PATH, document.source.edit((0, 0), (0, 0), "import os\n"))
    session.analysis.cancel(PATH)
    await session.settle()
    assert session.state.kernels[KERNELS] is before
    assert before.stale, "an edit during the run applies to it as well"


@pytest.mark.asyncio
async def test_a_failed_run_leaves_no_partial_result() -> None:
    session = KernelSession({"device": "h200"})
    await part_shown(session)
    session.worker.fails = True
    session.worker.held.set()
    await session.settle()
    now = session.state.kernels[KERNELS]
    assert (now.previous, now.unfinished, kernel_summary(now)) == (None, "", "no kernels: it ended. Fix it")


@pytest.mark.asyncio
async def test_an_edit_during_a_run_moves_its_partial_results() -> None:
    session = KernelSession({"device": "h200"})
    await part_shown(session)
    document = session.state.documents.at(PATH)
    assert document is not None
    session.analysis.edits.edited(PATH, document.source.edit((0, 0), (0, 0), "import os\n"))
    assert kernel_summary(session.state.kernels[KERNELS]).endswith(
        "still being generated) (before your edit)"
    )
    session.worker.held.set()
    await session.settle()
    assert kernel_summary(session.state.kernels[KERNELS]).endswith(" (before your edit)")


@pytest.mark.asyncio
async def test_one_kernel_is_compiled_once_for_the_device_of_its_report() -> None:
    session = KernelSession({})
    session.analysis.requests.command(PATH, "f", Tier.KERNELS)
    await session.settle()
    key = replace(KERNELS, kernel=text_key(KERNEL))
    session.analysis.requests.compile(key)
    session.analysis.requests.compile(key)
    session.ui.shown.clear()
    await session.settle()
    assert [_sources(request) for request in session.worker.asked] == [(), (KERNEL,)]
    assert session.state.kernels[KERNELS].assembled[text_key(KERNEL)].registers == 24
    assert session.ui.shown == [PATH]


@pytest.mark.asyncio
async def test_sass_is_made_when_it_is_asked_for_and_stays() -> None:
    session = KernelSession({})
    session.analysis.requests.command(PATH, "f", Tier.KERNELS)
    await session.settle()
    key = replace(KERNELS, kernel=text_key(KERNEL))
    for other_key in (key, replace(key, disassemble=True), key):
        session.analysis.requests.compile(other_key)
        await session.settle()
    assert [_disassembles(request) for request in session.worker.asked] == [False, False, True, False]
    kept = session.state.kernels[KERNELS].assembled[text_key(KERNEL)]
    assert kept.disassembled
    assert set(kept.listings) == {"ptx", "sass"}


@pytest.mark.asyncio
async def test_a_removed_kernel_is_not_compiled() -> None:
    session = KernelSession({})
    session.analysis.requests.compile(replace(KERNELS, kernel="none"))
    await session.settle()
    assert session.worker.asked == []


def asked(path: Path, **changes: Any) -> GenerateRequest:
    target = Target(str(path), "f", "function", 3, compiled=False)
    base = GenerateRequest(1, 1, target, InputsPlan(), (str(path.parent),))
    return replace(base, **changes)


def _sources(request: RunRequest) -> tuple[str, ...]:
    return request.sources if isinstance(request, AssembleRequest) else ()


def _disassembles(request: RunRequest) -> bool:
    return isinstance(request, AssembleRequest) and request.disassemble


def _device_of(request: RunRequest) -> Device | None:
    assert isinstance(request, GenerateRequest)
    return request.device


class Keeping(Worker):
    """A worker after its handshake; its reports name the file that ran."""

    hello = SimpleNamespace(versions=VERSIONS)
    text = TEXT

    async def run(
        self,
        request: RunRequest,
        on_progress: Callable[[Progress], None],
        on_partial: Callable[[Report], None],
    ) -> Answer | Refused:
        answer = await super().run(request, on_progress, on_partial)
        assert isinstance(answer, Answer)
        files = {request.target.path: data_key(self.text.encode())}
        return replace(answer, report=replace(answer.report, files=files))


@pytest.mark.asyncio
async def test_unchanged_kernels_come_from_the_cache_until_it_is_cleared(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text(TEXT)
    (tmp_path / "pyproject.toml").touch()
    worker, lines = Keeping(), list[str]()

    async def run(kind: type[RunRequest] = GenerateRequest, **changes: Any) -> int:
        request = asked(path).of_kind(kind, **changes)
        await run_cached(worker, lines.append, request, lambda _progress: None, lambda _report: None)
        return len(worker.asked)

    assert await run() == 1
    assert await run(generation=2) == 1
    assert lines == ["kernels of f: unchanged, from the cache"]
    assert (tmp_path / ".fuselight" / ".gitignore").read_text() == "*\n"
    assert await run(AssembleRequest, sources=("source",)) == 2
    assert await run(CaptureRequest) == 3
    worker.text = TEXT + "# edited\n"
    path.write_text(worker.text)
    assert await run() == 4
    forget(Store.of(path))
    assert await run() == 5


@pytest.mark.asyncio
async def test_a_store_that_cannot_be_created_is_logged(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text(TEXT)
    (tmp_path / ".fuselight").write_text("a file")
    lines: list[str] = []
    answer = await run_cached(
        Keeping(), lines.append, asked(path), lambda _progress: None, lambda _report: None
    )
    assert isinstance(answer, Answer)
    assert len(lines) == 1
    assert lines[0].startswith("kernels cannot be kept in ")


@pytest.mark.asyncio
async def test_damaged_kernels_are_logged_and_generated_again(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text(TEXT)
    (tmp_path / "pyproject.toml").touch()
    worker, lines = Keeping(), list[str]()
    for _ in range(2):
        await run_cached(worker, lines.append, asked(path), lambda _progress: None, lambda _report: None)
        for kept in (tmp_path / ".fuselight" / "kernels").iterdir():
            kept.write_bytes(b"damaged")
    assert len(worker.asked) == 2
    (line,) = lines
    assert line.startswith("kernels of f: what was kept cannot be read: ")
    assert line.endswith("; they are generated again")
