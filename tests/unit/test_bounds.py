"""Everything kept is bounded: a server that is open for weeks and a program that trains for days do not grow.

Each cache of `functools` is found by syntax tree. One without a size is named in `FINITE`, with what bounds it.
"""

from __future__ import annotations

import ast
import asyncio
import errno
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import replace
from pathlib import Path

import pytest

from fuselight.shared.incremental_json import GrowingJson
from fuselight.shared.protocol import Answer, CaptureRequest, Progress, Refused, RunRequest
from fuselight.shared.report import Culprit, Failure, Note, Problem, Report, Tier
from fuselight.worker.child import program
from fuselight.worker.host import preload
from fuselight.worker.processes.children import HostFolder, Tail
from fuselight_server.base import files
from fuselight_server.base.settings import Interpreter, Settings
from fuselight_server.base.store import Store
from fuselight_server.editor.results.benchmarks import MeasuredResult, measured_result_of
from fuselight_server.editor.results.captures import CaptureResult, capture_result_of
from fuselight_server.editor.results.kernels import KernelResult, kernel_result_of
from fuselight_server.editor.results.snapshot import Document
from fuselight_server.editor.results.target_result import TargetResult
from fuselight_server.editor.session import state
from fuselight_server.editor.session.analysis import Analysis
from fuselight_server.editor.session.state import Folder, State
from fuselight_server.editor.session.ui import Question
from fuselight_server.execution.runs.keys import Key, WorkerKey
from fuselight_server.explain.findings.common import catalogue
from fuselight_server.source.document import SourceDocument
from tests.support.measured import benchmark
from tests.support.reports import at, broken, report

ROOT = Path(__file__).parents[2]
SOURCES = sorted([*ROOT.glob("compiler/**/*.py"), *ROOT.glob("server/**/*.py")])

FINITE = {
    ("fuselight/shared/codec.py", "_fields_of"): "the types of the shared data",
    ("fuselight/shared/codec.py", "_reader"): "the types of the shared data",
    (
        "fuselight/shared/codec.py",
        "plan",
    ): "it takes nothing, and there is one for each type of the shared data",
    ("fuselight/adapters/environment.py", "_installed"): "the packages that we ask for by name",
    ("fuselight/adapters/torch_api/dynamo/errors.py", "gb_ids"): "it takes nothing",
    ("fuselight/adapters/torch_api/dynamo/operator_sets.py", "core_table"): "it takes nothing",
    ("fuselight/shared/version.py", "code_key"): "it takes nothing",
    ("fuselight/shared/version.py", "version"): "it takes nothing",
    ("fuselight_server/explain/findings/common/catalogue.py", "_pages"): "it takes nothing",
    ("fuselight_server/execution/runs/kept_answers.py", "_rules_key"): "it takes nothing",
    ("fuselight_server/commands/renamed_lines.py", "_names"): "the dataclasses of a report",
}
"""Caches without a size: where, and what bounds them."""

GROWING = {
    ("fuselight/adapters/torch_api/dynamo/modes.py", "_HEARING"): "the recordings that are active",
    (
        "fuselight/adapters/torch_api/distributed/wait_watch.py",
        "_started",
    ): "one for this process and each that it is a fork of",
    ("fuselight/adapters/torch_api/dynamo/hooks.py", "_HEARING"): "the recordings that are active",
    (
        "fuselight/adapters/torch_api/dynamo/installed_globals.py",
        "_CONSTANTS",
    ): "what torch keeps in modules of the user",
    ("fuselight/adapters/torch_api/inductor/job_store.py", "_last"): "one store",
    (
        "fuselight/adapters/torch_api/replaced_parts.py",
        "_originals",
    ): "the settings and parts of torch that the program changes",
    ("fuselight/adapters/torch_api/dynamo/targets.py", "_heard"): "one for each run, which removes it",
    ("fuselight/shared/import_times.py", "_active"): "one for this process, of at most 1,000 lines",
    ("fuselight/adapters/triton_api/store.py", "_memory"): "the last of its entries",
    ("fuselight/remote/run_client.py", "_kept"): "one worker",
    ("fuselight/notebook/__init__.py", "_loaded"): "an entry for each shell, which unloading removes",
    (
        "fuselight_server/fixes/syntax/attribute_uses.py",
        "_has_word",
    ): "the last files and words that were searched",
}
"""Containers of a module that begin empty: what bounds them."""

