"""A real worker for the tests of many modules, and what must hold after every run in it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from fuselight_server.base.settings import Interpreter
from tests.support.live_worker import GOOD, LiveWorker
from tests.support.prepared import prepared_interpreter

gc.disable()  # until the tests are collected


def pytest_collection_finish() -> None:
    """Nothing of torch and of the modules of tests is garbage, and to look for it takes a second each time."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def one_worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveWorker]:
    """Started once, as in an editor, as a fork: a host takes ten seconds to import torch and the modules of runs."""
    live = LiveWorker(tmp_path_factory.mktemp("started"), Interpreter(prepared_interpreter()))
    yield live
    live.close()


@pytest.fixture(scope="module")
def live(one_worker: LiveWorker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveWorker]:
    """The worker, in a workspace that the module has for itself."""
    one_worker.move_to(tmp_path_factory.mktemp("workspace"))
    yield one_worker
    print("\n".join(one_worker.lines))  # noqa: T201 - shown when a test fails


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The test's own workspace, separate from its other files."""
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture
def the_next_run_works(live: LiveWorker) -> Iterator[None]:
    """After the test, the same host answers a plain request, obeys the fork rules, and has no remains of the run."""
    live.lines.clear()
    yield
    print("\n".join(live.lines))  # noqa: T201 - shown when a test fails
    hello = live.do(live.worker.start())
    report = live.analyse(GOOD, file="good.py")
    assert report.failures == ()
    assert len(report.compiles) == 1
    assert live.do(live.worker.start()).pid == hello.pid, "the host was restarted"
    assert not [line for line in live.lines if "fork rule" in line]
