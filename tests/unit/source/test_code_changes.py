"""Which functions can be traced again after an edit, and what needs a run."""

from __future__ import annotations

import ast
import random

import pytest

from fuselight_server.source.code_changes import code_changes
from fuselight_server.source.code_parts import UnreadableError

MODEL = '''\
"""A model."""

import torch
from torch import nn

SCALE = 2.0


def helper(x):
    return x * SCALE


def make():
    def inner(x):
        return x + 1

    return inner


class Net(nn.Module):
    """Text."""

    width = 8

    def __init__(self, layers=2):
        super().__init__()
        size = 4 * layers
        self.first = nn.Linear(size, size)
        self.second = nn.Linear(8, 8)
        self.register_buffer("mask", torch.ones(8))

    def forward(self, x):
        x = self.first(x)
        return helper(x)

    def other(self, x):
        return self.second(x) + self.width

    def masked(self, x):
        return x * self.mask


if __name__ == "__main__":
    print(Net()(torch.ones(8)))
'''
TRACED = ("helper", "make.<locals>.inner", "Net.forward", "Net.other", "Net.masked")


def changed(
    *edits: tuple[str, str], text: str = MODEL, traced: tuple[str, ...] = TRACED
) -> tuple[list[str], list[str]]:
    """Names of the functions that can be traced again, and the words of what cannot."""
    now = text
    for old, new in edits:
        assert now.count(old) == 1, old
        now = now.replace(old, new)
    changes = code_changes(text.encode(), now.encode(), traced)
    return [function.name for function in changes.functions], [str(change) for change in changes.deferred]


