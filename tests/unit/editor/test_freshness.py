"""Results of a text are current again when the text is: after an undo, a revert or a checkout."""

from __future__ import annotations

import codecs
import random
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lsprotocol import types

from fuselight.shared.report import (
    Frame,
    FusedOperator,
    GeneratedGraph,
    Kernel,
    KernelKind,
    Location,
    Phase,
    Tier,
)
from fuselight_server.base.finding import Finding, Severity, Span
from fuselight_server.editor.handlers import files, sync
from fuselight_server.editor.results.benchmarks import MeasuredResult
from fuselight_server.editor.results.captures import CaptureResult, capture_result_of
from fuselight_server.editor.results.kernels import KernelResult, kernel_result_of
from fuselight_server.editor.results.target_result import TargetResult, keys_of, keys_on_disk
from fuselight_server.execution.runs.keys import Key
from tests.support.benchmark_session import LINE, TEXT, BenchmarkSession, benchmark_report, measured
from tests.support.measured import GPU
from tests.support.reports import report


@pytest.fixture
def session(tmp_path: Path) -> BenchmarkSession:
    return BenchmarkSession(tmp_path)


def server(session: BenchmarkSession) -> Any:
    return SimpleNamespace(
        state=session.state, analysis=session.analysis, ui=session.ui, encoding="utf-8", automatic_saves=set()
    )


def put(session: BenchmarkSession, text: str) -> None:
    """Have the client send that the document is another text now."""
    whole = types.TextDocumentContentChangeWholeDocument(text)
    identity = types.VersionedTextDocumentIdentifier(version=2, uri=session.uri)
    sync.changed(server(session), types.DidChangeTextDocumentParams(identity, [whole]))


def captured(session: BenchmarkSession) -> CaptureResult:
    ran = {session.path: next(iter(keys_on_disk(session.path)))}
    finding = Finding(
        code="GB0059", severity=Severity.WARNING, title="graph break", message="", tier=Tier.CAPTURE, target="f",
        span=Span(session.path, LINE, 4, LINE, 16), inputs="", torch="2.13",
    )  # fmt: skip
    frames = (Frame("f", Location(session.path, 5)),)
    return capture_result_of(Key(session.path, "f"), 1, report(files=ran, frames=frames), [finding])


def generated(session: BenchmarkSession) -> KernelResult:
    stack = (Location(session.path, LINE),)
    kernel = Kernel(
        "triton_0",
        KernelKind.TRITON,
        0,
        operators=(FusedOperator("aten.add", stack=stack),),
        estimate_us=10.0,
    )
    graphs = (GeneratedGraph("0/0", Phase.INFERENCE, kernels=(kernel,)),)
    ran = {session.path: next(iter(keys_on_disk(session.path)))}
    roots = (str(Path(session.path).parent),)
    new_report = report(tier=Tier.KERNELS, generated=graphs, target_device=GPU, files=ran, roots=roots)
    return kernel_result_of(Key(session.path, "f", Tier.KERNELS), 1, new_report)


async def all_tiers(session: BenchmarkSession) -> list[TargetResult]:
    await measured(session, benchmark_report(session))
    session.state.accept_result(captured(session))
    session.state.accept_result(generated(session))
    return list(session.state.results.values())


def lines(session: BenchmarkSession, target_result: TargetResult) -> list[tuple[int, bool]]:
    """Its locations in the file, and whether each line was edited since."""
    if isinstance(target_result, CaptureResult):
        return [
            (live.now().span.line, live.edited)
            for live in target_result.findings
            if not live.place.is_deleted
        ]
    assert isinstance(target_result, (KernelResult, MeasuredResult))
    return [(row.place.line, False) for row in target_result.rows(session.path)]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "edited",
    [
        "# new\n" + TEXT,
        TEXT.replace("x + 1", "x - 1"),
        TEXT.replace("    return x + 1\n", ""),
        TEXT.replace("\n", "\r\n"),
        "",
    ],
)
async def test_an_undone_edit_leaves_no_stale_marks(session: BenchmarkSession, edited: str) -> None:
    every = await all_tiers(session)
    before = [lines(session, target_result) for target_result in every]
    assert before == [[(LINE, False)]] * 3
    put(session, edited)
    assert [target_result.stale for target_result in every] == [True] * 3
    session.ui.drawn.clear()
    put(session, TEXT)
    assert [target_result.stale for target_result in every] == [False] * 3
    assert [lines(session, target_result) for target_result in every] == before
    session.analysis.notices.show_changes()
    assert session.ui.drawn.is_set(), "lenses and pages are asked for again"
    assert not (await session.page())["stale"]
    put(session, edited)
    assert [target_result.stale for target_result in every] == [True] * 3, "the next edit counts again"
    await session.analysis.close()


@pytest.mark.asyncio
async def test_a_nearly_equal_text_differs(session: BenchmarkSession) -> None:
    every = await all_tiers(session)
    put(session, TEXT.replace("x + 1", "x - 1") + "\n")
    put(session, TEXT + "\n")
    assert [target_result.stale for target_result in every] == [True] * 3
    await session.analysis.close()


