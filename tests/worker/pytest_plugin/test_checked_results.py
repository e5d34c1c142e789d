"""`accuracy`: the calls of a check are compared with eager mode, in a worker in which pytest runs the test alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fuselight.shared.codec import encode
from fuselight.shared.report import Report, ResultCause, ResultComparison, Stage, TriedSetting
from fuselight_server.pytest_plugin import checked_results
from fuselight_server.pytest_plugin.check_types import START_VARIABLE
from fuselight_server.pytest_plugin.checked_results import compare_results_of
from fuselight_server.pytest_plugin.compiled import CompileResult
from tests.support.compared_results import UNDECIDED, WRONG, compared_call
from tests.support.pytest_runs import run_pytest, write_files
from tests.support.reports import report

MODEL = """\
def share(x):
    rows = round(x.shape[0], -1)
    total = x.relu().sum()
    return total / rows


def double(x):
    return x * 2
"""
TESTS = """\
import torch
from model import double, share


def test_shares(fuselight_check):
    first = fuselight_check(double, (torch.ones(3),))
    assert first.graphs == 1
    checked = fuselight_check(share, [(torch.ones(34, 4),), (torch.ones(37, 4),)], backend="eager")
    results = checked.accuracy_with(tries="0")
    assert (results.compared, results.wrong, checked.graphs) == (3, 1, 1)
    assert results
"""
"""No setting is tried: each takes a run."""


@pytest.mark.timeout(600)  # a pytest for each run of the comparison
def test_a_wrong_call_of_a_check_is_on_its_line(tmp_path: Path) -> None:
    write_files(tmp_path, {"model.py": MODEL, "test_model.py": TESTS, "pytest.ini": "[pytest]\n"})
    section = run_pytest(tmp_path, seconds=580).section("test_shares")
    assert "assert <results of share: 1 call differs from eager (3 calls, 3 values compared)" in section
    assert (
        "model.py:2: FL801 results of `share` differ from eager mode: output is off by up to 0.3" in section
    )
    assert sorted(path.name for path in tmp_path.glob("*.py")) == ["model.py", "test_model.py"]


def test_accuracy_is_compared_with_no_option() -> None:
    check: Any = SimpleNamespace(compare_results=lambda _check, options: options)
    accuracy: Any = vars(CompileResult)["accuracy"]
    assert accuracy.func(check) == {}


class Item:
    """A test, as far as it is asked where it is."""

    nodeid = "test_model.py::test_a"


def answered(monkeypatch: pytest.MonkeyPatch, *reports: Report, problems: tuple[str, ...] = ()) -> list[Any]:
    """Let the process of a comparison answer so; returns what it is asked."""
    asked: list[Any] = []

    def answer(_item: Any, started: Any, _options: Any) -> dict[str, Any]:
        asked.append(started)
        return {"reports": json.loads(json.dumps(encode(reports))), "problems": list(problems)}

    monkeypatch.setattr(checked_results, "_answer", answer)
    return asked


def compare(**known: Any) -> checked_results.CheckedResults:
    item: Any = Item()
    return compare_results_of(item, 2, "Net", known.get("known", {}), {})


def test_the_verdict_counts_calls_and_names_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = (
        TriedSetting("torch._inductor.config.pattern_matcher", "False", cures=False),
        TriedSetting("torch._inductor.config.max_fusion_size", "1", cures=True),
    )
    results = ResultComparison(
        (compared_call(0), compared_call(1, WRONG), compared_call(2, UNDECIDED)),
        3,
        causes=(ResultCause(1, Stage.CODE, tried),),
    )
    answered(monkeypatch, report(results=results))
    wrong = compare()
    assert not wrong
    assert (wrong.compared, wrong.wrong) == (2, 1)
    assert wrong.verdict == (
        "1 call differs from eager (2 calls, 4 values compared; 1 call not compared: the call draws random numbers, "
        "and compiled code draws others)"
    )
    (finding,) = wrong.findings
    assert "FL801 results of `Net` differ from eager mode" in finding
    assert wrong.causes == (
        "wrong code generation (TorchInductor)",
        "as in eager mode with `torch._inductor.config.max_fusion_size = 1`",
    )
    assert wrong.explanation() == [*wrong.findings, *wrong.causes]
    answered(monkeypatch, report(results=replace(results, calls=results.calls[:1], call_count=1, causes=())))
    assert compare()
    answered(monkeypatch, report(results=replace(results, calls=results.calls[2:], call_count=1, causes=())))
    assert not compare(), "nothing was compared"


def test_a_test_that_cannot_run_alone_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    answered(monkeypatch, report(results=ResultComparison()), problems=("model.py: syntax error",))
    with pytest.raises(RuntimeError, match=r"did not reach this check.*\n.*model\.py: syntax error"):
        compare()
    answered(monkeypatch)
    with pytest.raises(RuntimeError, match="needs a test that pytest can run alone"):
        compare()


def test_a_started_test_starts_nothing_and_knows_earlier_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answered(monkeypatch, report(results=ResultComparison((compared_call(0, WRONG),), 1)))
    earlier = compare()
    compare(known={1: earlier})
    assert asked[1].results == {"1": "differs"}
    monkeypatch.setenv(START_VARIABLE, json.dumps(vars(replace(asked[1], results={"2": "differs"}))))
    assert not compare()
    monkeypatch.setenv(START_VARIABLE, json.dumps(vars(asked[1])))
    assert compare(), (
        "a check that nothing is known of does not end the test before the check that was asked for"
    )
    assert len(asked) == 2
