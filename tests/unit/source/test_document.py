"""Edits: the text equals the editor's, and incremental reading equals full reading."""

from __future__ import annotations

import asyncio
import dataclasses
import gc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fuselight_server.execution.runs.planning import RunOptions, default_runs
from fuselight_server.source import file_reader
from fuselight_server.source.document import SourceDocument, read_source, read_sources
from fuselight_server.source.facts import Facts
from fuselight_server.source.reading import Reading
from fuselight_server.source.syntax import read_chunk

PARTS = [
    "import torch\n",
    "import torch as t\r\n",
    "from torch import compile\n",
    "@torch.compile\n",
    "@t.compile(dynamic=True)\r\n",
    "def f(x):\n",
    "    def g(self, ü): return 1\n",
    "    return x\n",
    "class Net(torch.nn.Module):\n",
    "x = torch.compile(f)\n",
    "x.compile()\r",
    "# fuselight: f(1)\n",
    "  # fuselight: ignore[GB1]\n",
    '"""',
    "'''\n",
    "f'{a[\"b\"]}'\n",
    "(",
    ")\n",
    "[",
    "]",
    "\\\n",
    "if True:\n",
    "else:\n",
    'if __name__ == "__main__":\n',
    "    yield 1\n",
    "\n",
    "\r",
    "\r\n",
    "\ufeff",
    "😀",
    "\x00",
    "\x0c",
    "\t",
    " ",
    "é",
    "\ud800",
    ":=",
    ".",
]
TEXT = st.lists(st.sampled_from(PARTS) | st.text(max_size=3), max_size=14).map("".join)
AT = st.tuples(st.integers(0, 30), st.integers(0, 40))
EDITS = st.lists(st.tuples(AT, AT, TEXT), max_size=6)
LONG = f"  # {'-' * 400}"
"""Makes a file of 1,200 functions a large one: reading it costs a tenth of one with as much code."""


def lines_of(text: str) -> list[str]:
    """A second opinion on where lines end."""
    lines, line = [], ""
    for index, character in enumerate(text):
        line += character
        if character == "\n" or (character == "\r" and text[index + 1 : index + 2] != "\n"):
            lines.append(line)
            line = ""
    return [*lines, line]


def offset(text: str, at: tuple[int, int]) -> int:
    """Index in `text` of a 1-based line and a byte column, clamped into the text."""
    lines = lines_of(text)
    if at[0] < 1:
        return 0
    if at[0] > len(lines):
        return len(text)
    body = lines[at[0] - 1].rstrip("\r\n")
    size = column = 0
    for character in body:
        size += len(character.encode("utf-8", "surrogatepass"))
        if size > at[1]:
            break
        column += 1
    return sum(map(len, lines[: at[0] - 1])) + column


@pytest.mark.slow
@given(TEXT, EDITS)
@example("a\r", [((2, 0), (2, 0), "\n")])
@example("a\r\nb", [((1, 1), (2, 0), "\r")])
@example("", [((1, 0), (1, 0), "\r"), ((1, 0), (1, 0), "\n")])
@settings(max_examples=80, deadline=None)
def test_editing_equals_writing_immediately(
    text: str, edits: list[tuple[tuple[int, int], tuple[int, int], str]]
) -> None:
    document = SourceDocument("m.py", text)
    assert document.reading() == read_source("m.py", text)
    for start, end, new in edits:
        a = offset(text, start)
        b = max(a, offset(text, end))
        text = text[:a] + new + text[b:]
        change = document.edit(start, end, new)
        assert document.text == text
        assert document.line_count == len(lines_of(text))
        expected = read_source("m.py", text)
        if expected.syntax_error is not None:  # its targets may be from before
            expected = dataclasses.replace(expected, targets=document.reading().targets)
        assert document.reading() == expected
        lines = len(lines_of(text))
        assert all(1 <= target.span.line <= lines for target in document.reading().targets)
        assert offset(text, change.new_end) in {
            a + len(new),
            a + len(new) - 1,
        }  # inside \r\n there is no place


@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda data: data.decode("latin-1")))
@settings(max_examples=100, deadline=None)
def test_any_text_can_be_read(text: str) -> None:
    reading = read_source("m.py", text)
    count = len(lines_of(text))
    for target in reading.targets:
        assert 1 <= target.span.line <= target.name_span.line <= count


def test_lines_without_their_ends() -> None:
    document = SourceDocument("m.py", "a\r\nbü\rc\n")
    assert [document.line_bytes(n) for n in range(6)] == [b"", b"a", "bü".encode(), b"c", b"", b""]
    document.become("z")
    assert (document.text, document.line_count) == ("z", 1)


def test_a_column_inside_a_character_moves_to_its_start() -> None:
    document = SourceDocument("m.py", "é = 1")
    document.edit((1, 1), (1, 2), "e")
    assert document.text == "e = 1"


def test_one_keystroke_reads_one_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []

    def counted(data: bytes) -> Facts:
        read.append(data)
        return read_chunk(data)

    monkeypatch.setattr(file_reader, "read_chunk", counted)
    document = SourceDocument("m.py", "".join(f"def f{n}(x):\n    return x\n" for n in range(100)))
    before = document.reading()
    read.clear()
    document.edit((100, 4), (100, 4), "\n    ")
    after = document.reading()
    assert read == [b"def f49(x):\n    \n    return x\n"]
    assert [t.def_line for t in after.targets] == [
        t.def_line + (n > 49) for n, t in enumerate(before.targets)
    ]


