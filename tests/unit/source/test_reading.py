"""Facts of a Reading other than its targets: directives, ignores, errors, the main block, imports."""

from __future__ import annotations

import textwrap

import pytest

from fuselight_server.source.document import read_source
from fuselight_server.source.reading import Reading


def read(source: str) -> Reading:
    return read_source("m.py", textwrap.dedent(source))


def owned(reading: Reading) -> dict[str, list[str]]:
    return {
        target.name: [d.text for d in target.directives] for target in reading.targets if target.directives
    }


def test_directives_belong_to_the_definition_below() -> None:
    reading = read("""
        import torch
        # fuselight: Net()(f32[4])
        # anything else
        # fuselight: Net()(f32[7])
        @torch.no_grad()
        class Net(torch.nn.Module):
            # fuselight: Net().step(f32[4])
            def step(self, x): ...
            def other(self, x): ...

        @torch.compile
        # fuselight: f(f32[2])
        def f(x): ...

        if f:
            #   fuselight:   g(1)
            g = torch.compile(f)
    """)
    assert owned(reading) == {
        "Net": ["Net()(f32[4])", "Net()(f32[7])"],
        "Net.step": ["Net().step(f32[4])"],
        "f": ["f(f32[2])"],
        "g": ["g(1)"],
    }
    assert reading.directive_problems == ()


def test_a_directive_says_where_its_text_starts() -> None:
    (target,) = read_source("m.py", "    # fuselight:  f(1)  \n    def f(x): ...\n").targets[:1] or [None]
    assert target is not None
    assert [(d.line, d.column, d.text) for d in target.directives] == [(1, 18, "f(1)")]


@pytest.mark.parametrize(
    ("source", "line", "marked", "message"),
    [
        ("# fuselight: f(\ndef f(): ...\n", 1, "(", "never closed"),
        ("# fuselight: f(é, f33[4])\ndef f(): ...\n", 1, None, ""),
        ("def f(): ...  # fuselight: f()\n", 1, "f()", "move it to its own line above `f` (line 1)"),
        ("def f():\n    # fuselight: f()\n    ...\n", 2, "f()", "move it to its own line above `f` (line 1)"),
        ("# fuselight: g()\n\ndef f(): ...\n", 1, "g()", "`g` is not a top-level name of this file"),
        ("# fuselight: {}()\n\ndef f(): ...\n", 1, "{}()", "it calls no name of this file"),
        (
            "x = 1  # fuselight: ignore[GB1, nonsense]\n",
            1,
            "# fuselight: ignore[GB1, nonsense]",
            "not a code: nonsense",
        ),
        ("x = 1  # fuselight: ignore[]\n", 1, "# fuselight: ignore[]", "name a code"),
        ("x = 1  # fuselight: ignore[GB1\n", 1, "# fuselight: ignore[GB1", "cannot be read"),
    ],
)
def test_problems_have_their_range(source: str, line: int, marked: str | None, message: str) -> None:
    problems = read_source("m.py", source).directive_problems
    if marked is None:
        for problem in problems:
            assert problem.span.end_column is not None
            assert problem.span.end_column <= len(source.splitlines()[0].encode())
        return
    (problem,) = problems
    text = source.splitlines()[line - 1].encode()
    assert problem.span.line == line
    assert text[problem.span.column : problem.span.end_column].decode() == marked
    assert message in problem.message


def test_a_directive_at_the_top_level_serves_the_name_that_it_calls() -> None:
    reading = read("""
        import torch
        class Net(torch.nn.Module):
            def forward(self, x): ...
        # fuselight: Net()(f32[4])

        net = Net()
        net = torch.compile(net)
        # fuselight: net(f32[2])
        print(net)
        # fuselight: net(f32[1])
        def step(x): ...
        # fuselight: Net().forward(f32[3])
    """)
    assert reading.directive_problems == ()
    assert owned(reading) == {
        "Net": ["Net()(f32[4])"],
        "Net.forward": ["Net().forward(f32[3])"],
        "net": ["net(f32[2])"],
        "step": ["net(f32[1])"],  # directly above a definition it belongs to that
    }


