"""The results of frames and calls: graphs, guards, symbols, refused fusions, failures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from tests.support.recording import record

pytestmark = pytest.mark.torch
TORCH = tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])


def test_a_compile_has_its_graph_guards_and_latency(tmp_path: Path) -> None:
    got = record(
        tmp_path,
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(4, 4)
                self.scale = 2

            def forward(self, x):
                return torch.relu(self.linear(x)) * self.scale

        net = torch.compile(Net())

        def main():
            net(torch.ones(3, 4))
        """,
    )
    (compile_record,) = got.parts.compiles
    assert compile_record.graph is not None
    assert compile_record.graph.operators == 3
    assert compile_record.graph.targets[:2] == ("torch.nn.functional.linear", "torch.relu")
    line = got.line("return torch.relu")
    assert {stack[0].line for stack in compile_record.graph.lines} == {line}
    assert compile_record.graph.inputs[-1] == "l_x_: f32[3, 4]"
    assert compile_record.graph.text_key in got.parts.texts
    scale = [guard for guard in compile_record.guards if guard.source == "self.scale"]
    assert {guard.born[-1].line for guard in scale} == {line}
    assert any("== 2" in code for guard in scale for code in guard.code)
    assert compile_record.guard_count is not None
    assert compile_record.guard_count > len(compile_record.guards) // 2
    assert compile_record.guard_places[0].stack[0].line == line
    assert compile_record.guard_us is not None
    assert 0 < compile_record.guard_us < 100_000
    assert compile_record.seconds is not None
    assert [place.line for place in compile_record.caller][-1] == got.line("net(torch.ones")


def test_a_marked_size_that_the_code_fixes_names_the_line(tmp_path: Path) -> None:
    got = record(
        tmp_path,
        """
        @torch.compile
        def f(x):
            if x.size(0) == 4:
                return x + 1
            return x

        def main():
            x = torch.ones(4, 3)
            torch._dynamo.mark_dynamic(x, 0)
            f(x)
        """,
    )
    assert got.failure is not None
    assert (got.failure.culprit.value, got.failure.kind) == ("user", "constraint")
    assert "You marked x.size(0) as dynamic" in got.failure.message
    assert got.failure.stack[-1].line == got.line("if x.size(0)")
    (compile_record,) = got.parts.compiles
    assert compile_record.outcome.value == "failed"
    (symbol,) = [symbol for symbol in compile_record.symbols if symbol.source == "x.size(0)"]
    assert (symbol.marked, symbol.specialized_to) == (True, "4")
    assert symbol.stack[-1].line == got.line("if x.size(0)")


def test_a_size_that_turned_dynamic_by_itself_is_not_marked(tmp_path: Path) -> None:
    got = record(
        tmp_path,
        """
        @torch.compile
        def f(x):
            return x + x.size(0)

        def main():
            f(torch.ones(4))
            f(torch.ones(5))
        """,
    )
    (symbol,) = got.parts.compiles[1].symbols
    assert (symbol.source, symbol.hint, symbol.specialized_to, symbol.marked) == (
        "x.size(0)",
        "5",
        None,
        False,
    )


@pytest.mark.parametrize(
    ("equal", "line", "reading", "name"),
    [
        ("y = x + z[1:]", "if x.size(0) == 5:", "x = z.relu()", "z"),
        ("y = torch.cat([x, x]) + w", "for _ in range(x.size(0)):", "x = w.relu()", "w"),
    ],
)
def test_the_line_that_fixes_a_size_fixes_those_that_equal_it(
    tmp_path: Path, equal: str, line: str, reading: str, name: str
) -> None:
    """torch replaces a symbol that equals a fixed one where it is next used, which fixes nothing."""
    got = record(
        tmp_path,
        f"""
        @torch.compile
        def f(x, z, w):
            {equal}
            {line}
                y = y + 1
            {reading}
            return x + 1, y

        def main():
            for size in (4, 5):
                f(torch.ones(size), torch.ones(size + 1), torch.ones(2 * size))
        """,
    )
    symbols = {symbol.source: symbol for symbol in got.parts.compiles[1].symbols}
    equals = symbols[f"{name}.size(0)"]
    assert equals.specialized_to is not None
    assert equals.stack[-1].line == got.line(line)


REFUSALS = (
    (
        "generator",
        "@torch.compile\ndef f(x):\n    yield x + 1\n\ndef main():\n    list(f(torch.ones(2)))\n",
        "GB0003",
    ),
    ("no_tensors", "@torch.compile\ndef f(a):\n    return a + 1\n\ndef main():\n    f(1)\n", None),
)


@pytest.mark.parametrize(("kind", "source", "gb_id"), REFUSALS, ids=[case[0] for case in REFUSALS])
def test_an_eager_frame_says_why(tmp_path: Path, kind: str, source: str, gb_id: str | None) -> None:
    got = record(tmp_path, source)
    (refused,) = got.parts.not_compiled
    assert (refused.kind.value, refused.function, refused.gb_id) == (kind, "f", gb_id)
    assert refused.location.line == got.line("def f(")
    assert refused.reason


