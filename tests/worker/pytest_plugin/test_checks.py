"""What tests see of `fuselight_check`: one run of pytest for all cases, and what it printed."""

from __future__ import annotations

import os
import re

import pytest

from tests.support.pytest_runs import PytestRun, run_pytest, write_files

MODEL = """\
import torch
from torch import nn


class Smooth(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2


class Chatty(nn.Module):
    def forward(self, x):
        y = x + 1
        print("scale", 3)
        return y * 2


class Quiet(nn.Module):
    def forward(self, x):
        y = x + 1
        print("scale", 3)  # fuselight: ignore[GB0059]
        return y * 2


class Narrow(nn.Module):
    def forward(self, x):
        return x @ torch.ones(3, 3)


class Scaled(nn.Module):
    def forward(self, x, *, scale=1.0):
        return x * scale


class Refusing(nn.Module):
    def forward(self, x):
        if x.shape[0] == 4:
            raise ValueError("4 rows")
        return x


def doubled(x):
    return x * 2


ready = torch.compile(Chatty(), backend="eager")
"""
TESTS = """\
import pickle
import unittest

import pytest
import torch
import torch._dynamo.utils

from model import Chatty, Narrow, Quiet, Refusing, Scaled, Smooth, doubled, ready

X = torch.ones(4, 3)


def test_numbers(fuselight_check):
    compiled = fuselight_check(Smooth(), (X,))
    assert compiled.graphs == 1 and compiled.breaks == 0 and compiled.recompiles == 0
    assert torch.equal(compiled.outputs[0], X * 2)
    assert f"{compiled.graphs:>3}|{compiled.graphs}" == "  1|1"
    assert pickle.loads(pickle.dumps(compiled.graphs)) == 1
    assert not compiled.findings


def test_forms_of_inputs(fuselight_check):
    assert len(fuselight_check(doubled, X).outputs) == 1
    assert torch.equal(fuselight_check(Scaled(), {"x": X, "scale": 3.0}).outputs[0], X * 3)
    call = fuselight_check.call((X,), {"scale": 4.0})
    assert torch.equal(fuselight_check(Scaled(), [(X,), call]).outputs[1], X * 4)


def test_settings(fuselight_check):
    both = [(X,), (torch.ones(5, 3),)]
    assert fuselight_check(Smooth(), both).recompiles == 1
    assert fuselight_check(Smooth(), both, dynamic=True).recompiles == 0
    assert fuselight_check(Smooth(), both, backend="eager", dynamic=True).graphs == 1


def test_others_do_not_count(fuselight_check, caplog):
    caplog.set_level("DEBUG")
    model = Smooth()
    own = torch.compile(model, backend="eager")
    for rows in range(2, 8):
        own(torch.ones(rows, 3))
    torch._dynamo.utils.counters["mine"]["count"] = 7
    caplog.clear()
    fuselight_check(model, (X,)).expect(graphs=1, recompiles=0)
    assert not caplog.records
    assert torch._dynamo.utils.counters["mine"] == {"count": 7}
    assert torch.equal(own(X), X * 2)
    fuselight_check(model, (X,)).expect(graphs=1, recompiles=0)


def test_forecast(fuselight_check):
    compiled = fuselight_check(Smooth(), (X,))
    assert any("x.size(0)" in change.title for change in compiled.forecast.sizes)
    dynamic = fuselight_check(Smooth(), (X,), dynamic=True)
    assert dynamic.forecast.sizes.titles == ("the batch is 1 (x.size(0): 4 \N{RIGHTWARDS ARROW} 1)",)


def test_ignore_comment(fuselight_check):
    assert fuselight_check(Quiet(), (X,)).findings.codes == ()


def test_lists(fuselight_check):
    clean, noisy = fuselight_check(Quiet(), (X,)), fuselight_check(Chatty(), (X,))
    assert clean.findings == [] == clean.findings.codes
    assert [] == clean.findings
    assert not clean.findings != []
    assert noisy.findings != []
    assert noisy.findings.codes == ["GB0059"] == list(noisy.findings.codes)
    assert noisy.findings.codes != ["GB0060"]
    assert noisy.findings == list(noisy.findings)
    assert noisy.forecast.titles == list(noisy.forecast.titles)
    assert len({noisy.findings.codes, ("GB0059",)}) == 1
    flat = fuselight_check(lambda: torch.ones(3) + 1, ())
    assert flat.forecast.sizes == [] == flat.forecast.sizes.titles


@pytest.mark.fuselight(graphs=2, breaks=1)
def test_marked(fuselight_check):
    fuselight_check(Chatty(), (X,))


async def nothing():
    pass


# What follows fails.


def test_plain_assert(fuselight_check):
    compiled = fuselight_check(Chatty(), (X,))
    assert compiled.graphs == 1


def test_unary_assert(fuselight_check):
    assert not fuselight_check(Chatty(), (X,)).breaks


def test_second_check(fuselight_check):
    fuselight_check(Chatty(), (X,))
    second = fuselight_check(Chatty(), [(X,), (torch.ones(6, 3),)])
    assert second.recompiles < 1


def test_expect(fuselight_check):
    fuselight_check(Chatty(), (X,)).expect(graphs=1, breaks=0)


def test_compiled_by_the_user(fuselight_check):
    assert fuselight_check(ready, (X,)).breaks == 0


def test_settings_of_compiled(fuselight_check):
    fuselight_check(ready, (X,), dynamic=True)


def test_exception(fuselight_check):
    fuselight_check(Narrow(), (torch.ones(4),))


def test_fullgraph(fuselight_check):
    fuselight_check(Chatty(), (X,), fullgraph=True)


def test_unrelated(fuselight_check):
    fuselight_check(Chatty(), (X,))
    assert 2 + 2 == 5


def test_baseline_of_one_check(fuselight_check, monkeypatch):
    monkeypatch.setenv("CI", "1")
    fuselight_check.baseline(fuselight_check(doubled, X))


def test_no_call(fuselight_check):
    fuselight_check(Smooth(), [])


def test_unnamed(fuselight_check):
    fuselight_check(Smooth(), {0: X})


def test_not_callable(fuselight_check):
    fuselight_check(X, (X,))


def test_class(fuselight_check):
    fuselight_check(Smooth, (X,))


def test_object_after_its_class(fuselight_check):
    assert fuselight_check(Smooth(), (X,)).graphs == 1


def test_unknown_backend(fuselight_check):
    fuselight_check(Smooth(), (X,), backend="inductr")


def test_skipped(fuselight_check):
    fuselight_check(Refusing(), (X,))


def stopped(x):
    y = x + 1
    stop(y)
    return y


@torch._dynamo.disable
def stop(x):
    pytest.fail("stopped by a timeout")


def test_stopped(fuselight_check):
    fuselight_check(stopped, (X,))


@pytest.mark.fuselight(graphs=1)
def test_marked_wrong(fuselight_check):
    fuselight_check(Chatty(), (X,))


@pytest.mark.fuselight(graphs=1)
def test_marker_alone():
    pass


@pytest.mark.fuselight(graph=1)
def test_marker_typo(fuselight_check):
    pass


@pytest.mark.fuselight
def test_marker_empty(fuselight_check):
    pass


def test_unknown_number(fuselight_check):
    fuselight_check(Smooth(), (X,)).expect(graph=1)


def test_number_without_a_name(fuselight_check):
    fuselight_check(Smooth(), (X,)).expect(1)


def test_unknown_setting(fuselight_check):
    fuselight_check(Smooth(), (X,), dynamics=True)


def test_unknown_attribute(fuselight_check):
    fuselight_check(Smooth(), (X,)).graph_breaks


def test_arguments_without_a_tuple(fuselight_check):
    fuselight_check(torch.add, X, X)


def test_arguments_in_a_list(fuselight_check):
    fuselight_check(lambda x, y: x + y, [X, X])


def test_unknown_mode(fuselight_check):
    fuselight_check(Smooth(), (X,), mode="fastest")


def test_unknown_option(fuselight_check):
    fuselight_check(Smooth(), (X,), options={"max_autotun": True})


def test_known_mode(fuselight_check):
    assert fuselight_check(Smooth(), (X,), mode="max-autotune").graphs == 1
    assert fuselight_check(Smooth(), (X,), options={"max-autotune": True}).graphs == 1


def test_codes(fuselight_check):
    assert fuselight_check(Chatty(), (X,)).findings.codes == ()


def test_no_size_compiles_again(fuselight_check):
    compiled = fuselight_check(Smooth(), (X,))
    assert not compiled.forecast.sizes


def test_no_forecast(fuselight_check):
    fuselight_check(lambda x: x, (1,)).forecast


class TestOld(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def take(self, fuselight_check):
        self.check = fuselight_check

    def test_method(self):
        self.assertEqual(self.check(Chatty(), (X,)).breaks, 0)
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> PytestRun:
    folder = tmp_path_factory.mktemp("checks")
    write_files(folder, {"model.py": MODEL, "test_model.py": TESTS, "pytest.ini": "[pytest]\n"})
    return run_pytest(folder)


@pytest.mark.parametrize(
    "test",
    [
        "test_numbers",
        "test_known_mode",
        "test_forms_of_inputs",
        "test_settings",
        "test_others_do_not_count",
        "test_forecast",
        "test_ignore_comment",
        "test_lists",
        "test_marked",
        "test_object_after_its_class",
    ],
)
def test_passes(ran: PytestRun, test: str) -> None:
    assert ran.summary(test).startswith("PASSED"), ran.output


BREAK = "GB0059 graph break: `print` cannot be traced (model.py:13)"


@pytest.mark.parametrize(
    ("test", "summary"),
    [
        ("test_plain_assert", BREAK),
        ("test_unary_assert", BREAK),
        ("test_expect", BREAK),
        ("test_compiled_by_the_user", BREAK),
        ("test_marked_wrong", BREAK),
        ("test_method", BREAK),
        ("test_second_check", "FL201 recompiled: x.size(0) was 4, now 6 (model.py:12)"),
        ("test_exception", "FL401 RuntimeError: a and b must have same reduction dim"),
        ("test_fullgraph", "FL404 graph break under fullgraph=True: `print` cannot be traced (model.py:13)"),
        ("test_unrelated", "assert (2 + 2) == 5"),
        ("test_baseline_of_one_check", "ExpectationError: doubled has no entry in fuselight-tests.json."),
        ("test_no_call", "ValueError: fuselight_check was given no call: the list of inputs is empty."),
        ("test_unnamed", "TypeError: a dict of inputs is a call by keywords, and `0` is no name."),
        ("test_not_callable", "TypeError: `Tensor` cannot be called."),
        ("test_class", "TypeError: `Smooth` is a class. Pass an object of it to fuselight_check"),
        (
            "test_settings_of_compiled",
            "ValueError: `Chatty` is compiled already, so `dynamic` would have no effect.",
        ),
        ("test_marker_alone", "@pytest.mark.fuselight has no effect"),
        ("test_marker_typo", "@pytest.mark.fuselight has no `graph`. Did you mean `graphs`?"),
        ("test_unknown_number", "TypeError: expect() has no `graph`. Did you mean `graphs`?"),
        (
            "test_number_without_a_name",
            "TypeError: expect(): too many positional arguments. It takes numbers",
        ),
        ("test_unknown_setting", "TypeError: fuselight_check has no `dynamics`. Did you mean `dynamic`?"),
        ("test_unknown_attribute", "AttributeError: a check has no `graph_breaks`. Did you mean `breaks`?"),
        (
            "test_arguments_without_a_tuple",
            "TypeError: fuselight_check: too many positional arguments. It takes",
        ),
        ("test_unknown_mode", "ValueError: torch.compile has no mode `fastest`. Its modes are default, "),
        (
            "test_unknown_option",
            "ValueError: torch.compile has no option `max_autotun`. Did you mean `max_autotune`?",
        ),
        ("test_codes", BREAK),
        ("test_no_forecast", "RuntimeError: there is no forecast of <lambda>: nothing was compiled."),
        ("test_marker_empty", "@pytest.mark.fuselight expects nothing."),
    ],
)
def test_fails(ran: PytestRun, test: str, summary: str) -> None:
    line = ran.summary(test)
    assert line.split(" ")[0] in {"FAILED", "ERROR"}
    shown, _, _ = line.partition(" - ")[2].partition("...")
    assert shown.removeprefix("Failed: ") in summary or summary in line, line
    assert len(shown) > 10, line


def test_failure_shows_the_finding_at_its_line(ran: PytestRun) -> None:
    text = ran.section("test_plain_assert")
    assert "E       assert 2 graphs of Chatty == 1" in text
    assert "E         model.py:13: GB0059 graph break: `print` cannot be traced" in text
    assert re.search(r"test_model.py:\d+: AssertionError", text)  # the traceback stays at the test
    assert "- Fuselight: Chatty -" in text
    assert '13 |         print("scale", 3)' in text
    assert "What to do:" in text


def test_a_failure_of_a_forecast_shows_what_to_do(ran: PytestRun) -> None:
    text = ran.section("test_no_size_compiles_again").partition("- Fuselight: forecast of Smooth -")[2]
    (first, *_) = text.splitlines()[1:]
    assert first.startswith("the batch changes (x.size(0): 4 \N{RIGHTWARDS ARROW} ")
    assert ": one more compile" in first
    assert "mark_dynamic" in first
    assert "grad mode" not in text  # it is no size


def test_failure_of_one_check_shows_no_other(ran: PytestRun) -> None:
    text = ran.section("test_second_check")
    assert "- Fuselight: Chatty#2 -" in text
    assert "- Fuselight: Chatty -" not in text
    assert "Fuselight" not in ran.section("test_unrelated")


def test_all_numbers_that_differ_are_named(ran: PytestRun) -> None:
    assert "2 graphs of Chatty, expected 1; 1 break of Chatty, expected 0" in ran.section("test_expect")
    assert "2 graphs of Chatty, expected 1 (marker of the test)" in ran.section("test_marked_wrong")


def test_a_list_that_has_the_arguments_of_one_call_is_explained(ran: PytestRun) -> None:
    text = ran.section("test_arguments_in_a_list")
    assert "missing 1 required positional argument: 'y': a list of inputs is several calls." in text
    assert "put the arguments of one call into a tuple, `(x, y)`" in text


@pytest.mark.parametrize("test", ["test_unknown_number", "test_no_forecast", "test_unknown_attribute"])
def test_an_error_of_a_check_is_shown_at_the_line_of_the_test(ran: PytestRun, test: str) -> None:
    text = ran.section(test)
    assert "pytest_plugin" not in text
    assert "functools.py" not in text


def test_an_exception_is_shown_without_the_compiler(ran: PytestRun) -> None:
    text = ran.section("test_exception")
    assert "TorchRuntimeError" in text
    assert "symbolic_convert.py" not in text
    assert "hooks.py" not in text


@pytest.mark.parametrize(
    ("test", "error"),
    [("test_unknown_backend", "Invalid backend: 'inductr'"), ("test_stopped", "stopped by a timeout")],
)
def test_what_ends_a_check_is_shown_without_the_compiler(ran: PytestRun, test: str, error: str) -> None:
    text = ran.section(test)
    assert error in text
    assert "observed_calls.py" not in text
    assert "_dynamo/" not in text.replace(os.sep, "/")


def test_code_that_is_skipped_was_called_from_the_test(ran: PytestRun) -> None:
    text = ran.section("test_skipped")
    assert "FL101" in text
    assert re.search(r"test_model.py:\d+: called from `test_skipped`", text)
    assert "checker.py" not in text
