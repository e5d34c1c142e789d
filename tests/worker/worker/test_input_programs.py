"""Inputs from another file of the workspace: its program runs up to its first call of the target."""

from __future__ import annotations

import json
import os
import textwrap

import pytest

from fuselight.shared.report import Report, Rung
from tests.support.live_worker import LiveWorker

MODEL = """
    import torch

    class Config:
        width = 6

    class Net(torch.nn.Module):
        def __init__(self, config):
            super().__init__()
            self.layer = torch.nn.Linear(config.width, 2)
        def forward(self, x, *, scale=1.0):
            return self.layer(x) * scale
"""
SCRIPT = """
    import torch
    from model import Config, Net

    def main():
        net = torch.compile(Net(Config()))
        print(net(torch.ones(3, 6), scale=0.5).shape)
        raise AssertionError("the program ends at its first call")

    if __name__ == "__main__":
        main()
"""
TESTS = """
    import torch
    import model

    def test_without_the_class():
        assert torch.ones(2).sum() == 2

    def test_with_it():
        net = model.Net(model.Config()).eval()
        with torch.no_grad():
            assert net(torch.ones(5, 6)).shape == (5, 2)

    def test_after_it():
        raise SystemExit("no test begins after the call")
"""
NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "source": ["# title\n", "net("]},
        {"cell_type": "code", "source": ["%matplotlib inline\n", "import torch\n", "from model import *"]},
        {"cell_type": "code", "source": "net = Net(Config())\nnet(torch.ones(4, 6))"},
    ]
}


def analyzed(live: LiveWorker, program: str, text: str) -> Report:
    path = live.folder / program
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return live.analyse(textwrap.dedent(MODEL), "Net", program=str(path))


@pytest.mark.parametrize(
    ("program", "text", "call", "mode"),
    [
        ("train.py", SCRIPT, "Net(f32[3, 6], scale=0.5)", "training"),
        ("test_model.py", TESTS, "Net(f32[5, 6], scale=1.0)", "evaluation"),
        ("explore.ipynb", json.dumps(NOTEBOOK), "Net(f32[4, 6], scale=1.0)", "training"),
    ],
)
def test_a_program_gives_the_inputs_of_its_first_call(
    live: LiveWorker, program: str, text: str, call: str, mode: str
) -> None:
    report = analyzed(live, program, text)
    assert report.failures == ()
    assert report.inputs is not None
    assert (report.inputs.rung, report.inputs.path) == (Rung.CALLER, str(live.folder / program))
    assert [call.text for call in report.inputs.calls] == [call]
    assert report.inputs.training is (mode == "training")
    assert len(report.compiles) == 1
    assert str(live.folder / program) in report.files


def test_tests_run_in_the_worker_where_the_users_settings_spread_them(live: LiveWorker) -> None:
    settings = live.folder / "pytest.ini"
    # A run of these tests may load no plugins that are not named.
    named = "-p xdist.plugin " if "PYTEST_DISABLE_PLUGIN_AUTOLOAD" in os.environ else ""
    settings.write_text(f"[pytest]\naddopts = {named}-n 2 --dist loadfile\n", encoding="utf-8")
    try:
        report = analyzed(live, "test_model.py", TESTS)
    finally:
        settings.unlink()
    assert report.failures == ()
    assert report.inputs is not None
    assert [call.text for call in report.inputs.calls] == ["Net(f32[5, 6], scale=1.0)"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import model\n", "other.py does not call Net"),
        ("import sys\nsys.exit('which file?')\n", "other.py exits before it calls Net"),
    ],
)
def test_a_program_that_does_not_call_the_target_says_so(live: LiveWorker, text: str, why: str) -> None:
    report = analyzed(live, "other.py", text)
    assert [failure.kind for failure in report.failures] == ["inputs"]
    assert why in report.failures[0].message
    assert report.inputs is None


def test_an_exception_of_the_program_is_on_its_line(live: LiveWorker) -> None:
    report = analyzed(live, "other.py", "import model\nopen('no such file')\n")
    (failure,) = report.failures
    assert (failure.exception, failure.phase) == ("FileNotFoundError", "program")
    assert (failure.stack[-1].path, failure.stack[-1].line) == (str(live.folder / "other.py"), 2)


def test_tests_run_without_pytest(live: LiveWorker) -> None:
    without = "import sys\nsys.modules['pytest'] = None\n"
    (live.folder / "test_model.py").write_text(textwrap.dedent(TESTS), encoding="utf-8")
    source = without + textwrap.dedent(MODEL)
    report = live.analyse(source, "Net", program=str(live.folder / "test_model.py"))
    assert report.failures == ()
    assert report.inputs is not None
    assert [call.text for call in report.inputs.calls] == ["Net(f32[5, 6], scale=1.0)"]