def test_directives_of_a_target_are_in_the_order_of_the_file() -> None:
    reading = read("""
        # fuselight: f(f32[1])

        # fuselight: f(f32[2])
        def f(x): ...

        # fuselight: f(f32[3])
    """)
    assert owned(reading) == {"f": ["f(f32[1])", "f(f32[2])", "f(f32[3])"]}


def test_ignores() -> None:
    reading = read('''
        a = 1  # fuselight: ignore[GB0170]
        b = 2  # type: ignore  # fuselight: ignore[GB0170, FL201]  # because
        c = 3  # fuselight: ignore
        d = "# fuselight: ignore[GB1]"
        e = """
        # fuselight: ignore[GB1]
        # fuselight: f(
        """
        # fuselight: ignored(1)
        def ignored(x): ...
    ''')
    assert [(i.span.line, i.span.column, i.codes) for i in reading.ignores] == [
        (2, 7, ("GB0170",)),
        (3, 23, ("GB0170", "FL201")),
        (4, 7, ()),
    ]
    assert reading.directive_problems == ()
    assert owned(reading) == {"ignored": ["ignored(1)"]}


def test_main_imports_and_provider() -> None:
    reading = read("""
        from __future__ import annotations
        import os.path as p, torch.nn
        from transformers import X
        from . import y
        from .z import w
        try:
            import numpy
        except ImportError: pass
        def f():
            import lazily
        def example_inputs(): ...

        # here
        if "__main__" == __name__:
            f()
    """)
    assert (reading.provider, reading.provider_line) == ("example_inputs", 12)
    assert reading.main_line == 15


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("def f(x):\n    return x\n", None),
        ("x = 1\ndef f(:\n    pass\n", 2),
        ("x = \n", 1),
        ("def f():\n\ny = 1\n", 2),
        ("if x:\ny = 1\n", 1),
        ("match x:\n    case {'a': 1, **rest}: pass\n", None),
        ("f'{x!r:>{width}} {'nested'}'\n", None),
        ("try: pass\nexcept* E: pass\n", None),
        ("a = \\\nb\n", None),
        ("x = (1 +\n2)\n", None),
    ],
)
def test_the_line_of_a_syntax_error(source: str, line: int | None) -> None:
    error = read_source("m.py", source).syntax_error
    assert (error and error.line) == line


@pytest.mark.parametrize(
    "above", ["# fuselight: f(f32[2])\n", "\n# fuselight: f(f32[2])\n\n", "\ufeff# fuselight: f(f32[2])\n"]
)
@pytest.mark.parametrize("decorator", ["@torch.compile\n", "@torch.compile\n# why\n@other\n"])
def test_a_decorator_below_a_comment_may_begin_the_file(above: str, decorator: str) -> None:
    reading = read_source("m.py", f"{above}{decorator}def f(x):\n    return x\ny = 1\n")
    assert reading.syntax_error is None
    assert owned(reading) == {"f": ["f(f32[2])"]}


SOURCE = """import torch
# fuselight: f(1)
@torch.compile
def f(x):
    return x
g = torch.compile(f)  # fuselight: ignore[GB1]
"""


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_line_ends_change_nothing(end: str) -> None:
    assert read_source("m.py", SOURCE.replace("\n", end)) == read_source("m.py", SOURCE)


def test_a_byte_order_mark_moves_the_first_line_only() -> None:
    plain, marked = read_source("m.py", "f = 1\n" + SOURCE), read_source("m.py", "\ufefff = 1\n" + SOURCE)
    assert plain == marked
    (target,) = read_source("m.py", "\ufeffdef f(): ...  # fuselight: ignore[GB1]\n").targets
    assert (target.name_span.column, target.span.column) == (7, 3)


@pytest.mark.parametrize("odd", ["\x0c", "\x00", "😀 = 1", "\ud800", "\t", "\\", "'''", "{[("])
def test_odd_text_never_raises(odd: str) -> None:
    reading = read_source("m.py", f"{SOURCE}{odd}\n{SOURCE}")
    assert reading.targets[0].name == "f"
