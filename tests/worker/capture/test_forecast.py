"""A forecast agrees with what a real call does: each change is made for real, in a call of the compiled function."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from fuselight.capture.calls.calls import Prepared
from fuselight.capture.calls.changed_calls import changed_call
from fuselight.capture.dynamo import Recorder, capture_only
from fuselight.shared.report import CallChange, ChangeKind, Forecast, FrameForecast
from tests.support.recording import PRELUDE

pytestmark = pytest.mark.torch

SOURCE = """
    SCALE = 3

    def scaled(x, n, mode="sum", flag=True):
        y = x * n * SCALE
        return y.sum() if mode == "sum" and flag else y

    def multiplied(x):
        return x * x.sum().item() + 1

    def masked(x, y):
        return torch.log(x[x > 0]) + y[y > 0]

    def freed(x):
        parts = [x.sin()]
        y = x.cos()
        scale = x.sum().item() + len(parts)
        z = sum(parts) * scale
        del y, parts
        return z

    def repeated(x, n):
        for _ in range(n):
            x = x.sin()
        return x

    def repeated_more(x, n):
        return sum([x * i for i in range(1, int(n * 1) + len(x.shape), 1)])

    def repeated_later(x, n):
        torch._dynamo.graph_break()
        y = x * 2
        for _ in range(n - 1):
            y = y.sin()
        return y

    def rows(x):
        y = x.sum()
        for index in range(x.size(1)):
            y = y + x[:, index].sum().sin()
        return y

    def steps(x):
        batch, count = x.shape
        return sum([x.sum() * batch * i for i in range(count)])

    def named(x, n):
        y = x * n
        for _ in range(x.dim()):
            y = y + n
        return y

    def logged(function):
        def call(*args, **kwargs):
            return function(*args, **kwargs)

        return call

    @logged
    def weighted(x, *, weight):
        return x * weight

    def halves(x):
        return x.view(2, -1) if x.size(0) % 2 == 0 else x.sum()

    def stacked(items, table):
        return sum(items) + table["a"]

    def defaulted(x, items, **options):
        if options.get("scale") is None:
            options["scale"] = 2
        items.append(x)
        return items[0] * options["scale"]

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(100, 16)
            self.layer = nn.Linear(16, 16)
            self.drop = nn.Dropout(0.1)
            self.rate = 2
        def forward(self, tokens, mask=None):
            h = self.drop(self.layer(self.embedding(tokens))) * self.rate
            return h if mask is None else h * mask[..., None]

    class Image(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3)
            self.norm = nn.BatchNorm2d(4)
        def forward(self, x):
            return self.norm(self.conv(x)).relu().mean((2, 3))

    class Parts(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)
            self.rate, self.shift, self.unread = 2, 3, 4
        def forward(self, x, n, m):
            h = self.layer(x) * self.rate
            count = int(h.numel())
            torch._dynamo.graph_break()
            h = h * n + self.shift
            if self.training:
                h = h + count
            torch._dynamo.graph_break()
            return h * 2 if h.size(0) > 4 else h * m

    class Settings:
        def __init__(self):
            self.depth, self.first, self.unread = 2, 1, 3

    class Stack(nn.Module):
        def __init__(self):
            super().__init__()
            self.settings = Settings()
            self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))
            self.norm = nn.LayerNorm(4)
        def forward(self, x):
            for layer in self.layers[: self.settings.depth]:
                x = layer(x)
            first = self.settings.first
            for layer in self.layers[first:]:
                x = layer(x)
            return self.norm(x)

    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0
        def forward(self, x):
            self.calls += 1
            return x * self.calls