@pytest.mark.asyncio
async def test_an_undo_restores_all_lines(
    session: BenchmarkSession,
) -> None:
    every = await all_tiers(session)
    chance = random.Random(4)  # noqa: S311 - nothing is kept secret
    text = TEXT
    for _ in range(200):
        at = chance.randrange(len(text) + 1)
        end = min(len(text), at + chance.choice([0, 0, 1, 30]))
        text = text[:at] + chance.choice(["", "x", "\n", "é\n\n"]) + text[end:]
        put(session, text)
    put(session, TEXT)
    assert [target_result.stale for target_result in every] == [False] * 3
    assert [lines(session, target_result) for target_result in every] == [[(LINE, False)]] * 3
    await session.analysis.close()


@pytest.mark.asyncio
async def test_closing_without_a_save_restores_the_text_that_ran(session: BenchmarkSession) -> None:
    every = await all_tiers(session)
    put(session, "# new\n" + TEXT)
    sync.closed(server(session), types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(session.uri)))
    assert [target_result.stale for target_result in every] == [False] * 3
    await session.analysis.close()


@pytest.mark.asyncio
@pytest.mark.parametrize("last", [TEXT, TEXT + "\n"])
async def test_an_edit_undone_during_a_benchmark_does_not_count(session: BenchmarkSession, last: str) -> None:
    session.command(target="f")
    await session.began()
    put(session, "# new\n" + TEXT)
    put(session, last)
    session.measuring.answer = benchmark_report(session)
    session.measuring.held.set()
    await session.settle()
    assert session.state.measured[session.key].stale is (last != TEXT)
    await session.analysis.close()


@pytest.mark.asyncio
async def test_a_checkout_that_restores_an_imported_file_makes_its_times_current(
    session: BenchmarkSession,
) -> None:
    helper = Path(session.path).with_name("helper.py")
    helper.write_text("one = 1\n")
    ran = {**benchmark_report(session).files, str(helper): next(iter(keys_on_disk(str(helper))))}
    await measured(session, replace(benchmark_report(session), files=ran))
    now = session.state.measured[session.key]

    def is_edited(kind: types.FileChangeType) -> bool:
        events = [types.FileEvent(helper.as_uri(), kind)]
        files.watched_changed(server(session), types.DidChangeWatchedFilesParams(events))
        return now.stale

    helper.write_text("two = 2\n")
    assert is_edited(types.FileChangeType.Changed)
    put(session, "# new\n" + TEXT)
    helper.write_text("one = 1\n")
    assert is_edited(types.FileChangeType.Changed), "the other file is still an edited one"
    put(session, TEXT)
    assert not now.stale
    session.ui.drawn.clear()
    assert not is_edited(types.FileChangeType.Changed), "it was written with the same text"
    assert not session.ui.drawn.is_set()
    helper.unlink()
    assert is_edited(types.FileChangeType.Deleted)
    helper.write_text("one = 1\n")
    assert not is_edited(types.FileChangeType.Created)
    await session.analysis.close()


@pytest.mark.asyncio
async def test_a_folder_that_is_deleted_takes_the_results_of_its_files_along(
    session: BenchmarkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """VS Code reports the folder alone, which matches no pattern of files."""
    folder = Path(session.path).parent
    path = folder / "zoo" / "layers.py"
    result = replace(captured(session), key=Key(str(path), "Block"))
    session.state.accept_result(result)
    asked: list[str] = []
    gone = session.analysis.documents.remove_path

    def record(name: str) -> None:
        asked.append(name)
        gone(name)

    monkeypatch.setattr(session.analysis.documents, "remove_path", record)

    def delete(name: str) -> None:
        events = [types.FileEvent((folder / name).as_uri(), types.FileChangeType.Deleted)]
        files.watched_changed(server(session), types.DidChangeWatchedFilesParams(events))

    assert [watcher.glob_pattern for watcher in files.WATCHERS if watcher.kind == types.WatchKind.Delete] == [
        "**/*"
    ]
    delete("zoologist")
    delete("zoo.txt")
    assert asked == []
    assert session.state.captures
    delete("zoo")
    assert asked == [str(path.parent)]
    assert not session.state.captures
    await session.analysis.close()


@pytest.mark.asyncio
async def test_an_imported_file_written_during_a_benchmark_has_changed(
    session: BenchmarkSession,
) -> None:
    helper = Path(session.path).with_name("helper.py")
    helper.write_text("one = 1\n")
    ran = {**benchmark_report(session).files, str(helper): next(iter(keys_on_disk(str(helper))))}
    session.command(target="f")
    await session.began()
    helper.write_text("two = 2\n")
    session.analysis.documents.changed_on_disk(str(helper))
    session.measuring.answer = replace(benchmark_report(session), files=ran)
    session.measuring.held.set()
    await session.settle()
    assert session.state.measured[session.key].stale
    await session.analysis.close()


@pytest.mark.parametrize("text", ["", "x = 1\n", "x = 'é'\r\n", "\udc80"])
@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8])
def test_a_text_has_the_hash_of_its_file(tmp_path: Path, text: str, mark: bytes) -> None:
    path = tmp_path / "m.py"
    path.write_bytes(mark + text.encode("utf-8", "surrogatepass"))
    (key,) = keys_on_disk(str(path))
    assert key in keys_of(text)
    assert key not in keys_of(text + "\n")


def test_an_unreadable_file_has_no_targets(tmp_path: Path) -> None:
    assert keys_on_disk(str(tmp_path / "none.py")) == frozenset()