def test_a_suppressed_compiler_error_is_reported(tmp_path: Path) -> None:
    from fuselight.capture.dynamo import Recorder  # noqa: PLC0415 - here with a backend of its own

    def broken(*_graph: object) -> object:
        raise ZeroDivisionError("in the backend")

    def f(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    torch._dynamo.reset()
    with Recorder(roots=(str(tmp_path),)) as recorder, torch._dynamo.config.patch(suppress_errors=True):
        torch.compile(f, backend=broken)(torch.ones(2))
    (refused,) = recorder.parts().not_compiled
    assert refused.kind.value == "compiler_error"
    assert refused.reason == "ZeroDivisionError: in the backend"


INDEX_ID = None if TORCH >= (2, 13) else "GB4315"  # an operator's refusal like any other, before
FAILURES = (
    ("fullgraph", "@torch.compile(fullgraph=True)", "print(1)", "user", "GB0059"),
    ("exception", "@torch.compile", "raise ValueError('no')", "user", None),
    ("exception", "@torch.compile", "x @ torch.ones(9, 9)", "user", "GB4315"),
    ("exception", "@torch.compile", "x[7]", "user", INDEX_ID),
)


@pytest.mark.parametrize(
    ("kind", "decorator", "body", "culprit", "gb_id"), FAILURES, ids=[case[2] for case in FAILURES]
)
def test_a_failure_is_on_its_line(  # noqa: PLR0917 - the columns of a table
    tmp_path: Path, kind: str, decorator: str, body: str, culprit: str, gb_id: str | None
) -> None:
    got = record(
        tmp_path,
        f"""
        {decorator}
        def f(x):
            {body}
            return x + 1

        def main():
            f(torch.ones(2, 2))
        """,
    )
    assert got.failure is not None
    assert (got.failure.kind, got.failure.culprit.value, got.failure.gb_id) == (kind, culprit, gb_id)
    assert got.failure.stack[-1].line == got.line(body)
    assert got.failure.next_step
    assert "\n" not in got.failure.message


def test_a_capture_keeps_the_options_that_affect_graphs(tmp_path: Path) -> None:
    got = record(
        tmp_path,
        """
        @torch.compile(backend="inductor", mode="max-autotune", dynamic=True)
        def f(x):
            return x + 1

        class Net(nn.Module):
            def forward(self, x):
                return x * 2

        net = Net()
        net.compile(backend="aot_eager")
        off = torch.compile(lambda x: x, disable=True)

        def main():
            f(torch.ones(3))
            net(torch.ones(3, 2))
            off(torch.ones(2))
        """,
    )
    calls = got.compile_calls.calls
    assert [(call.backend, call.mode, call.dynamic, call.disable) for call in calls] == [
        ("inductor", "max-autotune", True, False),
        ("aot_eager", None, None, False),
        (None, None, None, True),
    ]
    assert calls[0].location is not None
    assert calls[0].location.line == got.line("@torch.compile(")
    assert [compile_record.outcome.value for compile_record in got.parts.compiles] == ["compiled", "compiled"]
    assert got.parts.compiles[0].symbols[0].marked


def test_modules_that_their_own_compile_does_not_compile_are_those_of_torch(tmp_path: Path) -> None:
    """torch.compile compiles them: `nn.Module.compile` alone has no effect."""
    got = record(
        tmp_path,
        """
        class Net(nn.Module):
            def forward(self, x):
                return x + 1

        own, inherited, net = nn.Linear(3, 3), type("Stack", (nn.Sequential,), {})(nn.Linear(3, 3)), Net()
        own.compile()
        inherited.compile()  # inherited
        net.compile()
        result = torch.compile(nn.Linear(3, 3))

        def main():
            for module in (own, inherited, net, result):
                module(torch.ones(2, 3))
        """,
    )
    own = [(name, line.line) for name, line in got.compile_calls.own_modules]
    compiled = {got.parts.frames[item.frame].function for item in got.parts.compiles}
    if TORCH >= (2, 14):
        assert (own, compiled) == ([], {"Net.forward", "Linear", "Module._call_impl"})
    else:
        assert own == [("Linear", got.line("own.compile()")), ("Stack", got.line("# inherited"))]
        assert compiled == {"Net.forward", "Linear"}


@pytest.mark.parametrize(
    ("line", "value"), [("y = x + self.table", 6), ("y = x[:, :6] if x.shape[1] == 6 else x", 6)]
)
def test_a_dimension_that_an_export_fixes_is_on_the_line_that_fixes_it(
    tmp_path: Path, line: str, value: int
) -> None:
    got = record(
        tmp_path,
        f"""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("table", torch.ones({value}))

            def forward(self, x):
                x = x * 2
                {line}
                return y.relu()

        def main():
            length = torch.export.Dim("length", min=2, max=64)
            torch.export.export(Net(), (torch.ones(2, {value}),), dynamic_shapes=({{1: length}},))
        """,
    )
    assert got.failure is not None
    assert got.failure.message.endswith(f"a constant ({value})")
    assert [place.line for place in got.failure.stack[-2:]] == [
        got.line("torch.export.export"),
        got.line(line),
    ]
