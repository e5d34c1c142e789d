"""Facts of expressions: each belongs to an expression of the source, and states what Dynamo saw of it."""

from __future__ import annotations

import ast
import io
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from fuselight.capture.dynamo import Recorder, capture_only
from fuselight.shared.report import Fact, FactKind, FileFacts, TracedFacts, TracedValue
from fuselight.shared.report.facts import MAX_VALUES
from tests.support.recording import PRELUDE

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(sys.version_info < (3, 11), reason="code has no columns before Python 3.11"),
]


class Run:
    """The facts of one snippet, found by the text of their expressions."""

    def __init__(self, folder: Path, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.text = PRELUDE + textwrap.dedent(source)
        path = folder / "snippet.py"
        path.write_text(self.text, encoding="utf-8")
        names: dict[str, object] = {"__name__": "snippet"}
        torch._dynamo.reset()
        monkeypatch.setattr(sys, "stdout", io.StringIO())
        with capture_only(), Recorder(roots=(str(folder),), facts=True) as recorder:
            exec(compile(self.text, str(path), "exec"), names)  # noqa: S102 - the snippet of this test
        self.facts: TracedFacts = recorder.facts()
        self.file = self.facts.files.get(str(path), FileFacts())
        parts = recorder.parts()
        self.problems = parts.problems
        self.guarded = [guard.source for compiled in parts.compiles for guard in compiled.guards]

    def source(self, fact: Fact) -> str:
        line = self.text.splitlines()[fact.line - 1].encode()
        return line[fact.column : fact.end_column].decode()

    def values(self, text: str, *, assigned: bool = False) -> list[tuple[TracedValue, int]]:
        """The values of the only expression, or assigned name, with this text."""
        facts = [fact for fact in self.file.facts if self.source(fact) == text and fact.assigned is assigned]
        assert len(facts) == 1, (text, [self.source(fact) for fact in self.file.facts])
        return [(self.facts.values[index], count) for index, count in facts[0].values]

    def fact(self, text: str, *, assigned: bool = False) -> str:
        ((value, _),) = self.values(text, assigned=assigned)
        return value.text

    def line(self, text: str) -> int:
        return next(number for number, line in enumerate(self.text.splitlines(), 1) if text in line)


LAYERS = """
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.proj = nn.Linear(8, 8)
            self.scale = 3
        def forward(self, x):
            y = self.proj(x) * self.scale
            pair = (y, y.mT)
            if self.training and y.size(0) > 1000:
                y = y * 2
                y = y + 1
            return y.sin() if self.scale else y.cos()
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(Layer() for _ in range(4))
        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            print("half")
            with torch.no_grad():
                z = x.detach().t()
            z += 1
            return z
    torch.compile(Net().eval().requires_grad_(False))(torch.randn(2, 8))
"""


def test_layers_that_share_their_values_are_one_fact_with_a_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, LAYERS, monkeypatch)
    tensor = TracedValue(FactKind.TENSOR, "f32[2, 8]", "cpu", "contiguous", requires_grad=False)
    assert run.values("self.proj(x)") == [(tensor, 4)]
    assert run.values("y", assigned=True)[0] == (tensor, 4)
    assert run.fact("layer", assigned=True) == "Layer"
    assert run.fact("pair", assigned=True) == "tuple of 2: f32[2, 8], f32[8, 2]"
    assert run.values("self.training") == [(TracedValue(FactKind.CONSTANT, "False"), 4)]
    assert not run.problems


def test_code_after_a_graph_break_has_its_own_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(tmp_path, LAYERS, monkeypatch)
    ((value, count),) = run.values("x.detach().t()")
    assert (value.text, value.strides, value.requires_grad, count) == ("f32[8, 2]", "strided", False, 1)
    fact = next(fact for fact in run.file.facts if run.source(fact) == "x.detach().t()")
    assert fact.line == run.line("x.detach().t()")


def test_every_fact_is_of_an_expression_of_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, LAYERS, monkeypatch)
    spans = {
        (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
        for node in ast.walk(ast.parse(run.text))
        if isinstance(node, ast.expr)
    }
    assert run.file.facts
    for fact in run.file.facts:
        assert (fact.line, fact.column, fact.end_line, fact.end_column) in spans, run.source(fact)


def test_branches_and_lines_that_no_trace_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(tmp_path, LAYERS, monkeypatch)
    first = run.line("y = y * 2")
    assert run.file.untraced == ((first, first + 1),)
    sides = {(branch.line, branch.true, branch.false) for branch in run.file.branches}
    assert (run.line("self.training and"), 0, 4) in sides
    assert (run.line("y.sin() if"), 4, 0) in sides


COMPUTED = """
    class Config:
        plain = 3
        def __init__(self):
            self.depth = 2
        @property
        def flag(self):
            return self.depth > 1
        def __getattr__(self, name):
            if name != "missing":
                raise AttributeError(name)
            return 4
        def __eq__(self, other):
            return self.depth == other
        def __getitem__(self, index):
            return index + 1
        def method(self):
            return 1
    class Shifted:
        def __get__(self, owner, kind):
            return 5
    class Net(nn.Module):
        shifted = Shifted()
        def __init__(self):
            super().__init__()
            self.config = Config()
            self.weight = nn.Parameter(torch.ones(4))
        def forward(self, x):
            a = x * self.config.plain + self.config.depth + self.weight
            a = a * self.config.missing + self.shifted
            if self.config.flag and self.config == 2:
                a = a + self.config[2] + self.config.method()
            return a
    torch.compile(Net())(torch.randn(4))
"""


def test_attributes_and_operators_that_run_code_are_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, COMPUTED, monkeypatch)
    texts = {run.text.splitlines()[row - 1][first:last] for row, first, _, last in run.file.computed}
    assert texts == {
        "self.config.missing",
        "self.config.flag",
        "self.shifted",
        "self.config == 2",
        "self.config[2]",
    }
    assert {run.source(fact) for fact in run.file.facts} >= {"self.config.plain", "self.config.depth"}


