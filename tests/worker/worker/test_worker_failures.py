"""However user code ends its run, the run has one answer that names the culprit and the line, and the next run works."""

# ruff: noqa: E501 - programs on one line

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fuselight.shared import worker_launch
from fuselight.shared.codec import encode
from fuselight.shared.report import Culprit
from tests.support.live_worker import GOOD, LiveWorker, body, replace

pytestmark = pytest.mark.usefixtures("the_next_run_works")


@pytest.mark.parametrize("way", ["sys.exit(3)", "raise SystemExit(3)", "os._exit(3)"])
def test_exits_name_the_users_line(live: LiveWorker, way: str) -> None:
    failure = live.failure(body(way))
    assert (failure.culprit, failure.kind) == (Culprit.USER, "exit")
    assert "3" in failure.message
    assert failure.stack[-1].line == 5


def test_exit_at_import(live: LiveWorker) -> None:
    failure = live.failure("import sys\nsys.exit('no')\n")
    assert (failure.kind, failure.phase, failure.stack[-1].line) == ("exit", "import", 2)


def test_facts_from_before_an_exit_count(live: LiveWorker) -> None:
    report = live.analyse(body("os._exit(0)"))
    assert report.breaks[0].stack[-1].line == 4


def test_a_huge_text_of_an_exception_is_cut_where_it_is_raised(live: LiveWorker) -> None:
    """It is raised while torch traces, which quotes it; what acts on a terminal is shown."""
    for source in (
        body(r"raise ValueError('a\x1b[31m\u202e\n' * 1_000_000)"),
        "import torch\n\n\n# fuselight: f(f32[4])\n@torch.compile\ndef f(x):\n    y = x + 1\n"
        r"    raise ValueError('a\x1b[31m\u202e\n' * 1_000_000)" + "\n",
    ):
        report = live.analyse(source)
        (failure,) = report.failures
        assert failure.culprit is Culprit.USER
        assert failure.message == r"ValueError: a\x1b[31m\u202e"
        text = json.dumps(encode(report))
        assert len(text) < 200_000
        assert "\\u001b" not in text


def test_a_segfault_names_signal_and_line(live: LiveWorker) -> None:
    report = live.analyse(body("import ctypes\nctypes.string_at(0)"))
    (failure,) = report.failures
    assert report.breaks[0].stack[-1].line == 4, "facts from before the failure count"
    assert (failure.culprit, failure.kind) == (Culprit.USER, "signal")
    assert "SIGSEGV" in failure.message
    assert (Path(failure.stack[-1].path).name, failure.stack[-1].line) == ("model.py", 6)


def test_a_kill_from_outside(live: LiveWorker) -> None:
    failure = live.failure(body("os.kill(os.getpid(), 9)"))
    assert failure.kind == "signal"
    assert "SIGKILL" in failure.message


def test_traces_through_an_exit_never_show_fuselights_frames(live: LiveWorker) -> None:
    report = live.analyse(
        "import os, torch\n# fuselight: f(f32[4])\ndef f(x):\n    if x.dim() == 1:\n        os._exit(3)\n    return x.sin()\n"
    )
    ours = str(Path(worker_launch.launch_path()).parents[1])
    assert ours not in repr(
        replace(report, texts={}, failures=tuple(replace(f, traceback="") for f in report.failures))
    )
    assert {graph_break.stack[-1].line for graph_break in report.breaks} == {5}
    assert ["`posix._exit.`" in graph_break.explanation for graph_break in report.breaks] == [True], (
        "as torch says it without us"
    )
    assert [failure.kind for failure in report.failures] == ["exit"]


def test_an_exception_is_on_the_users_line(live: LiveWorker) -> None:
    failure = live.failure(body("raise ValueError('mine')"))
    assert (failure.culprit, failure.kind, failure.exception) == (Culprit.USER, "exception", "ValueError")
    assert failure.stack[-1].line == 5


def test_a_syntax_error_at_import(live: LiveWorker) -> None:
    failure = live.failure("import torch\ndef f(x:\n    pass\n")
    assert (failure.culprit, failure.kind, failure.phase) == (Culprit.USER, "import", "import")
    assert (Path(failure.stack[-1].path).name, failure.stack[-1].line) == ("model.py", 2)
    assert failure.message.startswith("SyntaxError: ")


def test_a_syntax_error_in_an_imported_file_has_its_column(live: LiveWorker) -> None:
    (live.folder / "broken.py").write_text("ok = 1\nif 'é' = 2:\n    pass\n", encoding="utf-8")
    failure = live.failure("import broken\n")
    (live.folder / "broken.py").unlink()
    place = failure.stack[-1]
    assert (Path(place.path).name, place.line, place.column) == ("broken.py", 2, 3)
    assert failure.stack[0].line == 1


def test_memory_is_limited(live: LiveWorker) -> None:
    failure = live.failure(
        body("hoard = []\nwhile True: hoard.append(bytearray(10_000_000))"), memory_mb=1500
    )
    assert (failure.culprit, failure.kind) == (Culprit.USER, "memory")
    assert failure.stack[-1].line == 6


def test_a_model_too_large_to_build_is_built_on_fake_tensors(live: LiveWorker) -> None:
    source = """\
import torch
# fuselight: Net()(f32[2, 30000])
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(30000, 30000)
        self.b = torch.nn.Linear(30000, 30000)
    def forward(self, x):
        return self.b(self.a(x).relu())
"""
    report = live.analyse(source, "Net", memory_mb=1500)
    assert report.failures == ()
    assert report.inputs is not None
    assert report.inputs.fake
    assert any(note.kind == "fake_tensors" and "memory" in note.text for note in report.notes)
    assert len(report.compiles) == 1


def test_an_answer_in_a_deleted_folder_is_lost_and_not_an_exit(live: LiveWorker) -> None:
    hunt = "import glob, shutil, tempfile\nfor one in glob.glob(tempfile.gettempdir() + f'/fuselight-worker-*-{os.getppid()}-*/*'):\n    shutil.rmtree(one)"
    failure = live.failure(body(hunt))
    assert (failure.culprit, failure.kind) == (Culprit.FUSELIGHT, "damaged_answer")


@pytest.mark.parametrize(
    "patch",
    [
        "os.replace = os.getpid = os.write = os.fstat = None",
        "os.getpid = lambda: 1",
        "json.dumps = json.loads = lambda *_, **__: 1",
    ],
)
def test_builtins_replaced_by_user_code_are_not_used(live: LiveWorker, patch: str) -> None:
    source = "import json, os\n" + patch + "\n" + GOOD
    report = live.analyse(source)
    assert report.failures == ()
    assert len(report.compiles) == 1


def test_without_open_no_file_can_be_compiled_and_that_is_reported(live: LiveWorker) -> None:
    failure = live.failure("import builtins\nbuiltins.open = None\nraise ValueError('mine')\n")
    assert (failure.culprit, failure.exception) == (Culprit.USER, "ValueError")