@pytest.mark.slow
def test_a_large_file_is_read_off_the_loop_and_edits_meanwhile_count() -> None:
    text = "".join(f"def f{n}(x):\n    return [x, {n}]{LONG}\n" for n in range(1_200))

    async def scenario() -> tuple[SourceDocument, int, object]:
        document = SourceDocument("m.py", text)
        assert document.is_large
        reading = asyncio.create_task(document.read())
        turns = 0
        while not reading.done():
            await asyncio.sleep(0)
            turns += 1
            if turns == 3:
                document.edit((1, 4), (1, 6), "renamed")
        return document, turns, await reading

    document, turns, reading = asyncio.run(scenario())
    assert turns > 3
    assert reading == read_source("m.py", document.text)
    assert document.reading() is reading


def test_two_readers_share_one_reading() -> None:
    text = "".join(f"def f{n}(x):\n    return [x, {n}]{LONG}\n" for n in range(1_200))

    async def scenario() -> list[object]:
        document = SourceDocument("m.py", text)
        return list(await asyncio.gather(document.read(), document.read(), document.read()))

    first, second, third = asyncio.run(scenario())
    assert first is second is third


@pytest.mark.slow
def test_objects_frozen_out_of_garbage_collection_do_not_accumulate() -> None:
    text = "".join(f"@torch.compile\ndef f{n}(x):\n    return [x, {n}]{LONG}\n" for n in range(1_200))

    before = gc.get_freeze_count()

    async def scenario() -> list[int]:
        document = SourceDocument("m.py", "import torch\n" + text)
        await document.read()
        frozen = []
        for number in range(12):
            document.edit((2, 0), (2, 0), f"# {number}\n")  # every target moves and is made again
            await document.read()
            frozen.append(gc.get_freeze_count() - before)
        return frozen

    frozen = asyncio.run(scenario())
    assert gc.isenabled()
    assert frozen[2] > 10_000, "the test has to freeze something"
    assert frozen[-1] - frozen[2] < 5_000, frozen


@given(TEXT, TEXT)
def test_becoming_a_text_equals_writing_it(old: str, new: str) -> None:
    document = SourceDocument("model.py", old)
    changes = document.become(new)
    assert document.text == new
    assert bool(changes) == (old != new)


@given(TEXT, AT, AT, TEXT)
def test_replacing_a_part_equals_writing_it(
    text: str, start: tuple[int, int], end: tuple[int, int], new: str
) -> None:
    document = SourceDocument("model.py", text)
    a = offset(text, start)
    b = max(a, offset(text, end))
    document.replace(start, end, new)
    assert document.text == text[:a] + new + text[b:]
    assert document.line_count == len(lines_of(document.text))


def test_restoring_the_text_moves_lines_below_back() -> None:
    """Three deleted lines move the following lines up by three."""
    text = "import torch\n\nx = 1\ny = 2\n"
    document = SourceDocument("model.py", text)
    document.edit((2, 0), (2, 0), "# a\n# b\n# c\n")
    (change,) = document.become(text)
    assert change.start[0] == 2
    assert change.end[0] - change.new_end[0] == 3


PLAIN = {
    "plain": "import os\n\nclass Net:\n    def forward(self, x):\n        return x\n",
    "module": "from torch import nn\n\nclass Net(nn.Module):\n    def forward(self, x):\n        return x\n",
    "main": "def run(): ...\n\nif __name__ == '__main__':\n    run()\n",
    "empty": "",
    "no end": "def run(x):\n    return (x",
    "no body": "def run(x):\n\nvalue = 1\n",
    "old print": "print 'text'\n",
    "stray": "x = = 1\ndef run():\n    pass\n",
    "open string": "text = '''abc\ndef run():\n    pass\n",
}
"""Texts that can have no target, some of which Python rejects."""
MARKED = {
    "compiled": "import torch\n\n@torch.compile\ndef run(x):\n    return x\n",
    "directive": "# fuselight: run(f32[2])\ndef run(x):\n    return x\n",
    "inputs": "from torch import nn\n\nclass Net(nn.Module): ...\n\ndef example_inputs():\n    return 1\n",
    "ignore": "x = 1  # fuselight: ignore[FL101]\n",
}


def test_many_files_are_read_as_each_alone_as_far_as_a_run_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {**PLAIN, **MARKED}
    alone = {path: read_source(path, text) for path, text in texts.items()}
    whole: list[str] = []

    def read(path: str, text: str) -> Reading:
        whole.append(path)
        return read_source(path, text)

    monkeypatch.setattr("fuselight_server.source.document.read_source", read)
    readings = read_sources(texts)
    assert list(readings) == list(texts)
    assert not {"plain", "module", "empty"} & set(whole)
    assert "main" in whole, "it may be a program of what it imports"
    for path, reading in readings.items():
        other_reading = alone[path]
        assert reading.syntax_error == other_reading.syntax_error, path
        assert default_runs(reading, RunOptions(())) == default_runs(other_reading, RunOptions(())), path
        assert (reading.ignores, reading.directive_problems) == (
            other_reading.ignores,
            other_reading.directive_problems,
        )
    assert {path for path in PLAIN if readings[path].syntax_error} == {
        *("no end", "no body", "stray", "open string")
    }


def test_a_target_that_the_user_names_is_found_in_any_file_and_so_is_a_similar_one() -> None:
    assert [target.name for target in read_sources(PLAIN, ["Net"])["module"].targets] == ["Net"]
    assert read_sources(PLAIN, ["__main__"])["main"].main_line == 3
    assert not read_sources(PLAIN, ["__main__"])["module"].targets
    assert read_sources(PLAIN, ["Nett"]) == {path: read_source(path, text) for path, text in PLAIN.items()}


def test_a_read_of_many_files_can_be_ended() -> None:
    assert read_sources(MARKED, stop=lambda: True) == {}