def test_a_symbolic_size_has_its_symbol_and_no_strides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(
        tmp_path,
        """
        @torch.compile(dynamic=True)
        def scaled(x):
            n = x.size(0)
            return (x * 2) / n
        scaled(torch.randn(6, 8))
        """,
        monkeypatch,
    )
    ((value, _),) = run.values("x.size(0)")
    assert value.kind is FactKind.NUMBER
    symbol = value.text
    assert not symbol.isdigit()
    ((name, _),) = run.values("n", assigned=True)
    assert name == value
    product = next(fact for fact in run.file.facts if run.source(fact) in ("x * 2", "(x * 2)"))
    tensor = run.facts.values[product.values[0][0]]
    assert symbol in tensor.text
    assert tensor.strides is None


def test_a_restart_does_not_count_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(
        tmp_path,
        """
        @torch.compile
        def broken(x):
            y = x + 1
            torch._dynamo.graph_break()
            return y * 2
        broken(torch.randn(4))
        """,
        monkeypatch,
    )
    assert [count for _, count in run.values("x + 1")] == [1]
    assert [count for _, count in run.values("y * 2")] == [1]


def test_many_values_of_one_expression_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(
        tmp_path,
        f"""
        @torch.compile
        def grows(x):
            for n in range({MAX_VALUES + 5}):
                x = torch.cat((x, x[:1]))
            return x
        grows(torch.randn(3, 2))
        """,
        monkeypatch,
    )
    fact = next(fact for fact in run.file.facts if fact.assigned and run.source(fact) == "x")
    assert len(fact.values) == MAX_VALUES
    assert fact.omitted == 5


def test_a_value_that_nothing_uses_is_read_without_a_guard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.unused = torch.zeros(3)
            def forward(self, x):
                kept = self.unused
                return x + 1
        torch.compile(Net())(torch.randn(4))
    """
    run = Run(tmp_path, source, monkeypatch)
    assert run.fact("kept", assigned=True) == "f32[3]"
    assert not [source for source in run.guarded if "unused" in source]


def test_tensors_of_the_side_that_was_not_taken_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = """
        def pick(x, low, high, flag, plain):
            kept = flag["kept"]
            if x.sum() > 0:
                x = high
            else:
                low = low * 2
                x = kept
            plain = plain + 1
            return x, low, plain
        torch.compile(pick)(-torch.ones(3), torch.ones(2), torch.ones(5).long(), {"kept": torch.ones(7)}, 1)
    """
    run = Run(tmp_path, source, monkeypatch)
    assert run.fact("high") == "i64[5]"
    assert run.fact("kept", assigned=True) == "f32[7]"
    # A name to which the code assigns is another value later.
    later = {
        run.source(fact)
        for fact in run.file.facts
        if fact.line >= run.line("low = low * 2") and not fact.assigned
    }
    assert "low * 2" in later or "low" not in later
    assert not [source for source in run.guarded if "high" in source]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_nested_tensor_that_nothing_uses_has_no_fact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = """
        def keep(x, nested):
            kept = nested
            return x + 1
        torch.compile(keep)(torch.ones(3), torch.nested.nested_tensor([torch.ones(1), torch.ones(2)]))
    """
    run = Run(tmp_path, source, monkeypatch)
    assert not [fact for fact in run.file.facts if run.source(fact) == "kept"]
    assert run.problems == ()


def test_files_outside_the_workspace_have_no_facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(tmp_path, LAYERS, monkeypatch)
    assert list(run.facts.files) == [str(tmp_path / "snippet.py")]


STORED = """
    class Scale:
        halves = 0.5
        def __init__(self, by, name):
            self.by, self.name, self.weight = by, name, torch.ones(2)
            self.count = 0
        @property
        def twice(self):
            return 2 * self.by
        def __call__(self, values):
            self.count += 1
            for index in range(2):
                value = values[index]
                values[index] = value / self.by if value > 0 else value * self.twice
                values[index] += self.weight.sum() + len(self.name) + self.halves + self.count
            return values
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.rate = 3
        def forward(self, x):
            if x.sum() > 0:
                return x * self.rate
            return x
    scale = Scale(1.5, "log")
    torch.compile(lambda x: scale(x))(torch.ones(2))
    torch.compile(Layer())(-torch.ones(2))
"""


def test_what_an_object_stores_is_known_after_the_break(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, STORED, monkeypatch)
    by = [
        fact for fact in run.file.facts if run.source(fact) == "self.by" and fact.line > run.line("__call__")
    ]
    assert [run.facts.values[index].text for fact in by for index, _ in fact.values] == ["1.5"]
    assert run.fact("self.rate") == "3"
    sources = {run.source(fact) for fact in run.file.facts if fact.line > run.line("for index")}
    # What a class computes, text, and what the function itself changes.
    assert sources.isdisjoint({"self.twice", "self.name", "self.halves", "self.count"})
    assert run.fact("self.weight") == "f32[2]"
    assert run.problems == ()