TEXT = "import torch\n\n# fuselight: f(f32[4])\n@torch.compile\ndef f(x):\n    return x + 1\n"


def _caches(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """Each cache of `functools` as (function name, whether it has a size). A cache made in a call ends with it."""
    inside = {
        below
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        for statement in node.body
        for below in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from (
                (node.name, sized)
                for expression in node.decorator_list
                if (sized := _sized(expression)) is not None
            )
        elif (
            isinstance(node, ast.Call) and ast.unparse(node.func) == "functools.cache" and node not in inside
        ):
            yield ast.unparse(node.args[0]), False


def _sized(decorator: ast.expr) -> bool | None:
    """Whether a decorator that caches has a size; None for any other."""
    name = ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator)
    if not name.endswith(("functools.cache", "lru_cache")):
        return None
    sizes = [keyword.value for keyword in decorator.keywords] if isinstance(decorator, ast.Call) else []
    return bool(sizes) and ast.unparse(sizes[0]) != "None"


def _empty_containers(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
            continue
        if ast.unparse(node.value).rpartition(".")[2] in {
            "{}", "[]", "dict()", "list()", "set()", "OrderedDict()", "deque()", "WeakKeyDictionary()",
        }:  # fmt: skip
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            yield ast.unparse(target)


def _place(path: Path) -> str:
    return Path(*path.relative_to(ROOT).parts[1:]).as_posix()


@pytest.mark.slow
def test_each_cache_has_a_size_or_something_that_bounds_it() -> None:
    entries = [
        (_place(path), *cache)
        for path in SOURCES
        if re.search(rb"functools\.cache\b|lru_cache", text := path.read_bytes())
        for cache in _caches(ast.parse(text))
    ]
    assert any(sized for *_, sized in entries)
    assert {(place, name) for place, name, sized in entries if not sized} <= FINITE.keys()


@pytest.mark.slow
def test_module_state_is_bounded() -> None:
    pairs = {
        (_place(path), name) for path in SOURCES for name in _empty_containers(ast.parse(path.read_bytes()))
    }
    assert ("fuselight/adapters/triton_api/store.py", "_memory") in pairs
    assert pairs <= GROWING.keys()


def test_the_link_cache_holds_all_codes_of_a_valid_report() -> None:
    for number in range(3000):
        catalogue.link(f"FL9{number}")
    assert catalogue.link.cache_info().currsize <= 1024
    assert catalogue.page_path.cache_info().currsize <= 1024


RESULTS: dict[Tier, tuple[int, Callable[[Key, int], TargetResult]]] = {
    Tier.CAPTURE: (
        CaptureResult.MAX,
        lambda key, number: capture_result_of(key, number, report(), []),
    ),
    Tier.KERNELS: (
        KernelResult.MAX,
        lambda key, number: kernel_result_of(key, number, report(tier=Tier.KERNELS)),
    ),
    Tier.MEASURED: (
        MeasuredResult.MAX,
        lambda key, number: measured_result_of(key, number, benchmark()),
    ),
}
"""By tier: how many results are kept, and one of them."""


@pytest.mark.parametrize("tier", RESULTS)
def test_the_oldest_results_are_deleted_and_their_files_are_named(tier: Tier) -> None:
    kept = State()
    most, make = RESULTS[tier]
    for number in range(most + 3):
        if number == most:
            kept.take_changes()
        kept.accept_result(make(Key(f"/m{number}.py", "f", tier), number))
    assert len(kept.results) == most
    assert Key("/m2.py", "f", tier) not in kept.results
    _, results = kept.take_changes()
    assert {"/m0.py", "/m1.py", "/m2.py"} <= results
    assert "/m3.py" not in results
    assert kept.take_changes() == (set(), set()), "each is named once"


def test_only_one_earlier_result_is_kept_before_empty_results() -> None:
    kept = State()
    key = Key("/m.py", "f")
    failed = report(failures=(_failure(),))
    kept.accept_result(capture_result_of(key, 0, report(), []))
    for number in range(1, 5):
        kept.accept_result(capture_result_of(key, number, failed, []))
    earlier = kept.results[key].previous
    assert earlier is not None
    assert earlier.previous is None


def test_the_number_of_files_with_lines_is_bounded(tmp_path: Path) -> None:
    for number in range(100):
        path = tmp_path / f"m{number}.py"
        path.write_text("x = 1\n")
        assert files.disk_lines(str(path)) == ["x = 1", ""]
    assert len(files._DISK) == files._DISK_FILES


def test_the_log_keeps_its_last_lines() -> None:
    kept = State()
    for number in range(2 * state.LOG_LINES):
        kept.log(f"line {number}")
    assert len(kept.log_lines) == state.LOG_LINES


def test_the_state_of_a_document_is_as_large_as_its_text() -> None:
    document = SourceDocument("/m.py", TEXT)
    sizes = set()
    for number in range(50):
        document.edit((6, 0), (6, len(document.line_bytes(6))), f"    return x + {number}")
        document.reading()
        cache = document._cache
        kept: tuple[Sized, ...] = (cache.pieces, cache.facts, cache.candidates)
        sizes.add(tuple(len(sized_tensor) for sized_tensor in kept))
    assert len(sizes) <= 2, sizes  # the first reading has none before it


def test_unparsable_edits_do_not_accumulate() -> None:
    document = SourceDocument("/m.py", TEXT)
    document.reading()
    for _ in range(50):
        document.edit((6, 4), (6, 4), "(")
        assert document.reading().syntax_error is not None
    assert document._changes == []


def test_a_tail_keeps_the_end_of_what_was_printed() -> None:
    tail = Tail(1000)
    for _ in range(100):
        tail.add(b"x" * 700)
    assert len(tail._kept) <= 2000 + 700
    assert (tail.total, tail.text()) == (70_000, "x" * 1000)


def test_the_host_gets_a_bounded_number_of_modules_and_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preload, "_MAX", 10)
    ahead = preload.Preload(HostFolder())
    path = tmp_path / "ahead.json"
    installed = Path(json.__file__).parent
    for run in range(5):
        names = [f"package{run}.module{number}" for number in range(4)]
        files = [str(installed / f"made_{run}_{number}.py") for number in range(4)]
        path.write_text(json.dumps({"modules": names, "files": files}))
        ahead.want(str(path), CaptureRequest)
    assert len(ahead._wanted) == 10
    assert len(ahead._files) == 10


def test_a_report_that_grows_forgets_what_it_no_longer_has() -> None:
    growing = GrowingJson()
    for number in range(100):
        growing.dump(report(breaks=(broken(at(3)),), notes=(Note("rung", f"text {number}"),)))
    now = report(notes=(Note("rung", "the last"),))
    growing.dump(now)
    growing.dump(replace(now, notes=(Note("rung", "one more"),)))
    assert len(growing._known) < 10


def test_a_report_that_cannot_be_written_leaves_no_file_and_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_old: str, _new: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    session = program._Session(str(tmp_path / "report.json"), [str(tmp_path)], "train.py")
    session._problems.append(Problem("dynamo", "the program could not be recorded", "a reason"))
    monkeypatch.setattr(os, "replace", full)
    for _ in range(5):
        session._write()
    assert list(tmp_path.iterdir()) == []
    assert [problem.stage for problem in session._problems] == ["dynamo", "report"]


def test_files_of_a_killed_writer_are_removed_with_the_next_report(tmp_path: Path) -> None:
    store = Store.at(tmp_path)
    store.prepare()
    old, young = (store.folder / f"last-run.json{name}.new" for name in ("old", "young"))
    for path in (old, young):
        path.write_text("{")
    long_ago = time.time() - 24 * 3600
    os.utime(old, (long_ago, long_ago))
    store.write_report(report())
    assert sorted(path.name for path in store.folder.iterdir()) == [
        ".gitignore", "last-run.json", "last-run.jsonyoung.new",
    ]  # fmt: skip
    store.clear()
    assert not store.folder.exists()


class _Stuck:
    """A worker whose runs end when they are cancelled."""

    hello = None

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.closed = asyncio.Event()

    async def run(
        self,
        _request: RunRequest,
        _on_progress: Callable[[Progress], None],
        _on_partial: Callable[[Report], None],
    ) -> Answer | Refused:
        self.started.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def close(self) -> None:
        self.closed.set()


class _Blind:
    """A user interface that shows nothing."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.analysis: Analysis

    def findings_changed(self, paths: Iterable[str]) -> None: ...

    def results_changed(self, paths: Iterable[str]) -> None: ...

    def say(self, text: str, *, error: bool) -> None: ...

    def refresh_lenses(self) -> None: ...

    def runs_changed(self) -> None:
        if not self.analysis.runs.in_flight:
            self.ended.set()

    async def offer(self, text: str, actions: tuple[str, ...]) -> str | None:
        raise AssertionError((text, actions))

    async def confirm(self, question: Question) -> str:
        raise AssertionError(question)


class _RunSession:
    """An analysis of one folder, whose workers are stuck, and whose interpreter can be changed."""

    def __init__(self) -> None:
        self.state = State()
        self.state.folders["/w"] = Folder("/w", "file:///w", consent="run")
        self.workers: list[_Stuck] = []
        self.ui = _Blind()
        self.python = "/python"
        self.analysis = self.ui.analysis = Analysis(
            self.state,
            self.ui,
            make_worker=self._worker,
            find_interpreter=lambda _folder: Interpreter(self.python),
        )
        self.analysis.early.end()

    def _worker(self, _worker_key: WorkerKey, _settings: Settings, _log: Callable[[str], None]) -> _Stuck:
        self.workers.append(_Stuck())
        return self.workers[-1]

    def open(self, path: str) -> None:
        self.state.open(Document(f"file://{path}", path, 1, SourceDocument(path, TEXT), runnable=True))

    async def run_and_cancel(self, path: str) -> None:
        self.analysis.saves.saved(path, automatic=False)
        await asyncio.sleep(0)
        await self.workers[-1].started.wait()
        self.workers[-1].started.clear()
        self.ui.ended.clear()
        self.analysis.cancel(None)
        await self.ui.ended.wait()


def _failure() -> Failure:
    return Failure(Culprit.USER, "exception", "it failed", "fix it")


@pytest.mark.asyncio
async def test_a_canceled_run_leaves_no_edits_and_no_task() -> None:
    session = _RunSession()
    session.open("/w/m.py")
    await session.run_and_cancel("/w/m.py")
    document = session.state.documents.at("/w/m.py")
    assert document is not None
    for _ in range(10):
        session.analysis.edits.edited("/w/m.py", document.source.edit((1, 0), (1, 0), "#\n"))
    assert session.analysis.edits._changes == {}
    assert session.analysis.runs._drains == {}
    await session.analysis.close()


@pytest.mark.asyncio
async def test_texts_of_runs_are_kept_only_for_open_files() -> None:
    session = _RunSession()
    for number in range(5):
        path = f"/w/m{number}.py"
        session.open(path)
        await session.run_and_cancel(path)
        session.state.close(f"file://{path}")
    assert len(session.analysis.requests.throttle._began) <= 1
    await session.analysis.close()


@pytest.mark.asyncio
async def test_a_folder_has_one_worker_after_changes_of_the_interpreter() -> None:
    session = _RunSession()
    session.open("/w/m.py")
    for number in range(4):
        session.python = f"/python{number}"
        await session.run_and_cancel("/w/m.py")
    await asyncio.gather(*(worker.closed.wait() for worker in session.workers[:-1]))
    assert len(session.workers) == 4
    assert len(session.analysis.workers.started) == 1
    assert not session.workers[-1].closed.is_set()
    await session.analysis.close()
