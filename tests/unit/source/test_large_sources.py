"""Reading takes time in proportion to the text, whatever it contains.

Work is counted in calls of Python functions, which a loaded machine does not change.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from tree_sitter import Parser

from fuselight_server.source import comments, syntax
from fuselight_server.source.document import read_source


def calls_to_read(text: str) -> int:
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    comments._parsed.cache_clear()
    sys.setprofile(note)
    try:
        read_source("m.py", text)
    finally:
        sys.setprofile(None)
    return count


def above_assignments(n: int) -> str:
    return "".join(f"# fuselight: g{i}(f32[{i}])\ng{i} = h(x)\n" for i in range(n))


def inside_a_function(n: int) -> str:
    return "def f(x):\n" + "".join(f"    # fuselight: g{i}(f32[2])\n    g{i} = h(x)\n" for i in range(n))


def far_from_one_target(n: int) -> str:
    return "def f(x): return x\n" + "x = 1\n# fuselight: f(f32[2])\n\n" * n


def chained_classes(n: int) -> str:
    text = "from torch import nn\nclass C0(nn.Module):\n    def forward(self, x): return x\n"
    return text + "".join(f"class C{i + 1}(C{i}): ...\n" for i in range(n))


def chained_classes_from_the_last(n: int) -> str:
    return "".join(f"class C{i}(C{i + 1}): ...\n" for i in range(n)) + f"class C{n}(Elsewhere): ...\n"


@pytest.mark.parametrize(
    "text",
    [
        above_assignments,
        inside_a_function,
        far_from_one_target,
        chained_classes,
        chained_classes_from_the_last,
    ],
)
def test_four_times_the_text_is_four_times_the_work(text: Callable[[int], str]) -> None:
    assert calls_to_read(text(400)) < 5 * calls_to_read(text(100))


@pytest.mark.slow
def test_2000_chained_classes_do_not_recurse() -> None:
    reading = read_source("m.py", chained_classes(2_000))
    assert len(reading.targets) == 2_001
    assert {target.parameters for target in reading.targets} == {("x",)}
    assert read_source("m.py", chained_classes_from_the_last(2_000)).targets == ()


def test_classes_that_derive_from_each_other_end() -> None:
    text = "class A(B): ...\nclass B(A):\n    def forward(self, x): ...\nclass C(C): ...\n"
    assert read_source("m.py", text).targets == ()


COMMENTS = "x = 1\n" + "# c\n" * 20_000


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The texts that tree-sitter gets: it reads a run of comments, or of backslashes, once for each line of the run."""
    texts: list[bytes] = []

    class RecordingParser:
        def __init__(self, language: Any) -> None:
            self._parser = Parser(language)

        def parse(self, source: Any, *arguments: Any, **options: Any) -> Any:
            texts.extend([source] if isinstance(source, bytes) else [])
            return self._parser.parse(source, *arguments, **options)

    monkeypatch.setattr(syntax, "Parser", RecordingParser)
    return texts


@pytest.mark.parametrize(
    "text",
    [
        COMMENTS,
        COMMENTS.replace("\n", "\n\n"),
        COMMENTS.replace("\n", "\r\n"),
        "def f(x):\n    return x\n" + COMMENTS,
    ],
)
def test_20000_comments_are_not_parsed(text: str, parsed: list[bytes]) -> None:
    reading = read_source("m.py", text + "# fuselight: g(f32[2])\ndef g(x): return x\n")
    assert max(text.count(b"#") for text in parsed) in range(1, 200)
    assert [target.name for target in reading.targets if target.directives] == ["g"]


@pytest.mark.parametrize(("quote", "end"), [('"""', '# """'), ("'''", "# '''"), ("'", "# \\\n# '")])
def test_strings_before_many_comments_end_where_they_end(quote: str, end: str) -> None:
    lines = "# c\n" * 100 if len(quote) == 3 else "# c \\\n" * 100
    text = f"x = {quote}\\\n{lines}{end}\n" + "# c\n" * 100 + "def g(x): return x\n"
    compile(text, "m.py", "exec")
    assert [target.name for target in read_source("m.py", text).targets] == ["g"]


@pytest.mark.parametrize("text", ["\\\n" * 50_000, "def f(x):\n" + "    \\\n" * 50_000 + "    return x\n"])
def test_50000_lines_with_only_a_backslash_are_not_parsed(text: str, parsed: list[bytes]) -> None:
    reading = read_source("m.py", text)
    assert parsed
    assert max(text.count(b"\\") for text in parsed) < 200
    assert [target.name for target in reading.targets] == (["f"] if "def" in text else [])


@pytest.mark.timeout(60)
def test_63_comments_with_windows_line_ends_are_read() -> None:
    """One less than are blanked: a pattern that can match each line in two ways tries 2 to the power of 63 matches."""
    text = "# a comment\r\n" * 63 + "# fuselight: f(f32[2])\r\ndef f(x):\r\n    return x\r\n"
    assert [target.name for target in read_source("m.py", text).targets if target.directives] == ["f"]
