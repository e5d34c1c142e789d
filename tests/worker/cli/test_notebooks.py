"""`fuselight check`, `fix`, `forecast` and `kernels` of a notebook: the lines of cells, and its file written back."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared.kernel_calls import KernelCall, KernelCalls, calls_path, write_calls
from fuselight.shared.notebooks.cells import read_cells
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.terminal import Color, Terminal
from fuselight_server.cli.formats.findings import print_findings
from fuselight_server.cli.formats.fixes import print_fixes
from fuselight_server.cli.formats.forecast import print_forecasts
from fuselight_server.commands.check import analyze
from fuselight_server.commands.fix import fix
from fuselight_server.commands.forecast import forecast
from fuselight_server.commands.notebook_cells import check_in_cells, fix_in_cells, forecast_in_cells
from fuselight_server.commands.options import CommandOptions
from tests.support.live_worker import LiveWorker

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]

SCORES = """\
def scores(x):
    if x.mean() > 0:
        x = x * 3
    return x.relu()
"""
CELLS = ["import torch\n%matplotlib inline", SCORES, "!pip list\nfast = torch.compile(scores)", "x = 1\n1/0"]


@pytest.fixture
def notebook(live: LiveWorker) -> Path:
    path = live.folder / "scores.ipynb"
    outputs = [{"output_type": "stream", "name": "stdout", "text": ["0.5\n"]}]
    cells: list[dict[str, Any]] = [
        {"cell_type": "code", "execution_count": 3, "id": f"c{number}", "metadata": {"é": 1}, "outputs": outputs,
         "source": text.splitlines(keepends=True)}
        for number, text in enumerate(CELLS)
    ]  # fmt: skip
    cells.insert(1, {"cell_type": "markdown", "metadata": {}, "source": ["# scores\n"]})
    text = json.dumps(
        {"nbformat": 4, "nbformat_minor": 5, "cells": cells, "metadata": {}}, indent=3, ensure_ascii=False
    )
    path.write_text(text, encoding="utf-8")
    notebook_calls = KernelCalls(
        str(path), (KernelCall("scores", "scores(f32[3, 2])", ""), KernelCall("fast", "fast(f32[3, 2])", ""))
    )
    write_calls(calls_path(str(path), ""), notebook_calls)
    return path


def printed(show: Callable[[Terminal], None]) -> str:
    stream = StringIO()
    show(Terminal(stream, color=Color.NEVER, width=120))
    return stream.getvalue()


def test_a_check_uses_the_calls_of_the_kernel_and_names_cells(
    live: LiveWorker, notebook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(live.folder)
    options = CommandOptions((notebook,))
    outcome = live.do_command(analyze(options, lambda _: None, CancelToken()))
    text = printed(lambda terminal: print_findings(check_in_cells(outcome), terminal))
    assert "--> scores.ipynb:cell 2:2:8\n" in text
    assert "1 | def scores(x):\n2 |     if x.mean() > 0:\n  |        ^^^^^^^^^^^^\n3 |" in text
    assert "target fast, recorded by the kernel: fast(f32[3, 2])" in text
    assert "fast (scores.ipynb:cell 3): 2 graphs, 1 break" in text
    assert outcome.exit_code == 1


def test_a_fix_changes_the_lines_of_one_cell_and_no_other_byte(
    live: LiveWorker, notebook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(live.folder)
    before = notebook.read_text(encoding="utf-8")
    outcome = live.do_command(fix(CommandOptions((notebook,)), lambda _: None, CancelToken(), writes=True))
    assert "--- a/scores.ipynb:cell 2\t\n+++ b/scores.ipynb:cell 2\t\n" in outcome.diff
    text = printed(lambda terminal: print_fixes(fix_in_cells(outcome), terminal, diff_shown=False))
    assert "scores.ipynb:cell 2:2  GB0170  Use torch.where  written  2 -> 1 graph, same results" in text
    after = notebook.read_text(encoding="utf-8")
    new = "    x = torch.where(x.mean() > 0, x * 3, x)\n"
    old = before.split("\n")
    first = next(number for number, line in enumerate(old) if "if x.mean()" in line)
    indent = " " * (len(old[first]) - len(old[first].lstrip()))
    assert after.split("\n") == [*old[:first], f"{indent}{json.dumps(new)},", *old[first + 2 :]]
    assert read_cells(after)[0].text == CELLS[0]


def test_a_forecast_names_cells(live: LiveWorker, notebook: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(live.folder)
    outcome = live.do_command(forecast(CommandOptions((notebook,)), lambda _: None, CancelToken()))
    shown, trials = forecast_in_cells(outcome.checked, outcome.trials)
    text = printed(lambda terminal: print_forecasts(shown, terminal, trials, is_full=True))
    assert "scores.ipynb:cell" in text
    assert "scores.ipynb:6" not in text