def test_the_changed_function_can_be_traced_again() -> None:
    assert changed(("x = self.first(x)", "x = self.first(x)\n        print(x)")) == (["Net.forward"], [])
    changes = code_changes(MODEL.encode(), MODEL.replace("return helper(x)", "return x").encode(), TRACED)
    (function,) = changes.functions
    lines = MODEL.split("\n")
    assert lines[function.first - 1] == "    def forward(self, x):"
    assert lines[function.last - 1] == "        return helper(x)"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""Text."""', '"""Other text."""'),
        ("        x = self.first(x)", "        # a comment\n\n        x = self.first( x )"),
        ("def helper(x):", "def helper(x: torch.Tensor) -> torch.Tensor:"),
        ("def forward(self, x):", 'def forward(self, x):\n        """It has a docstring now."""'),
    ],
)
def test_what_changes_no_code_changes_nothing(old: str, new: str) -> None:
    assert changed((old, new)) == ([], [])


def test_lines_that_move_are_no_change() -> None:
    moved = "# first\n\n\n" + MODEL.replace("SCALE = 2.0\n", "SCALE = 2.0\n\n# more\n")
    assert not code_changes(MODEL.encode(), moved.replace("\n", "\r\n").encode(), TRACED)


@pytest.mark.parametrize(
    ("old", "new", "functions", "deferred"),
    [
        ("def helper(x):", "def helper(x, y=1):", [], ["helper: its signature has changed"]),
        ("def helper(x):", "@torch.compile\ndef helper(x):", [], ["helper: its decorators have changed"]),
        ("def helper(x):", "async def helper(x):", [], ["helper: its signature has changed"]),
        ("def helper(x):", "def renamed(x):", [], ["helper: it was renamed or removed"]),
        ("SCALE = 2.0", "SCALE = 3.0", [], ["code of the module has changed"]),
        ("import torch\n", "import math\nimport torch\n", [], ["an import has changed"]),
        ("print(Net()", "print(1, Net()", [], ["the `__main__` block has changed"]),
        ("class Net(nn.Module)", "class Net(Base)", [], ["Net: its bases or decorators have changed"]),
        ("    width = 8", "    width = 9", [], ["Net: code of the class has changed"]),
        ("nn.Linear(8, 8)", "nn.Linear(8, 9)", [], ["Net.__init__: it has changed"]),
        ("return x + 1", "return x + 2", ["make.<locals>.inner"], []),
        (
            "    return inner",
            "    return inner if x else None",
            [],
            ["make: it was not traced in the last run"],
        ),
    ],
)  # fmt: skip
def test_other_changes_are_named(old: str, new: str, functions: list[str], deferred: list[str]) -> None:
    assert changed((old, new)) == (functions, deferred)


EDIT = ("x = self.first(x)", "x = self.first(x) + 1")


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (("SCALE = 2.0", "SCALE = 3.0"), ""),
        (("import torch\n", "import math\nimport torch\n"), ""),
        (("def helper(x):", "def helper(x, y=1):"), "it uses `helper`, which needs a run"),
        (("def helper(x):", "def gone(x):"), "it uses `helper`, which is gone"),
        (("SCALE = 2.0", "SCALE = 2.0\ntorch.manual_seed(0)"), "code of the module has changed"),
        (("import torch\n", "from torch import *\nimport torch\n"), "an import has changed"),
        (("class Net(nn.Module)", "class Net(Base)"), "its bases or decorators have changed"),
        (("    width = 8", "    width = 9"), ""),
        (("nn.Linear(size, size)", "nn.Linear(8, 8)"), "it uses `first`, which `Net.__init__` sets differently"),
        (("nn.Linear(8, 8)", "nn.Linear(8, 9)"), ""),
        (("size = 4 * layers", "size = 5 * layers"), "it uses `first`, which `Net.__init__` sets differently"),
        (("layers=2", "layers=3"), "it uses `first`, which `Net.__init__` sets differently"),
        (("torch.ones(8))\n\n    def f", "torch.zeros(8))\n\n    def f"), ""),
        (("        size = 4", "        setup(self)\n        size = 4"), "`__init__` has changed"),
        (
            ("        size = 4", "        for i in range(3):\n            self.add(i)\n        size = 4"),
            "`__init__` has changed",
        ),
    ],
)  # fmt: skip
def test_a_function_that_reads_what_changed_needs_a_run(other: tuple[str, str], why: str) -> None:
    functions, deferred = changed(EDIT, other)
    assert functions == ([] if why else ["Net.forward"])
    assert (f"Net.forward: {why}" in deferred) == bool(why)


def test_what_needs_a_run_is_passed_on() -> None:
    first = ("def helper(x):", "def helper(x, y=1):")
    text = MODEL.replace("return self.second(x)", "return self.forward(x) + self.second(x)")
    second = ("+ self.width", "- self.width")
    functions, deferred = changed(first, EDIT, second, text=text)
    assert functions == []
    assert "Net.other: it uses `forward`, which needs a run" in deferred


def test_an_outer_function_is_traced_again_where_it_was_traced() -> None:
    functions, deferred = changed(("return x + 1", "return x + 2"), traced=(*TRACED, "make"))
    assert (sorted(functions), deferred) == (["make", "make.<locals>.inner"], [])
    both = (("return x + 1", "return x + 2"), ("    return inner", "    return inner if x else None"))
    assert changed(*both) == (
        [],
        [
            "make: it was not traced in the last run",
            "make.<locals>.inner: the function around it needs a run",
        ],
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    return inner", "    def more(x):\n        return x\n\n    return more(inner)"),
        ("def inner(x):", "def inner(x, scale=2):"),
        ("    def inner(x):\n        return x + 1\n\n    return inner", "    return abs"),
        ("    def inner(x):\n        return x + 1\n\n    return inner", "    def add(x): return x\n\n    return add"),
    ],
    ids=("new", "signature", "gone", "renamed"),
)  # fmt: skip
def test_a_function_inside_a_traced_one_is_defined_again_with_it(old: str, new: str) -> None:
    for traced in ((*TRACED, "make"), ("make",)):
        assert changed((old, new), traced=traced) == (["make"], [])


def test_a_new_function_matters_where_it_is_used() -> None:
    added = MODEL.replace("def make():", "def more(x):\n    return x\n\n\ndef make():").encode()
    assert not code_changes(MODEL.encode(), added, TRACED)
    used = added.replace(b"return helper(x)", b"return more(x)")
    changes = code_changes(MODEL.encode(), used, TRACED)
    assert [str(change) for change in changes.deferred] == ["Net.forward: it uses `more`, which needs a run"]


def test_a_name_that_is_defined_twice_needs_a_run() -> None:
    text = MODEL.replace("class Net", "def helper(x):\n    return x\n\n\nclass Net")
    assert changed(("return x * SCALE", "return x"), text=text) == (
        [],
        ["helper: it is defined more than once"],
    )


@pytest.mark.parametrize(
    "now", ["def f(", "def f(x):\n", "class A:\n    def f(self):\n  return", "x = '", "\x00"]
)
def test_a_text_that_does_not_parse_is_unreadable(now: str) -> None:
    with pytest.raises(UnreadableError):
        code_changes(MODEL.encode(), (MODEL + now).encode(), TRACED)


def test_an_operator_at_the_start_of_a_line_continues_its_statement() -> None:
    ran = MODEL + "weights = (helper\n@B\n@C)\n\n\n@B\ndef last(x):\n    return x\n"
    now = ran.replace("@C)", "@D)").replace("return x\n", "return -x\n")
    changes = code_changes(ran.encode(), now.encode(), {*TRACED, "last"})
    assert [function.name for function in changes.functions] == ["last"]
    assert [str(change) for change in changes.deferred] == ["code of the module has changed"]


def test_half_typed_code_costs_its_own_statement_only(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    parse = ast.parse

    def counted(text: str) -> ast.Module:
        parsed.append(text.strip())
        return parse(text)

    monkeypatch.setattr(ast, "parse", counted)
    with pytest.raises(UnreadableError):
        code_changes(MODEL.encode(), MODEL.replace("return x * SCALE", "return (x *").encode(), TRACED)
    assert parsed == ["def helper(x):\n    return (x *"]


@pytest.mark.parametrize("cookie", ["# -*- coding: latin-1 -*-\n", "\ufeff"])
def test_a_declared_encoding_is_that_of_the_file(cookie: str) -> None:
    ran = cookie + MODEL + "NAME = 'é'\n"
    now = ran.replace("return x * SCALE", "return x")
    changes = code_changes(ran.encode(), now.encode(), TRACED)
    assert [function.name for function in changes.functions] == ["helper"]


def test_random_edits_of_one_function_list_that_function() -> None:
    chance = random.Random(7)  # noqa: S311 - nothing is kept secret
    bodies = [
        "x = x + 1",
        "print(x)",
        "x = self.first(x)",
        "if x.sum() > 0:\n            x = -x",
        "# nothing",
        "",
    ]
    for _ in range(100):
        body = chance.choices(bodies, k=3)
        now = MODEL.replace("        x = self.first(x)\n", "".join(f"        {text}\n" for text in body))
        changes = code_changes(MODEL.encode(), now.encode(), TRACED)
        same = [text for text in body if text not in {"", "# nothing"}] == ["x = self.first(x)"]
        assert [function.name for function in changes.functions] == ([] if same else ["Net.forward"])
        assert not changes.deferred
