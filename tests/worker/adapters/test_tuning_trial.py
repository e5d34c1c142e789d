"""FL949: autotuned launches whose timed runs change the first result, and right ones that look like them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.kernels import NO_TRITON

pytest.importorskip("triton", reason=NO_TRITON)
pytest.importorskip("numpy")

from fuselight.adapters.triton_api import names
from fuselight.adapters.triton_api.launches import interpretation, launcher, python_form
from fuselight.adapters.triton_api.launches.memory import CheckedMemory
from fuselight.adapters.triton_api.launches.python_form import PythonForms
from tests.support.checked_kernels import checked_file, directives

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU, nothing stands in for it"),
]
FILE = Path(__file__).parents[2] / "cases" / "launches" / "tuned_launches.py"
_BUDGETS = ("MAX_SECONDS", "MAX_ALL_SECONDS", "MAX_TRIED_SECONDS", "MAX_TRIAL_SECONDS")
_PLANTED = re.compile(r"^# planted: (\w+) ?(.*)$", re.MULTILINE)


@pytest.fixture(autouse=True)
def _time_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    for budget in _BUDGETS:
        monkeypatch.setattr(launcher, budget, 600.0)


def test_each_planted_change_is_found_with_what_cures_it() -> None:
    planted = {
        name: tuple(cure.split(" and ") for cure in cures.split(" | ") if cure)
        for name, cures in _PLANTED.findall(FILE.read_text(encoding="utf-8"))
    }
    cures_by_name = {}
    with checked_file(FILE) as checked:
        for name, text, line in directives(FILE):
            checked.launches.tunings.clear()
            assert checked.check(name, text, line) == []
            changes = checked.launches.tunings
            assert (name in planted, len(changes)) in ((True, 1), (False, 0)), name
            if changes:
                cures_by_name[name] = tuple(map(list, changes[0].cures))
                assert changes[0].has_own_hook is (name == "hook_without_use")
                assert changes[0].configurations == 2
    assert cures_by_name == planted


def test_the_change_has_both_values_and_the_memory_is_as_the_launch_left_it() -> None:
    with checked_file(FILE) as checked:
        x = torch.zeros(200)
        out = vars(checked.module)["works_in_place"](x)
        (change,) = checked.launches.tunings
    assert out is x
    assert torch.equal(x, torch.ones(200))
    assert (change.kernel, change.argument, change.offset, change.count) == ("in_place", "x", 0, 200)
    assert (change.value, change.expected) == (3.0, 1.0)


def test_gradients_of_what_a_tried_launch_changes_are_computed() -> None:
    with checked_file(FILE) as checked:
        weight = torch.ones(200, requires_grad=True)
        x = weight * 2
        product = x * x  # keeps x for backward
        with torch.no_grad():
            out = vars(checked.module)["sums_up"](x)
        product.sum().backward()  # type: ignore[no-untyped-call]
    assert out.item() == 400.0
    assert weight.grad is not None
    assert weight.grad[0].item() == 8.0


@pytest.mark.parametrize("place", ["import", "Python of the kernel", "program"])
def test_what_is_made_once_is_not_in_the_time_of_a_launch(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]

    def slow(function: Any) -> Any:
        def call(*args: Any, **named: Any) -> Any:
            clock[0] += 2.0
            return function(*args, **named)

        return call

    for module in (interpretation, launcher, python_form):
        monkeypatch.setattr(module, "_processor_time", lambda: clock[0])
    monkeypatch.setattr(launcher, "MAX_TRIED_SECONDS", 1.0)
    if place == "import":
        monkeypatch.setattr(names, "interpreter", slow(names.interpreter))
    elif place == "program":
        monkeypatch.setattr(CheckedMemory, "begin_program", slow(CheckedMemory.begin_program))
    else:
        monkeypatch.setattr(PythonForms, "_rewritten", slow(PythonForms._rewritten))
    with checked_file(FILE) as checked:
        vars(checked.module)["works_in_place"](torch.zeros(200))
        changes = checked.launches.tunings
    assert clock[0] >= 2.0
    assert len(changes) == (0 if place == "program" else 1)
