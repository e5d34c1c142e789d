"""Half-typed code: existing definitions stay, and removed ones disappear."""

from __future__ import annotations

import pytest

from fuselight_server.source.document import SourceDocument

SOURCE = """\
import torch


# fuselight: f(f32[4, 8])
@torch.compile
def f(x):
    return x * 2


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, x):
        return self.layer(x)


net = torch.compile(Net())
"""
THERE = [("f", 6, 4), ("Net", 10, None), ("net", 19, None)]
HALF_TYPED = [
    ("return x * 2", "return x * "),
    ("return x * 2", "return g(x"),
    ("return x * 2", '"""'),
    ("return x * 2", "y = 'abc"),
    ("return x * 2", "if x.sum() > 0:"),
    ("def f(x):", "def f(x"),
    ("def f(x):", "def f("),
    ("def f(x):", "def "),
    ("@torch.compile", "@torch."),
    ("@torch.compile", "@torch.compile("),
    ("@torch.compile", '@torch.compile(mode="'),
    ("super().__init__()", "super().__init__("),
    ("class Net(torch.nn.Module):", "class Net("),
    ("torch.compile(Net())", "torch.compile(Net("),
    ("import torch", "import torch as "),
    ("import torch", "from torch import"),
]


def changed(document: SourceDocument, old: str, new: str) -> None:
    """Replace the first `old` with `new`, as one edit."""
    data, part = document.text.encode(), old.encode()
    start = data.index(part)

    def at(byte: int) -> tuple[int, int]:
        before = data[:byte]
        return before.count(b"\n") + 1, byte - (before.rfind(b"\n") + 1)

    document.edit(at(start), at(start + len(part)), new)


def targets(document: SourceDocument) -> list[tuple[str, int, int | None]]:
    """Name, line and line of the first directive of each target."""
    return [
        (target.name, target.def_line, target.directives[0].line if target.directives else None)
        for target in document.reading().targets
    ]


@pytest.mark.parametrize(("old", "new"), HALF_TYPED)
def test_targets_stay_while_a_statement_is_half_typed(old: str, new: str) -> None:
    document = SourceDocument("m.py", SOURCE)
    assert targets(document) == THERE
    before = {target.name: target.compiled for target in document.reading().targets}
    changed(document, old, new)
    assert document.reading().syntax_error is not None, "the test needs code that does not parse"
    assert targets(document) == THERE
    assert {target.name: target.compiled for target in document.reading().targets} == before
    changed(document, new, old)
    assert document.reading().syntax_error is None
    assert targets(document) == THERE


def test_findings_move_with_further_edits() -> None:
    document = SourceDocument("m.py", SOURCE)
    document.reading()
    changed(document, "def f(x):", "def f(x")
    document.reading()
    changed(document, "import torch\n", "import torch\nimport os\n\n")
    assert targets(document) == [("f", 8, 6), ("Net", 12, None), ("net", 21, None)]


def test_a_deleted_definition_is_gone_while_another_is_half_typed() -> None:
    document = SourceDocument("m.py", SOURCE)
    document.reading()
    changed(document, "return self.layer(x)", "return self.layer(")
    changed(document, "# fuselight: f(f32[4, 8])\n@torch.compile\ndef f(x):\n    return x * 2\n", "")
    assert [name for name, _, _ in targets(document)] == ["Net", "net"]


def test_a_new_definition_shows_while_another_is_half_typed() -> None:
    document = SourceDocument("m.py", SOURCE)
    document.reading()
    changed(document, "return self.layer(x)", "return self.layer(")
    changed(document, "# fuselight", "def g(y):\n    return y\n\n\n# fuselight")
    assert [name for name, _, _ in targets(document)] == ["g", "f", "Net", "net"]


def test_text_that_replaces_everything_keeps_nothing() -> None:
    document = SourceDocument("m.py", SOURCE)
    document.reading()
    changed(document, SOURCE, "def other(\n")
    assert targets(document) == []
    document.become("def f(")
    assert targets(document) == []
