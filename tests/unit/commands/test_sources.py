"""Finding and decoding files, and their size limit."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuselight.shared.report import Problem
from fuselight_server.base.finding import Span
from fuselight_server.commands.sources import CharacterSpan, SourceFiles, python_files, read_text


def test_folders_are_walked_in_order_without_environments_and_caches(tmp_path: Path) -> None:
    for name in ("b.py", "a.py", "sub/c.py", ".hidden/d.py", "__pycache__/e.py", "note.txt", "odd/f.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "odd" / "pyvenv.cfg").touch()
    posixes = [path.relative_to(tmp_path).as_posix() for path in python_files([tmp_path, tmp_path / "a.py"])]
    assert posixes == ["a.py", "b.py", "sub/c.py"]


def test_links_out_of_a_folder_are_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for path in (folder / "a.py", tmp_path / "outside.py"):
        path.touch()
    for name, target in {
        "in.py": "a.py",
        "out.py": "../outside.py",
        "zero.py": "/dev/zero",
        "gone.py": "no",
    }.items():
        (folder / name).symlink_to(target)
    (folder / "up").symlink_to(tmp_path)
    assert [path.name for path in python_files([folder])] == ["a.py", "gone.py", "in.py"]
    assert [path.name for path in python_files([folder / "out.py"])] == ["out.py"]


def test_an_explicitly_named_file_is_always_used(tmp_path: Path) -> None:
    assert list(python_files([tmp_path / "script"])) == [tmp_path / "script"]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"# -*- coding: latin-1 -*-\nx = '\xe9'\n", "# -*- coding: latin-1 -*-\nx = '\u00e9'\n"),
        (b"\xef\xbb\xbfx = 1\r\n", "x = 1\r\n"),
        ("x = '\U0001f600'".encode(), "x = '\U0001f600'"),
    ],
    ids=["cookie", "byte order mark", "utf-8"],
)
def test_a_file_is_decoded_as_python_would(tmp_path: Path, data: bytes, text: str) -> None:
    path = tmp_path / "file.py"
    path.write_bytes(data)
    assert read_text(path) == text


@pytest.mark.parametrize(
    "data", [b"# coding: nonsense\n", b"x = '\xff\xfe'\n", None], ids=["cookie", "bytes", "absent"]
)
def test_an_unreadable_file_is_a_problem(tmp_path: Path, data: bytes | None) -> None:
    path = tmp_path / "file.py"
    if data is not None:
        path.write_bytes(data)
    problem = read_text(path)
    assert isinstance(problem, Problem)
    assert problem.what == str(path)


def place(text: str, span: Span) -> CharacterSpan:
    return SourceFiles({span.path: text.split("\n")}).character_span(span)


def test_columns_are_counted_in_characters() -> None:
    span = Span("f", 1, 5, 1, 9)  # "é" is two bytes, the smiley four
    assert place("é = \U0001f600x", span) == CharacterSpan(1, 5, 1, 6)


def test_without_columns_the_span_starts_at_the_first_character() -> None:
    assert place("    return x  ", Span("f", 1)) == CharacterSpan(1, 5, 1, 13)


def test_a_span_over_lines_ends_on_the_last_one() -> None:
    assert place("f(\n  x)", Span("f", 1, 0, 2, 4)) == CharacterSpan(1, 1, 2, 5)


def test_a_location_outside_the_file_still_has_numbers() -> None:
    assert place("x", Span("f", 7, 3, 7, 5)) == CharacterSpan(7, 4, 7, 6)
