"""Texts and JSON of measurements, searches, kernels and operators of notebooks: each line is one of a cell."""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fuselight.shared.report import Culprit, Failure, Location, OperatorPath, Phase, TargetRef
from fuselight_server.base.finding import SourceLine
from fuselight_server.base.terminal import Terminal
from fuselight_server.cli.formats import bench, kernels, ops, tune
from fuselight_server.commands.notebook_cells import cell_names, check_in_cells
from fuselight_server.commands.notebook_lines import NamedLine
from fuselight_server.commands.outcome import CheckOutcome, TargetBenchmark
from fuselight_server.commands.renamed_lines import renamed
from fuselight_server.commands.tune import TargetSearch
from fuselight_server.explain.benchmarks.history import run_of
from tests.support.command import run_cli
from tests.support.measured import benchmark, graph, kernel, profile, ran, row
from tests.support.reports import report

if TYPE_CHECKING:
    from fuselight.shared.report import Report
    from fuselight_server.explain.benchmarks.history import BenchmarkRun

CELLS = ("import torch", "def tilt(x):\n    y = x.sin()\n    return y * 2", "# fuselight: tilt(f32[2])")
FIRST, SECOND = 5, 6
"""Lines of the module: `y = x.sin()` and the one after it, which are lines 2 and 3 of cell 2."""
FAILURE = Failure(Culprit.USER, "inputs", "the directive on line 8 names `z`", "Name a parameter")


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    cells = [{"cell_type": "code", "source": text} for text in CELLS]
    path = tmp_path / "tilt.ipynb"
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}))
    return str(path)


def measured(notebook: str, **lines_us: float) -> Report:
    """A benchmark of the function in cell 2; each keyword is a line of the module after `_`, and its time."""
    numbers = [int(name.removeprefix("_")) for name in lines_us]
    launches = [ran(index, us) for index, us in enumerate(lines_us.values())]
    generated = (graph(*(kernel(number, launch=index) for index, number in enumerate(numbers))),)
    timed = benchmark(
        row("eager", 300.0),
        row("default", 100.0, generated=generated, profile=profile(launches)),
        roots=(str(Path(notebook).parent),),
        failures=(FAILURE,),
    )
    return in_notebook(timed, notebook)


def in_notebook(of: Report, notebook: str) -> Report:
    """The same report with each place in the notebook."""
    moved = renamed(of, lambda _path, line: (notebook, line))
    return dataclasses.replace(moved, target=TargetRef(notebook, "tilt", FIRST - 1, "function"))


def run(of: Report, *texts: tuple[int, str]) -> BenchmarkRun:
    kept = run_of(of, str(Path(of.target.path).parent), lambda _path, line: dict(texts).get(line))
    assert kept is not None
    return kept


def shown(outcome: CheckOutcome, target: TargetBenchmark) -> str:
    out = io.StringIO()
    bench.print_benchmarks(outcome, [target], Terminal(out))
    return out.getvalue()


def test_a_benchmark_names_cells_in_its_text_and_data(notebook: str) -> None:
    timed = measured(notebook, _5=40.0, _6=9.0)
    outcome, target = CheckOutcome(reports=[timed]), TargetBenchmark(timed, run(timed))
    text = shown(outcome, target)
    assert "tilt.ipynb:cell 2:2" in text
    assert "y = x.sin()" in text
    assert "tilt.ipynb:cell 2:3" in text
    assert "the directive on cell 3, line 1 names `z`" in text
    assert "tilt.ipynb:5" not in text
    (data,) = json.loads(bench.as_json(outcome, [target]))["targets"]
    places = [line["place"] for line in data["page"]["profiles"]["default"]["lines"]]
    assert [(place["path"], place["line"]) for place in places] == [
        ("tilt.ipynb:cell 2", 1),
        ("tilt.ipynb:cell 2", 2),
    ]
    assert {place["uri"] for place in places} == {Path(notebook).as_uri()}
    assert ":cell " not in json.dumps(data["run"])  # what --against takes is as it was measured


def test_a_comparison_quotes_a_line_that_is_gone(notebook: str) -> None:
    before = run(measured(notebook, _5=40.0, _6=30.0), (5, "y = x.sin()"), (6, "z = y.exp()"))
    timed = measured(notebook, _5=60.0)
    target = TargetBenchmark(timed, run(timed, (5, "y = x.sin()")), before)
    text = shown(CheckOutcome(reports=[timed]), target)
    assert "+50%, tilt.ipynb:cell 2:2: 40 µs -> 60 µs" in text
    assert "gone, `z = y.exp()`: 30 µs" in text


def test_a_search_that_failed_names_the_cell_of_the_directive(notebook: str) -> None:
    failed = in_notebook(report(failures=(FAILURE,)), notebook)
    outcome = CheckOutcome(reports=[failed])
    out = io.StringIO()
    tune.print_searches(outcome, [TargetSearch(failed)], Terminal(out))
    assert "the directive on cell 3, line 1 names `z`" in out.getvalue()
    assert "the directive on cell 3, line 1" in tune.as_json(outcome, [TargetSearch(failed)])


def test_lines_of_kernels_are_asked_for_by_their_cells(notebook: str) -> None:
    generated = (graph(kernel(FIRST, SECOND)),)
    recorded = in_notebook(report(roots=(str(Path(notebook).parent),), generated=generated), notebook)
    outcome = check_in_cells(CheckOutcome(reports=[recorded]))
    pairs = (
        (NamedLine(2), NamedLine(3)),  # of the target's cell
        (NamedLine(2, cell=2), NamedLine(1, cell=3)),
    )
    out = io.StringIO()
    kernels.print_kernels(outcome, Terminal(out), kernels.Details(pairs=pairs))
    text = out.getvalue()
    assert "Cell 2, line 2 and cell 2, line 3 are fused in triton_0." in text
    assert (
        "Cell 2, line 2 and cell 3, line 1 cannot be compared: cell 3, line 1 has no part in any kernel."
        in text
    )
    answers = json.loads(kernels.as_json(outcome, kernels.Details(pairs=pairs)))["targets"][0]["why"]
    assert [(answer["cells"], answer["lines"]) for answer in answers] == [([2, 2], [2, 3]), ([2, 3], [2, 1])]


def test_cells_of_a_file_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text("x = 1\n")
    done = run_cli("kernels", "model.py", "--why", "1:1:2:1")
    assert done.exit_code == 2
    assert "--why names cells, and `model.py` is no notebook. Write LINE:LINE" in done.stderr


def test_operators_have_their_cell_in_json(notebook: str) -> None:
    stack = (Location(notebook, FIRST),)
    path = OperatorPath("torch.sin", Phase.INFERENCE, stack, aten=("aten.sin.default",))
    recorded = in_notebook(report(operators=(path,)), notebook)
    (target,) = json.loads(ops.as_json(check_in_cells(CheckOutcome(reports=[recorded])), None))["targets"]
    assert (target["path"], target["cell"], target["line"]) == (notebook, 2, 1)
    assert target["paths"][0]["stack"] == [[f"{notebook}:cell 2", 2]]


def test_a_line_of_no_notebook_keeps_its_name(notebook: str) -> None:
    names = cell_names(CheckOutcome(reports=[in_notebook(report(), notebook)]))
    assert names.line_in_cell(SourceLine("/elsewhere.py", 5)) == SourceLine("/elsewhere.py", 5)
    assert names.line_in_cell(SourceLine(notebook, 3)) == SourceLine(
        notebook, 3
    )  # the marker between two cells
    assert names.line_in_cell(SourceLine(notebook, SECOND)) == SourceLine(f"{notebook}:cell 2", 3)