"""

CASES: dict[str, Callable[[Any], tuple[Any, dict[str, Any]]]] = {
    "scaled": lambda m: (m.scaled, {"x": torch.randn(6, 4), "n": 2, "mode": "sum", "flag": True}),
    "halves": lambda m: (m.halves, {"x": torch.randn(8)}),
    "stacked": lambda m: (
        m.stacked,
        {"items": [torch.randn(4), torch.randn(4)], "table": {"a": torch.randn(4)}},
    ),
    "Net": lambda m: (m.Net(), {"tokens": torch.ones(4, 7, dtype=torch.int64), "mask": torch.ones(4, 7)}),
    "Image": lambda m: (m.Image(), {"x": torch.randn(4, 3, 8, 8)}),
    "Stack": lambda m: (m.Stack(), {"x": torch.randn(6, 4)}),
}


OF_ONE_VARIABLE = frozenset({ChangeKind.NUMBER, ChangeKind.VALUE, ChangeKind.ATTRIBUTE, ChangeKind.STRIDES})
"""Kinds of changes that concern one variable: of the others, all variables with the same value change together."""


@pytest.fixture(name="module")
def module_fixture(tmp_path: Path) -> Iterator[Any]:
    path = tmp_path / "forecast_source.py"
    path.write_text(PRELUDE + textwrap.dedent(SOURCE), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[path.stem]


def forecasts(module: Any, function: Any, inputs: dict[str, Any]) -> tuple[FrameForecast, ...]:
    reset()
    with capture_only(), Recorder(roots=(str(Path(module.__file__).parent),), facts=True) as recorder:
        compiled: Any = torch.compile(function)
        compiled(**inputs)
        frame_forecasts = recorder.forecasts()
    assert not recorder.parts().problems
    return frame_forecasts


def would_recompile(
    compiled: Any, function: Any, inputs: dict[str, Any], forecast: Forecast, module: Any
) -> bool:
    """Whether a call with the change compiles again; nothing is compiled, and the next call meets the same code."""
    prepared_call = Prepared(function, (), inputs)
    changed = changed_call(
        prepared_call, CallChange(forecast.kind, forecast.subject, forecast.now), vars(module)
    )
    with torch._dynamo.config.patch(error_on_recompile=True), changed.during():
        try:
            compiled(**changed.kwargs)
        except torch._dynamo.exc.RecompileError:
            return True
    return False


def reset() -> None:
    torch._dynamo.reset()


@pytest.mark.parametrize("case", CASES)
def test_a_forecast_agrees_with_a_real_call(module: Any, case: str) -> None:
    torch.manual_seed(0)
    function, inputs = CASES[case](module)
    (frame,) = forecasts(module, function, inputs)
    assert len(frame.changes) > 5
    with capture_only():
        reset()
        compiled: Any = torch.compile(function)
        compiled(**inputs)
        wrong = [
            (change.kind.value, change.subject, change.now, change.recompiles)
            for change in frame.changes
            if would_recompile(compiled, function, inputs, change, module) is not change.recompiles
        ]
    assert not wrong


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_the_parts_after_graph_breaks_have_forecasts_that_agree_with_a_real_call(module: Any) -> None:
    """A change of the call recompiles where the function does, or one of its parts."""
    torch.manual_seed(0)
    net, x = module.Parts().eval(), torch.randn(6, 4)
    torch._dynamo.mark_dynamic(x, 0)
    inputs = {"x": x, "n": 2, "m": 3}
    reset()
    with capture_only(), Recorder(roots=(str(Path(module.__file__).parent),), facts=True) as recorder:
        compiled: Any = torch.compile(net)
        compiled(**inputs)
        frame_forecasts = recorder.forecasts()
    lines = Path(module.__file__).read_text().splitlines()
    resumed = [forecast.resumes_at and lines[forecast.resumes_at - 1].strip() for forecast in frame_forecasts]
    assert resumed == [
        None, "torch._dynamo.graph_break()", "torch._dynamo.graph_break()",
    ]  # fmt: skip
    answers: dict[tuple[Any, ...], list[Forecast]] = {}
    for forecast in (change for frame in frame_forecasts for change in frame.changes):
        name = forecast.subject if forecast.kind in OF_ONE_VARIABLE else ()
        answers.setdefault((forecast.kind, forecast.was, forecast.now, name), []).append(forecast)
    wrong = []
    with capture_only():
        for forecast, *others in answers.values():
            if all(name[0] in "xnms" for name in forecast.subject):  # what the call has, not `h`
                flag = any(same.recompiles for same in (forecast, *others))
                if would_recompile(compiled, net, inputs, forecast, module) is not flag:
                    wrong.append((forecast.kind.value, forecast.subject, forecast.now, flag))
    assert not wrong
    only_parts = {
        change.subject for frame in frame_forecasts[1:] for change in frame.changes if change.recompiles
    }
    assert {("n",), ("m",), ("self.shift",)} & only_parts == {("n",), ("self.shift",)}, (
        "m is on a path not taken"
    )


def test_a_forecast_names_the_guard_and_its_line(module: Any) -> None:
    (frame,) = forecasts(module, *CASES["scaled"](module))
    by_kind = {(change.kind, change.subject): change for change in frame.changes}
    number = by_kind[ChangeKind.NUMBER, ("n",)]
    assert (number.recompiles, number.source, number.repeats) == (True, "n", False)
    lines = Path(module.__file__).read_text().splitlines()
    assert "y = x * n * SCALE" in lines[number.born[-1].line - 1]
    mode = by_kind[ChangeKind.VALUE, ("mode",)]
    assert (mode.recompiles, mode.repeats, mode.was) == (True, True, "'sum'")
    scale = by_kind[ChangeKind.ATTRIBUTE, ("SCALE",)]
    assert (scale.recompiles, scale.was, scale.now) == (True, "3", "4")
    assert (frame.function, frame.compiles, frame.limit) == (
        "scaled",
        1,
        torch._dynamo.config.recompile_limit,
    )


def test_a_number_that_a_library_needs_first_is_asked_if_the_function_reads_it(module: Any) -> None:
    (frame,) = forecasts(module, *CASES["Stack"](module))
    attributes = {
        change.subject: change.recompiles for change in frame.changes if change.kind is ChangeKind.ATTRIBUTE
    }
    assert attributes == {("self.settings.depth",): True, ("self.settings.first",): True}


def test_a_size_that_the_code_specializes_recompiles_for_each_value(module: Any) -> None:
    reset()
    with capture_only(), Recorder(roots=(str(Path(module.__file__).parent),), facts=True) as recorder:
        compiled: Any = torch.compile(module.halves, dynamic=True)
        compiled(torch.randn(8))
        (frame,) = recorder.forecasts()
    size = next(change for change in frame.changes if change.kind is ChangeKind.SIZE)
    assert (size.recompiles, size.repeats, size.now) == (True, True, "7")
    assert "2" in size.guard
    zero_one = next(change for change in frame.changes if change.kind is ChangeKind.SIZE_ONE)
    assert zero_one.guard.startswith("2 <= ") or "%" in zero_one.guard


def test_a_function_may_change_the_containers_that_it_is_given(module: Any) -> None:
    (frame,) = forecasts(module, module.defaulted, {"x": torch.randn(6, 4), "items": [torch.randn(6, 4)]})
    by_kind = {change.kind: change.recompiles for change in frame.changes}
    assert by_kind[ChangeKind.SIZE]
    assert by_kind[ChangeKind.LENGTH]


def test_a_function_that_changes_what_it_reads_has_no_forecast(module: Any) -> None:
    assert forecasts(module, module.Counter(), {"x": torch.randn(4)}) == ()


def test_everything_is_as_before_after_the_questions(module: Any) -> None:
    function, inputs = CASES["Net"](module)
    function.embedding.eval()
    before = [module.training for module in function.modules()]
    shapes = {name: value.shape for name, value in inputs.items()}
    forecasts(module, function, inputs)
    assert [module.training for module in function.modules()] == before
    assert function.rate == 2
    assert torch.is_grad_enabled()
    assert {name: value.shape for name, value in inputs.items()} == shapes


def test_marked_sizes_need_no_further_compile(module: Any) -> None:
    x = torch.randn(6, 4)
    torch._dynamo.mark_dynamic(x, 0)
    (frame,) = forecasts(module, module.scaled, {"x": x, "n": 2})
    size = next(
        change
        for change in frame.changes
        if change.subject == ("x.size(0)",) and change.kind is ChangeKind.SIZE
    )
    assert not size.recompiles


@pytest.mark.parametrize(
    ("name", "repeats"),
    [
        ("repeated", True),
        ("repeated_more", True),
        ("repeated_later", True),
        ("scaled", False),
        ("named", False),
    ],
)
@pytest.mark.parametrize("dynamic", [None, True])
def test_a_number_that_decides_a_loop_compiles_for_each_value(
    module: Any, name: str, *, repeats: bool, dynamic: bool | None
) -> None:
    """As three real calls with three numbers do."""
    function, x = getattr(module, name), torch.randn(6, 4)
    reset()
    with capture_only(), Recorder(roots=(str(Path(module.__file__).parent),), facts=True) as recorder:
        compiled: Any = torch.compile(function, dynamic=dynamic)
        compiled(x, 5)
        frame_forecasts = recorder.forecasts()
        asked = [change for frame in frame_forecasts for change in frame.changes if change.subject == ("n",)]
        compiled(x, 6)
        compiled(x, 7)
        again = len(recorder.parts().recompiles)
    assert any(forecast.is_loop_count for forecast in asked) is repeats
    assert again == (2 if repeats else 0 if dynamic else 1)
    answers = {(forecast.recompiles, forecast.repeats) for forecast in asked if forecast.recompiles}
    assert answers == ({(True, repeats)} if repeats or not dynamic else set())


@pytest.mark.parametrize("name", ["rows", "steps"])
@pytest.mark.parametrize("dynamic", [None, True])
def test_a_size_that_decides_a_loop_compiles_for_each_value(
    module: Any, name: str, *, dynamic: bool | None
) -> None:
    function = getattr(module, name)
    reset()
    with capture_only(), Recorder(roots=(str(Path(module.__file__).parent),), facts=True) as recorder:
        compiled: Any = torch.compile(function, dynamic=dynamic)
        compiled(torch.randn(6, 5))
        (frame,) = recorder.forecasts()
        compiled(torch.randn(6, 4))
        compiled(torch.randn(6, 3))
        assert len(recorder.parts().recompiles) == 2
    sizes = {
        change.subject[0]: (change.recompiles, change.repeats, change.is_loop_count)
        for change in frame.changes
        if change.kind is ChangeKind.SIZE
    }
    assert sizes == {
        "x.size(1)": (True, True, True),
        "x.size(0)": (dynamic is None, dynamic is not None and sizes["x.size(0)"][1], False),
    }


def test_the_last_value_that_a_break_carries_over_is_what_the_expression_computed(module: Any) -> None:
    """`x` waits for the number in `x * x.sum().item()`, and is the first value that the rest takes over."""
    reset()
    with capture_only(), Recorder(roots=(str(Path(module.__file__).parent),), facts=True) as recorder:
        compiled: Any = torch.compile(module.multiplied)
        compiled(torch.ones(3))
        _, part = recorder.forecasts()
    assert [frame.carried for frame in recorder.parts().frames] == [None, 2]
    (number,) = [change for change in part.changes if change.kind is ChangeKind.NUMBER]
    assert (number.subject, number.was) == (("___stack1",), "3.0")


def test_a_part_that_deletes_a_variable_has_the_names_of_the_user(module: Any) -> None:
    """torch hands it all values in one list."""
    reset()
    with capture_only(), Recorder(roots=(str(Path(module.__file__).parent),), facts=True) as recorder:
        compiled: Any = torch.compile(module.freed)
        compiled(torch.ones(3))
        compiled(torch.ones(4))
        _, part = recorder.forecasts()
    assert [frame.carried for frame in recorder.parts().frames] == [None, 1]
    failures = [
        dataclasses.replace(failure, expression="")  # in torch's terms
        for entry in recorder.parts().recompiles[-1].entries
        for failure in entry.failures
    ]
    assert failures
    assert "__resume_frame_values" not in f"{part} {failures}"
    asked = {(change.kind, change.subject): change.recompiles for change in part.changes}
    assert asked[ChangeKind.LENGTH, ("parts",)]
    assert (ChangeKind.NUMBER, ("___stack0",)) in asked
    assert not asked[ChangeKind.SIZE, ("parts[0].size(0)", "y.size(0)")]


def test_two_breaks_on_a_line_have_two_parts(module: Any) -> None:
    reset()
    with capture_only(), Recorder(roots=(str(Path(module.__file__).parent),)) as recorder:
        compiled: Any = torch.compile(module.masked)
        compiled(torch.tensor([1.0, -1.0]), torch.tensor([1.0, -1.0]))
    assert [compile_.frame for compile_ in recorder.parts().compiles] == [0, 1, 2]


def test_the_reason_is_the_guard_of_the_version_that_served_the_last_call(module: Any) -> None:
    reset()
    with capture_only(), Recorder(roots=(str(Path(module.__file__).parent),), facts=True) as recorder:
        compiled: Any = torch.compile(module.halves)
        compiled(torch.randn(8))
        compiled(torch.randn(10))
        (frame,) = recorder.forecasts()
    size = next(change for change in frame.changes if change.kind is ChangeKind.SIZE)
    assert (frame.compiles, size.recompiles, size.was, size.now, size.repeats) == (2, True, "10", "9", True)
    assert "%" in size.guard, "the even size, not the 8 of the first version"
    assert "x.view(2, -1)" in Path(module.__file__).read_text().splitlines()[size.born[-1].line - 1]


def test_the_guard_of_a_decorated_function_has_the_names_of_its_parameters(module: Any) -> None:
    reset()
    with capture_only(), Recorder(roots=(str(Path(module.__file__).parent),), facts=True) as recorder:
        compiled: Any = torch.compile(module.weighted)
        for rows in (4, 6):
            compiled(torch.randn(rows, 8), weight=torch.randn(rows, 8))
        (frame,) = recorder.forecasts()
    forecast = next(change for change in frame.changes if change.kind is ChangeKind.SIZE_ONE)
    assert "args" in forecast.guard, "as torch prints it"
    assert (forecast.recompiles, forecast.condition) == (True, "2 <= x.size(0)")


def test_a_function_of_a_library_has_a_forecast_if_it_is_the_target(module: Any) -> None:
    reset()
    with capture_only(), Recorder(roots=("/elsewhere",), facts=True) as recorder:
        for name, inputs in (("scaled", (torch.randn(6, 4), 2)), ("halves", (torch.randn(8),))):
            compiled: Any = torch.compile(getattr(module, name))
            compiled(*inputs)
        frame_forecasts = recorder.forecasts()
    assert [forecast.function for forecast in frame_forecasts] == ["scaled"]
